package collect_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
)

// Under the race detector an instrumented loop would be in its C code instead.
//
//go:noinline
//go:norace
func burn(cpu time.Duration) {
	used := func() time.Duration {
		var ts unix.Timespec
		unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
		return time.Duration(ts.Nano())
	}
	for end := used() + cpu; used() < end; {
		for range 1_000_000 {
			sink++
		}
	}
}

// TestBurns is the child: it computes for a while and ends.
func TestBurns(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "burn" {
		return
	}
	burn(400 * time.Millisecond)
	os.Exit(0)
}

func profiler(t *testing.T, c *collect.Collector) *collect.Profiler {
	t.Helper()
	p, err := collect.NewProfiler(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// ofProcess returns how many samples a process has in a profile, and of how many its function
// burn is a frame.
func ofProcess(p *profile.Profile, pid int) (all, burning int64) {
	for _, s := range p.Samples {
		if s.PID != pid {
			continue
		}
		all += s.Values[0]
	frames:
		for _, f := range s.Frames {
			for _, fn := range f.Functions {
				if strings.HasSuffix(fn.Name, "collect_test.burn") && fn.Line > 0 && f.Mapping != nil {
					burning += s.Values[0]
					break frames
				}
			}
		}
	}
	return all, burning
}

// A profile of a process that has ended by then, with names, lines and modules; the next window
// has nothing of it.
func TestProfiler(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	clock, err := pmc.ParseEvent("cpu-clock", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := profiler(t, attach(t, probe.Perf{Event: clock, Freq: 499}, &collect.Options{Windows: true}))
	cmd, _, _ := startWork(t, "TestBurns", "burn", 0)
	pid := cmd.Process.Pid
	cmd.Wait()
	so, err := p.Profile()
	if err != nil {
		t.Fatal(err)
	}
	prof, err := p.Window()
	if err != nil {
		t.Fatal(err)
	}
	all, burning := ofProcess(prof, pid)
	// 400 ms are 200 samples, less late ticks: 62 were left on an emulated machine whose host was
	// busy. The rest of all is its start, which takes long there.
	if before, _ := ofProcess(so, pid); burning < 20 || all < burning || all < before {
		t.Errorf("%d samples, %d of them in burn; %d a moment before", all, burning, before)
	}
	want := []profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}
	if len(prof.SampleTypes) != 2 || prof.SampleTypes[0] != want[0] || prof.SampleTypes[1] != want[1] ||
		prof.Period != int64(time.Second)/499 || prof.Duration < 400*time.Millisecond {
		t.Errorf("types %v, period %d, %v", prof.SampleTypes, prof.Period, prof.Duration)
	}
	for _, s := range prof.Samples {
		if len(s.Values) != 2 || s.Values[1] != s.Values[0]*prof.Period {
			t.Fatalf("values %v", s.Values)
		}
	}
	if err := prof.WritePprof(new(strings.Builder)); err != nil {
		t.Error(err)
	}
	next, err := p.Window()
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := ofProcess(next, pid); all != 0 || !next.Time.Equal(prof.Time.Add(prof.Duration)) {
		t.Errorf("%d samples in the next window, from %v on", all, next.Time)
	}
	if p.Collector().Plan() == nil {
		t.Error("no plan")
	}
	owned := testenv.ObjectsOf(0)
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	owned.WaitGone(t)
	if _, err := p.Window(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a window after Close: %v", err)
	}
}

// The values of waits are named by what they are.
func TestProfilerOfWaits(t *testing.T) {
	n := startReader(t)
	p := profiler(t, n.attach(collect.OffCPU, collect.WaitOptions{
		Options: collect.Options{Windows: true}, Min: holdTime, States: collect.Interruptible,
	}))
	n.feed()
	prof, err := p.Window()
	if err != nil {
		t.Fatal(err)
	}
	var waits, ns int64
	for _, s := range prof.Samples {
		waits += s.Values[0]
		ns += s.Values[1]
	}
	if prof.SampleTypes[1] != (profile.ValueType{Type: "delay", Unit: "nanoseconds"}) || waits == 0 ||
		ns < waits*int64(holdTime) {
		t.Errorf("%v: %d, %d ns", prof.SampleTypes, waits, ns)
	}
	if _, err := collect.NewProfiler(nil, nil); err == nil {
		t.Error("a profiler of nothing")
	}
}
