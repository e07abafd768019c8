package collect

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
)

// A wait whose end was not seen is counted as such when its thread leaves the CPU
// again, and never makes the wait that begins then a longer one. Where switches
// are missing is counted, too.
func TestUnended(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o := &WaitOptions{Min: 20 * time.Millisecond, States: Interruptible}
	o.IncludeSelf, o.PIDs, o.PerThread = true, []int{os.Getpid()}, true
	begin := time.Now()
	c, err := AttachWaits(OffCPU, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tid := unix.Gettid()
	// As if the thread had left an hour ago, and its return had not been seen; and as
	// if another one had come to each CPU.
	_, initial, err := kernel.InitialIDs()
	if err != nil {
		t.Fatal(err)
	}
	note := make([]byte, waitSize)
	if err := c.coll.Maps[mapWaits].Put(uint32(initial), note); err != nil {
		t.Fatal(err)
	}
	setLast(t, c, 1<<30)
	for {
		err := unix.Nanosleep(&unix.Timespec{Nsec: 50e6}, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) { // the runtime's signals interrupt it
			t.Fatal(err)
		}
	}
	samples, err := c.Samples()
	if err != nil {
		t.Fatal(err)
	}
	most := time.Since(begin)
	var waits uint64
	var total time.Duration
	for _, s := range samples {
		if s.TID == tid {
			waits += s.Count
			total += time.Duration(s.Value)
		}
	}
	stats, err := c.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if stats.Unended == 0 || stats.Gaps == 0 || stats.Lost() < stats.Unended+stats.Gaps {
		t.Errorf("%+v, want the wait of which no end was seen, and the gaps", stats)
	}
	if seen := waits > 0; total > most || !seen && stats.Unended-1+stats.Gaps == 0 {
		t.Errorf("%d waits of %v together in %v, %+v", waits, total, most, stats)
	}
}

// setLast says of a thread that it was seen to come to every CPU.
func setLast(t *testing.T, c *Collector, thread uint32) {
	t.Helper()
	var last []uint32
	if err := c.coll.Maps[mapLast].Lookup(uint32(0), &last); err != nil {
		t.Fatal(err)
	}
	for i := range last {
		last[i] = thread
	}
	if err := c.coll.Maps[mapLast].Put(uint32(0), last); err != nil {
		t.Fatal(err)
	}
}

// Switches that are missing count where a thread that is traced left or came, and
// not where others did.
func TestGapsOfOthers(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	const nobody = 1 << 22 // no process has this number (PID_MAX_LIMIT)
	for _, tc := range []struct {
		name string
		last uint32
		gaps bool
	}{
		{"others", nobody + 1, false},
		{"traced", nobody + 1 | 1<<lastTraced, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := &WaitOptions{States: Interruptible}
			o.PIDs = []int{nobody}
			c, err := AttachWaits(OffCPU, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			setLast(t, c, tc.last)
			for range 20 { // each CPU that this thread runs on switches
				time.Sleep(5 * time.Millisecond)
			}
			stats, err := c.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if (stats.Gaps > 0) != tc.gaps || stats.Samples+stats.Unended > 0 {
				t.Errorf("%+v, want gaps %v and nothing else", stats, tc.gaps)
			}
		})
	}
}
