package stranger

import (
	"testing"
	"time"
)

// TestShare: a base at once, then so much a second.
func TestShare(t *testing.T) {
	var s Share
	now := time.Unix(1, 0)
	for _, c := range []struct {
		n     int64
		after time.Duration
		want  bool
	}{
		{100, 0, true},
		{1, 0, false},
		{10 << 20, time.Second, true},
		{1, time.Second, false},
		{6 << 20, 1500 * time.Millisecond, false},
		{5 << 20, 1500 * time.Millisecond, true},
	} {
		if got := s.Take(Owner{}, c.n, 100, now.Add(c.after)); got != c.want {
			t.Errorf("%d after %v: %v, want %v", c.n, c.after, got, c.want)
		}
	}
}

// TestStrangers: of each stranger one file, and more as far as they have room, which
// is nobody else's.
func TestStrangers(t *testing.T) {
	var s Share
	now := time.Unix(1, 0)
	const base = 512 << 20
	a, b := Owner{stranger: true, uid: 1000}, Owner{stranger: true, namespace: 7}
	for _, c := range []struct {
		o     Owner
		n     int64
		after time.Duration
		want  bool
	}{
		{a, 1 << 20, 0, true},
		{a, 1 << 20, 0, true},
		{a, 8 << 20, 0, true}, // 8 MiB above their share
		{a, 0, 0, false},
		{b, 30 << 20, 0, true},
		{b, 0, 0, false},
		{a, 0, 31 * time.Second, false},
		{a, 0, 33 * time.Second, true},
		{b, 0, 100 * time.Second, false},
		{Owner{}, 400 << 20, 0, true},
		{Owner{uid: 1, stranger: true}, 100 << 20, 0, false}, // more than all have
	} {
		if got := s.Take(c.o, c.n, base, now.Add(c.after)); got != c.want {
			t.Errorf("%d for %+v after %v: %v, want %v", c.n, c.o, c.after, got, c.want)
		}
	}
}
