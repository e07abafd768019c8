//go:build linux

package action

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// TestFilter: a plan's filter is compiled into the program.
func TestFilter(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	const times = 23
	for name, c := range map[string]struct {
		f    *probe.Filter
		want uint64
	}{
		"own":       {&probe.Filter{PIDs: []int{os.Getpid()}}, times},
		"other":     {&probe.Filter{PIDs: []int{1}}, 0},
		"namespace": {&probe.Filter{PIDNamespaceOf: os.Getpid(), MountNamespaceOf: os.Getpid(), PIDs: []int{os.Getpid()}}, times},
	} {
		t.Run(name, func(t *testing.T) {
			if c.f.MountNamespaceOf != 0 {
				testenv.Need(t, testenv.BTF)
			}
			n := &ir.Map{Name: "n", Agg: ir.AggCount}
			p := &Program{&ir.Program{Name: "filtered", IncludeSelf: true, Actions: []ir.Action{{
				Target: probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"},
				Body:   []*ir.Stmt{{Op: ir.StmtAgg, Map: n}},
			}}}}
			s, err := Attach(p, &Options{Resolve: &probe.Options{Filter: c.f}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			counter := countOwn(t, "syscalls:sys_enter_getppid")
			for range times {
				unix.Getppid()
			}
			if got := counter(); got != times {
				t.Errorf("a perf event counted %d, want %d", got, times)
			}
			var perCPU []uint64
			if err := s.EBPFMap(n).Lookup(uint32(0), &perCPU); err != nil {
				t.Fatal(err)
			}
			var got uint64
			for _, v := range perCPU {
				got += v
			}
			if got != c.want {
				t.Errorf("counted %d, want %d", got, c.want)
			}
		})
	}
}

// countOwn counts an event in this thread, as perf stat does, and returns what reads it.
func countOwn(t *testing.T, event string) func() uint64 {
	t.Helper()
	e, err := pmc.ParseEvent(event, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := pmc.Open([]pmc.Event{e}, pmc.Scope{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func() uint64 {
		var n pmc.Counts
		if err := c.Read(&n); err != nil {
			t.Fatal(err)
		}
		return n.Rows[0].Raw
	}
}
