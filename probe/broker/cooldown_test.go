package broker

import (
	"fmt"
	"testing"
	"time"
)

// TestPauses: twice as long each time, by user and place, and forgotten in time.
func TestPauses(t *testing.T) {
	var p pauses
	now := time.Unix(1, 0)
	expect := func(uid uint32, place string, want bool) {
		t.Helper()
		if err := p.check(uid, []string{"elsewhere", place}, now); (err != nil) != want {
			t.Errorf("user %d at %s after %v: %v", uid, place, now.Sub(time.Unix(1, 0)), err)
		}
	}
	expect(1, "a", false)
	for long := firstPause; long < 2*longestPause; long *= 2 {
		p.begin(1, []string{"a", "b"}, now)
		expect(1, "a", true)
		expect(1, "b", true)
		expect(1, "c", false)
		expect(2, "a", false)
		now = now.Add(min(long, longestPause) - time.Nanosecond)
		expect(1, "a", true)
		now = now.Add(time.Nanosecond)
		expect(1, "a", false)
	}
	now = now.Add(longestPause + time.Nanosecond)
	expect(1, "a", false)
	if len(p.of) != 0 {
		t.Errorf("kept: %v", p.of)
	}
	for i := range 2 * maxPauses {
		p.begin(1, []string{fmt.Sprint(i)}, now)
	}
	if n := len(p.of[1]); n != maxPauses {
		t.Errorf("%d pauses", n)
	}
	expect(1, "c", true) // it has too many
	expect(2, "c", false)
	now = now.Add(firstPause)
	expect(1, "c", false)
	p.begin(1, []string{"c"}, now) // though all the others are remembered
	expect(1, "c", true)
	expect(1, "d", false)
}
