package collect_test

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
)

// TestWalkerTakesOver: the programs with the walker take over from those without while threads on all CPUs
// call without a pause, and each call is counted once. Where the kernel may preempt a thread between the two
// programs of an event, that is one event of a CPU at most.
func TestWalkerTakesOver(t *testing.T) {
	testenv.Need(t, testenv.Native, testenv.Root, testenv.Tracepoint("syscalls", "sys_enter_getppid"))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 1)) // loading need not wait for a thread's end
	var most uint64
	if feature.KernelAtLeast("7.0") {
		most = uint64(runtime.NumCPU())
	}
	for range 3 {
		c := attach(t, probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"},
			&collect.Options{NoKernel: true, PIDs: []int{os.Getpid()}, IncludeSelf: true})
		var calls atomic.Uint64
		var stop atomic.Bool
		var all sync.WaitGroup
		for range runtime.NumCPU() {
			all.Go(func() {
				for !stop.Load() {
					for range 100 {
						syscall.Getppid()
					}
					calls.Add(100)
				}
			})
		}
		err := c.LoadWalker()
		stop.Store(true)
		all.Wait()
		testenv.SkipUnsupported(t, err)
		samples, err := c.Samples()
		if err != nil {
			t.Fatal(err)
		}
		var counted uint64
		for _, s := range samples {
			counted += s.Count
		}
		if want := calls.Load(); counted+most < want || counted > want+most {
			stats, _ := c.Stats()
			t.Errorf("%d calls are counted, of %d: %+v", counted, want, stats)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
