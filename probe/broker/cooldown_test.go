package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/borescope/borescope/probe"
)

// TestPauseNames: a place has one name for all processes, periods and ways to say it. A name
// that had the pid or the period let the same samples be attached again at once.
func TestPauseNames(t *testing.T) {
	name := func(text string) string {
		target, err := probe.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		return placeName(&probe.Plan{}, &probe.Site{Target: target})
	}
	for _, same := range [][]string{
		{"software:cpu-clock:10001 pid=7", "software:cpu-clock:10002 pid=8", "perf:task-clock:hz:99", "profile:us:10"},
		{"software:page-faults:1 pid=7", "software:page-faults:2 pid=8", "perf:page-faults:u:hz:3"},
		{"hardware:cycles:1000 pid=7", "perf:r3c:period:7 pid=8", "perf:r1003c:hz:99"},
		{"watchpoint:0x1000:8:w pid=7", "watchpoint:0x2000:4:rw pid=8"},
		{"uprobe:/a:f pid=7", "uprobe:/a:f pid=8"},
	} {
		for _, text := range same {
			if a, b := name(same[0]), name(text); a != b {
				t.Errorf("%s is %q, %s is %q", same[0], a, text, b)
			}
		}
	}
	if a, b := name("software:page-faults:1"), name("software:minor-faults:1"); a == b {
		t.Errorf("different events: %q", a)
	}
}

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
