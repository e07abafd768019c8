package collect_test

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
)

// TestBriefWork is the child of TestBrief: it does 23 calls at once, and ends.
func TestBriefWork(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "brief" {
		return
	}
	caller()
	os.Exit(0)
}

// TestBrief: processes end some milliseconds after they have begun, before or while the rules of their
// file are read. Each of their calls is counted once, and its stack is whole.
func TestBrief(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tracepoint("syscalls", "sys_enter_getppid"))
	for name, o := range map[string]collect.Options{
		"whole":    {NoKernel: true},
		"windows":  {NoKernel: true, Windows: true},
		"summed":   {NoKernel: true, Value: "__syscall_nr"},
		"replayed": {NoKernel: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Comm = "exe" // of /proc/self/exe
			c := attach(t, probe.Tracepoint{Group: "syscalls", Name: "sys_enter_getppid"}, &o)
			defer c.Close()
			ps := symbol.NewProcesses(nil)
			defer ps.Close()
			var unwalked error
			stop := c.Watch(ps, func(err error) { unwalked = err })
			children := map[int]bool{}
			var samples []collect.Sample
			times := testenv.Times(10, 4)
			for range times {
				cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestBriefWork$")
				cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD=brief")
				if err := cmd.Run(); err != nil {
					t.Fatal(err)
				}
				children[cmd.Process.Pid] = true
				// Its copies are walked, of which the ring has no room for all.
				read := c.Samples
				if o.Windows {
					read = c.ReadAndClear
				}
				w, err := read()
				if err != nil {
					t.Fatal(err)
				}
				if o.Windows {
					samples = append(samples, w...)
				}
			}
			// Samples does not wait for a file to be compiled, the end of watching does.
			if err := stop(); err != nil {
				t.Error(err)
			}
			replay := func([]collect.Sample, collect.Stats) {}
			if name == "replayed" {
				replay = recorded(t, c)
			}
			last, err := c.Samples()
			if err != nil {
				t.Fatal(err)
			}
			stats, err := c.Stats()
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, last...)
			testenv.SkipUnsupported(t, unwalked)
			var all, whole uint64
			cut := map[stack.StopReason]uint64{}
			for _, s := range samples {
				if !children[s.PID] {
					continue
				}
				all += s.Count
				if s.User.Stopped == stack.StopBottom && len(s.User.Frames) > 4 {
					whole += s.Count
				} else {
					cut[s.User.Stopped] += s.Count
				}
				if o.Value != "" && s.Value != int64(s.Count)*syscall.SYS_GETPPID {
					t.Errorf("%d calls have the value %d", s.Count, s.Value)
				}
				if s.First == 0 || s.Last < s.First || s.Last-s.First > uint64(time.Minute) {
					t.Errorf("%d samples from %d to %d", s.Count, s.First, s.Last)
				}
			}
			// On a busy machine files are compiled late, and copies of others wait for them.
			uncopied := stats.CopyFull + stats.CopyLimit
			if all != uint64(times)*workload || whole+uncopied < all*98/100 || whole < all/4 {
				t.Errorf("%d of %d calls counted, %d with whole stacks, others %v: %+v", all, times*workload, whole, cut, stats)
			}
			if stats.Copied == 0 || stats.Copied > stats.Unwalked ||
				stats.CopyFull+stats.CopyLimit > stats.Unwalked-stats.Copied {
				t.Errorf("copies: %+v", stats)
			}
			replay(samples, stats)
		})
	}
}

