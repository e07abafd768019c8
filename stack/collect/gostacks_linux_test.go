package collect_test

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

// TestGoWork is the child of TestGoStacks.
func TestGoWork(t *testing.T) {
	switch os.Getenv("COLLECT_WORKLOAD") {
	case "gc": // much of which runs on the threads' own stacks
		for {
			garbage = append(garbage[:0], make([]*[64]byte, 1000)...)
			for i := range garbage {
				garbage[i] = new([64]byte)
			}
			runtime.GC()
		}
	case "grow": // copying a stack takes longer than filling it
		for {
			var wg sync.WaitGroup
			wg.Go(func() { deepen(50) })
			wg.Wait()
		}
	case "clock":
		for {
			sink += time.Now().Nanosecond() & 1
		}
	}
}

var garbage []*[64]byte

//go:noinline
func deepen(n int) byte {
	var frame [4096]byte
	if n > 0 {
		frame[n%len(frame)] = deepen(n - 1)
	}
	return frame[n/2%len(frame)]
}

// Stacks of a Go program without symbols or call frame information, as go test
// links its tests: they are whole, also where the runtime has changed to the
// thread's own stack.
func TestGoStacks(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Arch("amd64", "arm64"))
	for _, w := range []struct{ name, function string }{
		{"gc", "runtime.systemstack"},
		{"grow", "runtime.morestack"},
		{"clock", "time.now"},
	} {
		if w.name == "clock" && runtime.GOARCH != "amd64" {
			continue // arm64's vDSO has no call frame information
		}
		if w.name != "gc" && meter.Raced() {
			continue // its C code runs on the thread's own stack, and only R12 knows the goroutine's
		}
		t.Run(w.name, func(t *testing.T) { goStacks(t, w.name, w.function) })
	}
}

// goStacks samples a workload and looks for whole stacks from a goroutine's
// beginning through a function that changes to the thread's own stack.
func goStacks(t *testing.T, name, function string) {
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestGoWork$")
	cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD="+name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	pid := cmd.Process.Pid
	c := attach(t, probe.Perf{Freq: 499}, &collect.Options{PIDs: []int{pid}, NoKernel: true})
	defer c.Close()
	p, err := symbol.OpenProcess(pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var whole, crossed, all uint64
	for _, s := range walkedStacks(t, c, pid, uint64(testenv.Times(300, 100))) {
		all += s.count
		if s.Stopped != stack.StopBottom {
			continue
		}
		whole += s.count
		if crossesStacks(p, s.Frames, function) {
			crossed += s.count
		}
	}
	t.Logf("%d of %d whole, %d through %s", whole, all, crossed, function)
	least := all * 95 / 100
	if meter.Raced() { // 290 of 309: its C code again
		least = all * 85 / 100
	}
	if whole < least || crossed == 0 {
		t.Errorf("%d of %d stacks reach the goroutine's or thread's start, %d of them through %s", whole, all, crossed, function)
	}
}

func names(p *symbol.Process, frames []stack.Frame) (out []string) {
	for _, f := range frames {
		out = append(out, p.Resolve(nil, []uint64{f.LookupPC()})[0].Name)
	}
	return out
}

// crossesStacks says whether a stack leads from the thread's own stack, through
// a function, to a goroutine's beginning.
func crossesStacks(p *symbol.Process, frames []stack.Frame, function string) bool {
	all := names(p, frames)
	if !strings.HasPrefix(all[len(all)-1], "runtime.goexit") {
		return false
	}
	return slices.ContainsFunc(all[:len(all)-1], func(name string) bool { return strings.HasPrefix(name, function) })
}
