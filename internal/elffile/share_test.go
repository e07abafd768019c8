package elffile_test

import (
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elffile"
)

// TestShare: a base at once, then so much a second.
func TestShare(t *testing.T) {
	var s elffile.Share
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
		if got := s.Take(c.n, 100, now.Add(c.after)); got != c.want {
			t.Errorf("%d after %v: %v, want %v", c.n, c.after, got, c.want)
		}
	}
}
