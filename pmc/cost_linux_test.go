package pmc

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

func TestReadAllocatesNothing(t *testing.T) {
	testenv.Need(t, testenv.Root)
	onThread(t)
	c := openAll(t, Scope{}, nil, TaskClock(), CPUClock(), PageFaults(), ContextSwitches())
	k := read(t, c)
	if n := testing.AllocsPerRun(100, func() {
		if err := c.Read(&k); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestReadCost: reading a group of four costs at most one read(2) and 200 ns.
// The fastest of many batches is compared, since the machine is shared.
func TestReadCost(t *testing.T) {
	testenv.Need(t, testenv.Root)
	needClock(t)
	onThread(t)
	c := openAll(t, Scope{}, nil, TaskClock(), CPUClock(), PageFaults(), ContextSwitches())
	k := read(t, c)
	fd, buf := c.groups[0].handles[0].fd, make([]byte, 256)
	bare := fastest(func() { unix.Read(fd, buf) })
	ours := fastest(func() { c.Read(&k) })
	t.Logf("read(2) %v, Counters.Read %v", bare, ours)
	if ours > bare+200*time.Nanosecond {
		t.Errorf("Counters.Read %v, read(2) %v", ours, bare)
	}
}

// needClock skips what compares times where they mean nothing.
func needClock(t *testing.T) {
	t.Helper()
	switch {
	case testing.Short():
		testenv.Need(t, testenv.Got("time", errors.New("-short")))
	case raceDetector:
		testenv.Need(t, testenv.Got("time", errors.New("the race detector slows it down")))
	case testenv.InGuest():
		testenv.Need(t, testenv.Got("time", errors.New("a guest's is not the machine's")))
	}
}

// fastest is the time of one call in the fastest of many batches.
func fastest(f func()) time.Duration {
	const batch = 200
	best := time.Hour
	for range 300 {
		t0 := time.Now()
		for range batch {
			f()
		}
		best = min(best, time.Since(t0)/batch)
	}
	return best
}

// TestOpenCost: opening four events on all CPUs takes at most twice what the
// system calls take.
func TestOpenCost(t *testing.T) {
	testenv.Need(t, testenv.Root)
	needClock(t)
	events := []Event{CPUClock(), PageFaults(), ContextSwitches(), CPUMigrations()}
	online, err := OnlineCPUs(nil)
	if err != nil {
		t.Fatal(err)
	}
	bare := func() {
		var fds []int
		for _, cpu := range online {
			leader := -1
			for _, e := range events {
				a := e.Attr()
				a.ReadFormat = 0x1f
				if leader < 0 {
					a.Flags |= AttrDisabled
				}
				fd, err := perfEventOpen(&a, OnCPU(cpu), leader)
				if err != nil {
					t.Fatal(err)
				}
				if leader < 0 {
					leader = fd
				}
				fds = append(fds, fd)
			}
			unix.IoctlSetInt(leader, unix.PERF_EVENT_IOC_ENABLE, 1)
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	ours := func() {
		c, err := Open(events, Scope{AllCPUs: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 50 {
		for i, f := range []func(){bare, ours} {
			t0 := time.Now()
			f()
			best[i] = min(best[i], time.Since(t0))
		}
	}
	t.Logf("system calls %v, Open and Close %v", best[0], best[1])
	if best[1] > 2*best[0] {
		t.Errorf("Open and Close take %v, the system calls %v", best[1], best[0])
	}
}
