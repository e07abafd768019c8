package collect_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

// TestCollecting is the child of TestGoStacks: it works the garbage collector,
// much of which runs on the threads' own stacks.
func TestCollecting(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "gc" {
		return
	}
	for {
		garbage = append(garbage[:0], make([]*[64]byte, 1000)...)
		for i := range garbage {
			garbage[i] = new([64]byte)
		}
		runtime.GC()
	}
}

var garbage []*[64]byte

// Stacks of a Go program without symbols or call frame information, as go test
// links its tests: they are whole, also where the runtime has changed to the
// thread's own stack.
func TestGoStacks(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Arch("amd64"))
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestCollecting$")
	cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD=gc")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	pid := cmd.Process.Pid
	c := attach(t, probe.Perf{Freq: 499}, &collect.Options{PIDs: []int{pid}, NoKernel: true})
	defer c.Close()
	if err := c.LoadWalker(); err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	if err := c.AddProcess(pid); err != nil {
		t.Log(err) // the vsyscall page has no file
	}
	p, err := symbol.OpenProcess(pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before, err := c.Samples()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]uint64)
	for _, s := range before {
		known[fmt.Sprint(s.User)] += s.Count
	}
	var whole, crossed, all uint64
	for all < 300 {
		time.Sleep(10 * time.Millisecond)
		samples, err := c.Samples()
		if err != nil {
			t.Fatal(err)
		}
		whole, crossed, all = 0, 0, 0
		for _, s := range samples {
			n := s.Count - known[fmt.Sprint(s.User)]
			all += n
			if s.User.End != stack.EndBottom {
				continue
			}
			whole += n
			if crossesStacks(p, s.User.Frames) {
				crossed += n
			}
		}
	}
	t.Logf("%d of %d whole, %d through systemstack", whole, all, crossed)
	if whole < all*95/100 || crossed == 0 {
		t.Errorf("%d of %d stacks reach the goroutine's or thread's start, %d of them through systemstack", whole, all, crossed)
	}
}

// crossesStacks says whether a stack leads from the thread's own stack to a
// goroutine's beginning.
func crossesStacks(p *symbol.Process, frames []stack.Frame) bool {
	name := func(i int) string { return p.Resolve(nil, []uint64{frames[i].LookupPC()})[0].Name }
	if !strings.HasPrefix(name(len(frames)-1), "runtime.goexit") {
		return false
	}
	for i := range frames {
		if strings.HasPrefix(name(i), "runtime.systemstack") {
			return i < len(frames)-1
		}
	}
	return false
}
