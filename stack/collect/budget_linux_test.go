package collect

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/stack/python"
	"github.com/borescope/borescope/symbol"
)

// TestPythonBudget: interpreted frames beyond the budget say so, and the next samples have a new
// one. A process with two million functions had all of them read.
func TestPythonBudget(t *testing.T) {
	pid, _ := stacktest.StartPython(t, testenv.Pythons(t)[0], `
import time
def wait():
    print("ready", flush=True)
    time.sleep(1000)
wait()
`)
	p, err := python.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	frames, err := p.Frames(nil, pid)
	if err != nil || len(frames) < 2 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	c := &Collector{memory: stack.Budget{Calls: 10}}
	c.counts, c.segments = none[taskKey, counted]{}, none[segment, uint64]{}
	c.pythons.Store(pid, p.Within(&c.memory))
	r := c.Resolver(pid, symbol.Chain(nil))
	var pcs []uint64
	for range 10 {
		for _, f := range frames {
			pcs = append(pcs, lookupPC(f))
		}
	}
	for range 2 {
		if _, err := c.Samples(); err != nil {
			t.Fatal(err)
		}
		named, beyond := 0, 0
		for _, f := range r.Resolve(nil, pcs) {
			switch {
			case f.Name != "" && f.Reason == symbol.ReasonNone:
				named++
			case f.Name == "" && f.Reason == symbol.ReasonBudget:
				beyond++
			}
		}
		if named != 1 || named+beyond != len(pcs) {
			t.Errorf("%d named, %d beyond the budget, of %d", named, beyond, len(pcs))
		}
	}
}

// none is an empty table.
type none[K comparable, V any] struct{ mapx.Table[K, V] }

func (none[K, V]) Snapshot() (s mapx.Snapshot[K, V], err error) { return s, nil }

// stuckCodes never answers for one code object.
type stuckCodes struct{ answer chan struct{} }

func (s stuckCodes) Code(addr uint64) (*python.Code, error) {
	if addr == 2 {
		<-s.answer
	}
	return &python.Code{Name: "f"}, nil
}

// TestPythonWaits: a process that has its code objects where another one serves them, and does
// not answer, keeps nobody waiting: what was read before has names.
func TestPythonWaits(t *testing.T) {
	stuck := stuckCodes{make(chan struct{})}
	defer close(stuck.answer)
	n := &pythonNames{symbol.Chain(nil), stuck, os.Getpid()}
	frames := n.Resolve(nil, []uint64{1 | interpretedTag, 7, 2 | interpretedTag, 3 | interpretedTag})
	var got []string
	for _, f := range frames {
		got = append(got, fmt.Sprintf("%d %s%v", f.Index, f.Name, f.Reason))
	}
	want := []string{
		"0 py::f:", "2 " + symbol.ReasonServed.String(), "3 " + symbol.ReasonServed.String(),
		"1 " + symbol.ReasonNoMapping.String(),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