// recorded records what is read from c from now on: Samples and then Stats, once each. The function that it
// returns checks that their replay is the same.
func recorded(t *testing.T, c *collect.Collector) (replay func(samples []collect.Sample, stats collect.Stats)) {
	t.Helper()
	dir := t.TempDir()
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Record(rec)
	return func(samples []collect.Sample, stats collect.Stats) {
		t.Helper()
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		recorded, err := recording.Open(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		replay, err := collect.Replay(recorded)
		if err != nil {
			t.Fatal(err)
		}
		again, err := replay.Samples()
		replayed, serr := replay.Stats()
		if err := cmp.Or(err, serr); err != nil || !reflect.DeepEqual(again, samples) {
			t.Errorf("%d samples were replayed as %d: %v", len(samples), len(again), err)
		}
		if stats.Missed = 0; replayed != stats {
			t.Errorf("%+v was replayed as %+v", stats, replayed)
		}
	}
}

// TestBriefWaitsWork is the child of TestBriefWaits: a thread says its number, waits 23 times, and ends.
func TestBriefWaitsWork(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "wait" {
		return
	}
	runtime.LockOSThread()
	fmt.Println(syscall.Gettid())
	for range workload {
		ts := syscall.Timespec{Nsec: int64(holdTime)}
		syscall.Nanosleep(&ts, nil)
	}
	os.Exit(0)
}

// TestBriefWaits: the waits of processes that end after some of them are counted once, with the stacks with
// which they began, whole, also when the rules of their file come only between a wait's beginning and its end.
func TestBriefWaits(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracepoint("sched", "sched_switch"))
	for name, kind := range map[string]collect.Waits{
		"offcpu": collect.OffCPU, "offwake": collect.OffWake, "windows": collect.OffCPU, "replayed": collect.OffCPU,
	} {
		t.Run(name, func(t *testing.T) {
			const least = holdTime / 2 // the timer runs before the thread leaves its CPU
			o := &collect.WaitOptions{Options: collect.Options{Comm: "exe", Windows: name == "windows", PerThread: true}, Min: least, States: collect.Interruptible}
			c, err := collect.AttachWaits(kind, o)
			if err != nil {
				testenv.SkipUnsupported(t, err)
				t.Fatal(err)
			}
			defer c.Close()
			ps := symbol.NewProcesses(nil)
			defer ps.Close()
			var unwalked error
			stop := c.Watch(ps, func(err error) { unwalked = err })
			threads := map[int]bool{}
			var samples []collect.Sample
			read := func() {
				t.Helper()
				next, err := c.Samples()
				if o.Windows {
					next, err = c.ReadAndClear()
				} else {
					samples = nil
				}
				if err != nil {
					t.Fatal(err)
				}
				samples = append(samples, next...)
			}
			times := testenv.Times(5, 3)
			for range times {
				cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestBriefWaitsWork$")
				cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD=wait")
				tid := 0
				out, err := cmd.Output()
				if err == nil {
					_, err = fmt.Sscan(string(out), &tid)
				}
				if err != nil {
					t.Fatal(err)
				}
				threads[tid] = true
				read()
			}
			err = stop()
			replay := func([]collect.Sample, collect.Stats) {}
			if name == "replayed" {
				replay = recorded(t, c)
			}
			read()
			stats, serr := c.Stats()
			if err := cmp.Or(err, serr); err != nil {
				t.Fatal(err)
			}
			testenv.SkipUnsupported(t, unwalked)
			var all, whole uint64
			cut := map[stack.StopReason]uint64{}
			for _, s := range samples {
				if !threads[s.TID] {
					continue
				}
				all += s.Count
				if s.User.Stopped == stack.StopBottom && len(s.User.Frames) > 2 {
					whole += s.Count
				} else {
					cut[s.User.Stopped] += s.Count
				}
				if s.Value < int64(s.Count)*int64(least) || s.First == 0 || int64(s.Last-s.First) < int64(least) {
					t.Errorf("%d waits of %d ns from %d to %d", s.Count, s.Value, s.First, s.Last)
				}
			}
			made := uint64(times) * workload
			// A thread of Go's may have waited before, with the race detector in C code that has no rules. What is
			// not copied on a busy machine is counted.
			if all+stats.Missed+stats.Lost() < made || whole+stats.CopyFull+stats.CopyLimit < made*98/100 || whole < all/4 {
				t.Errorf("%d waits counted, want %d or more; %d with whole stacks, others %v: %+v", all, made, whole, cut, stats)
			}
			if stats.Copied == 0 || stats.Copied > stats.Unwalked {
				t.Errorf("copies: %+v", stats)
			}
			replay(samples, stats)
		})
	}
}
