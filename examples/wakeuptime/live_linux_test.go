package main

import (
	"slices"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"sleep": func() {
		// A name of its own, because Go's runtime has threads that sleep, too.
		unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&[]byte("sleeper23\x00")[0])), 0, 0, 0)
		for range 23 {
			syscall.Nanosleep(&syscall.Timespec{Nsec: naps * 1e6}, nil)
		}
	}})
}

// naps is how long the child sleeps each time, in milliseconds: longer than a busy
// host keeps a virtual CPU waiting between the start of the timer and the wait,
// which is none if the timer is up by then.
const naps = 50

// A child's thread that sleeps 23 times was woken 23 times by the timer, after
// that long or more. Wakers that the collector says it did not see
// are counted, too.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "sleep")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	n, usecs, lost := uint64(0), int64(0), uint64(0)
	for _, w := range tooltest.Objects[struct {
		woken
		Lost struct{ Firings uint64 }
	}](t, out) {
		lost += w.Lost.Firings
		if w.Target == "sleeper23" && slices.Contains(w.Kernel, "hrtimer_wakeup") {
			n += w.Waits
			usecs += w.Usecs
		}
	}
	if n > 23 || n+lost < 23 || usecs < int64(n)*naps*1000 {
		t.Errorf("%d wakeups of 23 (%d lost) after %d us:\n%s", n, lost, usecs, out)
	}
}
