package pmc

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/testenv"
)

func TestReadAllocatesNothing(t *testing.T) {
	testenv.Need(t, testenv.Root)
	lockThread(t)
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

// BenchmarkRead compares reading a group of four with the bare read(2).
func BenchmarkRead(b *testing.B) {
	testenv.Need(b, testenv.Root)
	lockThread(b)
	c := openAll(b, Scope{}, nil, TaskClock(), CPUClock(), PageFaults(), ContextSwitches())
	k := read(b, c)
	fd, buf := c.groups[0].handles[0].fd, make([]byte, 256)
	b.Run("read2", func(b *testing.B) {
		for b.Loop() {
			if _, err := unix.Read(fd, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Counters", func(b *testing.B) {
		for b.Loop() {
			if err := c.Read(&k); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUserReads compares reading two counters from the thread's own memory with read(2).
func BenchmarkUserReads(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.PMU)
	lockThread(b)
	m, err := OpenMeter([]Event{Cycles(), Instructions()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.Run("read2", func(b *testing.B) {
		var k Counts
		for b.Loop() {
			m.Read(&k)
		}
	})
	b.Run("Values", func(b *testing.B) {
		var v [2]uint64
		for b.Loop() {
			m.Values(v[:])
		}
	})
}

// BenchmarkOpen compares opening four events on all CPUs with the bare system
// calls.
func BenchmarkOpen(b *testing.B) {
	testenv.Need(b, testenv.Root)
	events := []Event{CPUClock(), PageFaults(), ContextSwitches(), CPUMigrations()}
	online, err := cpus.Online(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("syscalls", func(b *testing.B) {
		for b.Loop() {
			openBare(b, events, online)
		}
	})
	b.Run("Open", func(b *testing.B) {
		for b.Loop() {
			c, err := Open(events, Scope{AllCPUs: true}, nil)
			if err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
}

func openBare(b *testing.B, events []Event, cpus []int) {
	var fds []int
	for _, cpu := range cpus {
		leader := -1
		for _, e := range events {
			a := e.Attr()
			a.ReadFormat = 0x1f
			if leader < 0 {
				a.Flags |= perfring.AttrDisabled
			}
			fd, err := perfEventOpen(&a, onCPU(cpu), leader)
			if err != nil {
				b.Fatal(err)
			}
			if leader < 0 {
				leader = fd
			}
			fds = append(fds, fd)
		}
		if err := unix.IoctlSetInt(leader, unix.PERF_EVENT_IOC_ENABLE, 1); err != nil {
			b.Fatal(err)
		}
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
}
