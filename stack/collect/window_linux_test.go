package collect_test

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
)

// What the child of TestWindows does: calls from two threads, then from ever deeper.
const (
	windowCalls = 400 // of caller
	deepest     = 64
)

//go:noinline
func deep(n int) {
	if n == 0 {
		leaf(1)
		return
	}
	deep(n - 1)
	sink++ // no tail call
}

// TestManyCalls is the child: for each line it does what that says.
func TestManyCalls(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "windows" {
		return
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "many":
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					runtime.LockOSThread()
					for range windowCalls {
						caller()
					}
				})
			}
			all.Wait()
		case "deep":
			for n := range deepest {
				deep(n)
			}
		case "go":
			caller()
		}
		os.Stdout.WriteString("done\n")
	}
	os.Exit(0)
}

func startCalls(t *testing.T) *child {
	t.Helper()
	cmd, in, out := startWork(t, "TestManyCalls", "windows", 0)
	return &child{t, cmd, in, bufio.NewReader(out)}
}

func (c *child) does(what string) error {
	c.in.WriteString(what + "\n")
	line, err := c.out.ReadString('\n')
	if err == nil && line != "done\n" {
		err = errors.New("the workload says " + line)
	}
	return err
}

func leafProbe(t *testing.T) probe.Target {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return probe.Uprobe{Path: exe, Symbol: "github.com/borescope/borescope/stack/collect_test.leaf"}
}

// window reads a window, in which every stack is whole or ends for a reason of its own, and
// returns how many samples it has.
func window(t *testing.T, c *collect.Collector) (n uint64) {
	t.Helper()
	samples, err := c.ReadAndClear()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		n += s.Count
		if s.Value != int64(s.Count) {
			t.Errorf("%d samples stand for %d", s.Count, s.Value)
		}
		if s.User.Stopped == stack.StopBadMemory || len(s.User.Frames) < 3 {
			t.Errorf("a stack of a window: %+v", s.User)
		}
	}
	return n
}

// Every sample is in one window, whenever that begins, and its stack with it, whoever walks it.
func TestWindows(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	for _, walker := range []bool{false, true} {
		name := "helper"
		if walker {
			name = "walker"
		}
		t.Run(name, func(t *testing.T) {
			w := startCalls(t)
			c := attach(t, leafProbe(t), &collect.Options{PIDs: []int{w.cmd.Process.Pid}, NoKernel: true, Windows: true})
			defer c.Close()
			if walker {
				testenv.SkipUnsupported(t, c.LoadWalker())
				if err := c.AddProcess(w.cmd.Process.Pid); err != nil {
					t.Log(err) // arm64's vdso has no table
				}
			}
			done := make(chan error, 1)
			go func() { done <- w.does("many") }()
			n, windows := uint64(0), 0
			for ended := false; !ended; windows++ {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					ended = true
				default:
				}
				n += window(t, c)
			}
			stats, err := c.Stats()
			if err != nil {
				t.Fatal(err)
			}
			const want = 2 * windowCalls * workload
			if n != want || stats.Samples != want || stats.Lost() != 0 || windows < 3 {
				t.Errorf("%d samples in %d windows, want %d; %+v", n, windows, want, stats)
			}
			if left, err := c.Samples(); err != nil || len(left) != 0 {
				t.Errorf("%d samples are left after the last window, %v", len(left), err)
			}
			owned := testenv.ObjectsOf(0)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			owned.WaitGone(t)
			if _, err := c.ReadAndClear(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("a window after Close: %v", err)
			}
		})
	}
}

// A full table loses samples until the window ends, and none of the next one's.
func TestWindowsRecover(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startCalls(t)
	c := attach(t, leafProbe(t), &collect.Options{
		PIDs: []int{w.cmd.Process.Pid}, NoKernel: true, Windows: true, MaxStacks: deepest / 2,
	})
	defer c.Close()
	for range 3 {
		if err := w.does("deep"); err != nil {
			t.Fatal(err)
		}
		before, err := c.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if n := window(t, c); n == 0 || n > deepest/2 {
			t.Errorf("%d stacks of %d in a window with room for %d", n, deepest, deepest/2)
		}
		if err := w.does("go"); err != nil {
			t.Fatal(err)
		}
		n := window(t, c)
		after, err := c.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if n != workload || after.Lost() != before.Lost() || before.LostFull == 0 {
			t.Errorf("%d samples, want %d; %+v, before %+v", n, workload, after, before)
		}
	}
}

// A wait is in the window in which it ends, with the stack with which it began.
func TestWindowsOfWaits(t *testing.T) {
	for _, kind := range []collect.Waits{collect.OffCPU, collect.OffWake, collect.Wakeups} {
		n := startReader(t)
		c := n.attach(kind, collect.WaitOptions{
			Options: collect.Options{Windows: true}, Min: holdTime, States: collect.Interruptible,
		})
		done := make(chan bool)
		go func() {
			defer close(done)
			n.feed()
		}()
		var waits uint64
		windows := 0
		for ended := false; !ended; windows++ {
			select {
			case <-done:
				ended = true
			default:
			}
			samples, err := c.ReadAndClear()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range samples {
				if s.TID != n.tid {
					continue
				}
				waits += s.Count
				stacks := []stack.Stack{s.Kernel, s.User}
				if kind == collect.Wakeups {
					stacks = stacks[:0] // those of the waker count
				}
				if w := s.Waker; w != nil {
					stacks = append(stacks, w.Kernel)
				}
				for _, st := range stacks {
					if len(st.Frames) == 0 || st.Stopped == stack.StopBadMemory {
						t.Errorf("%v: a stack of a window: %+v", kind, st)
					}
				}
			}
		}
		stats, err := c.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if missing := stats.Unended + stats.Gaps + stats.Unwoken + stats.Missed; waits > workload || waits+missing < workload || windows < 2 {
			t.Errorf("%v: %d waits of %d in %d windows, %+v", kind, waits, workload, windows, stats)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Windows that were recorded are replayed one after the other; without the option there are
// none.
func TestWindowsReplay(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startCalls(t)
	dir := t.TempDir() + "/rec"
	rec, err := recording.Create(dir, &recording.Meta{Tool: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c := attach(t, leafProbe(t), &collect.Options{PIDs: []int{w.cmd.Process.Pid}, Windows: true})
	c.Record(rec)
	var want [][]collect.Sample
	for range 3 {
		if err := w.does("go"); err != nil {
			t.Fatal(err)
		}
		samples, err := c.ReadAndClear()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, samples)
	}
	if err := errors.Join(c.Close(), rec.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	again, err := collect.Replay(r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		got, err := again.ReadAndClear()
		if err != nil || len(got) == 0 || len(got) != len(want[i]) || got[0].Count != want[i][0].Count ||
			len(got[0].User.Frames) != len(want[i][0].User.Frames) {
			t.Errorf("window %d: %+v, %v, want %+v", i, got, err, want[i])
		}
	}
	plain := attach(t, leafProbe(t), nil)
	defer plain.Close()
	if _, err := plain.ReadAndClear(); err == nil || !strings.Contains(err.Error(), "Options.Windows") {
		t.Errorf("without windows: %v", err)
	}
}
