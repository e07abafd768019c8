package probetest

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// Times is the number of times that the target does everything in one run.
const Times = 23

// Workload is a running target.
type Workload struct {
	// In and Out are its standard input and output.
	In  io.WriteCloser
	Out io.ReadCloser

	t   testing.TB
	cmd *testenv.Cmd
}

// Start starts the target, which ends when the test ends, and waits until it reads its first byte.
// In a package other than probe it fails the test: probe's tests would count this process too.
func Start(t testing.TB) *Workload {
	t.Helper()
	if dir, err := os.Getwd(); err != nil || filepath.Base(dir) != "probe" {
		t.Fatalf("probetest.Start in a test of %s (%v): use StartOwn", dir, err)
	}
	return StartCommand(t, testenv.Command(t, TargetPath()))
}

// StartOwn is Start for a copy of the target that no other test probes.
func StartOwn(t testing.TB) *Workload {
	t.Helper()
	return StartCommand(t, testenv.Command(t, OwnTarget(t)))
}

// StartCommand is Start for a command that runs the target. It waits until the target reads its
// first byte, after all that it does to start: nothing happens in it before the next Run.
func StartCommand(t testing.TB, cmd *testenv.Cmd) *Workload {
	t.Helper()
	w := &Workload{t: t, cmd: cmd}
	w.In, w.Out = testenv.Piped(t, cmd)
	t.Cleanup(func() {
		w.In.Close()
		cmd.Wait()
	})
	w.WaitBlocked()
	return w
}

// Path returns the path of the file that it runs.
func (w *Workload) Path() string { return w.cmd.Path }

// PID returns the target's process id.
func (w *Workload) PID() int { return w.cmd.Process.Pid }

// Run makes the target do everything 23 times, and returns when it is done.
func (w *Workload) Run() {
	w.t.Helper()
	if _, err := w.In.Write([]byte{'g'}); err != nil {
		w.t.Fatal(err)
	}
	var b [1]byte
	if _, err := io.ReadFull(w.Out, b[:]); err != nil {
		w.t.Fatal(err)
	}
}

// KeepBusy runs the target repeatedly until stop is called, which returns the number of runs.
// It pauses between runs: an emulated guest has one CPU for this and for the test.
func (w *Workload) KeepBusy() (stop func() int) {
	var end atomic.Bool
	runs := make(chan int, 1)
	go func() {
		n := 0
		defer func() { runs <- n }() // also if Run fails the test
		for ; !end.Load(); n++ {
			w.Run()
			time.Sleep(200 * time.Microsecond)
		}
	}()
	return sync.OnceValue(func() int {
		end.Store(true)
		return <-runs
	})
}

// WaitBlocked returns when the target is blocked in reading its next byte. That read has begun
// before the next run, and returns only when the next run begins.
func (w *Workload) WaitBlocked() {
	w.t.Helper()
	testenv.WaitBlocked(w.t, w.PID(), unix.SYS_READ, 0)
}
