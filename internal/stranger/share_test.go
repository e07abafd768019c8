package stranger

import (
	"testing"
	"time"
)

// TestShare: a base at once, then so much a second, and never more than the base: a program
// that ran for a day had so much left that nothing bounded what came then.
func TestShare(t *testing.T) {
	var s Share
	now := time.Unix(1, 0)
	l := Limit{Base: 20 << 20, Second: 10 << 20}
	for _, c := range []struct {
		n     int64
		after time.Duration
		want  bool
	}{
		{20 << 20, 0, true},
		{1, 0, false},
		{10 << 20, time.Second, true},
		{1, time.Second, false},
		{6 << 20, 1500 * time.Millisecond, false},
		{4 << 20, 1500 * time.Millisecond, true},
		{2 << 20, time.Second, false}, // a clock that goes back
		{20<<20 + 1, 24 * time.Hour, false},
		{20 << 20, 24 * time.Hour, true},
		{1, 24 * time.Hour, false},
	} {
		if got := s.Take(Owner{}, Party{}, c.n, l, now.Add(c.after)); got != c.want {
			t.Errorf("%d after %v: %v, want %v", c.n, c.after, got, c.want)
		}
	}
}

// TestReplay: where no time passes, the same is read on a slow machine.
func TestReplay(t *testing.T) {
	var s Share
	l := Limit{Base: 100, Second: 100}
	for _, want := range []bool{true, false} {
		if got := s.Take(Owner{}, Party{}, 100, l, time.Time{}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestParties: a process that reads all it can leaves most to others, a user's processes all
// together too, and a process that the user has chosen has more.
func TestParties(t *testing.T) {
	now := time.Unix(1, 0)
	l := Bytes(800)
	greedy := func(s *Share, p Party) (n int64) {
		for s.Take(Owner{}, p, 1, l, now) {
			n++
		}
		return n
	}
	var s Share
	if n := greedy(&s, Party{PID: 1}); n != 100 {
		t.Errorf("the first process has %d", n)
	}
	var mallory int64
	for pid := 2; pid < 1000; pid++ {
		mallory += greedy(&s, Party{pid, 1000})
	}
	if mallory < 150 || mallory > 200 {
		t.Errorf("the processes of a user have %d", mallory)
	}
	if n := greedy(&s, Party{1000, 1001}); n < 50 {
		t.Errorf("another user's process has %d", n)
	}
	if n := greedy(&Share{Chosen: true}, Party{PID: 1}); n != 400 {
		t.Errorf("a chosen process has %d", n)
	}
}

// TestStrangers: of each stranger one file, and more as far as they have room, which
// is nobody else's.
func TestStrangers(t *testing.T) {
	var s Share
	now := time.Unix(1, 0)
	l := Bytes(512 << 20)
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
		{Owner{uid: 1, stranger: true}, 513 << 20, 100 * time.Second, false}, // more than all have
	} {
		if got := s.Take(c.o, Party{}, c.n, l, now.Add(c.after)); got != c.want {
			t.Errorf("%d for %+v after %v: %v, want %v", c.n, c.o, c.after, got, c.want)
		}
	}
}
