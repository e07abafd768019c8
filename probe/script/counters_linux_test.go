package script

import (
	"bytes"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestCounters: each counter of a program that tells of a loss is said, also those that tests cannot
// have counted.
func TestCounters(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	st := &bpf.Stats{NoScratch: 1, Busy: 2, Broken: 3, Unwalked: 4, Throttled: 5, Full: 7, Limited: 8}
	for _, inJSON := range []bool{false, true} {
		var out, said bytes.Buffer
		s := MustCompile(t, "begin { }", nil).newRun(&RunOptions{Stdout: &out, Stderr: &said, JSON: inJSON, Strict: true})
		s.lost = 6
		f, err := s.found(st)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.strictly(s.say(f)); err != ErrLost {
			t.Errorf("it ended with %v", err)
		}
		want := `WARNING: 6 events were lost: the ring was full
WARNING: Map full; can't update element (1 times). Try increasing max_map_keys config or manually setting the max entries in a map declaration e.g. ` + "`let @a = hash(5000)`" + `
WARNING: 1 firings were left out: too many programs were active on a CPU
WARNING: 8 events were left out: the budget has no room for them
WARNING: 5 firings were left out: the budget has no room for them
WARNING: 2 values were not deleted: the kernel was changing others
`
		got := said.String()
		if inJSON {
			got = out.String() + got
			want = `{"type": "losses", "data": {"ring": 6, "full": 1, "no_scratch": 1, "limited": 8, "throttled": 5, "busy": 2, "unwalked": 4, "broken": 3}}` + "\n"
		}
		if got != want {
			t.Errorf("it said\n%s\nwant\n%s", got, want)
		}
	}
}
