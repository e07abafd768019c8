package pclntab

import (
	"os"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
)

// The runs say the same as SPDelta does for each address, in this very program.
func TestSPDeltas(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elffile.Open(exe)
	if err != nil {
		testenv.Need(t, testenv.Got("an ELF executable", err))
	}
	defer f.Close()
	table, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for i := range table.Len() {
		fn, ok := table.Func(i)
		if !ok {
			t.Fatalf("function %d", i)
		}
		next := fn.Entry
		fn.SPDeltas(func(from, to uint64, delta int64) bool {
			runs++
			if from != next || to <= from {
				t.Errorf("%s: run from %#x to %#x after %#x", fn.Name(), from, to, next)
			}
			next = to
			for _, pc := range []uint64{from, to - 1} {
				if d, ok := fn.SPDelta(pc); !ok || d != delta {
					t.Errorf("%s: %#x: %d, %v; the run has %d", fn.Name(), pc, d, ok, delta)
				}
			}
			return !t.Failed()
		})
	}
	if runs < table.Len() {
		t.Errorf("%d runs in %d functions", runs, table.Len())
	}
}
