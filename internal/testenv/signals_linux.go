package testenv

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Unpreempted locks the goroutine to its thread and blocks the signal there by which Go's runtime
// preempts goroutines, until undo is called from the same goroutine. The signal interrupts system
// calls, and its handler runs as part of the program.
func Unpreempted(t testing.TB) (undo func()) {
	t.Helper()
	runtime.LockOSThread()
	var urgent, before unix.Sigset_t
	urgent.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &urgent, &before); err != nil {
		t.Error(err)
	}
	return func() {
		unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
		runtime.UnlockOSThread()
	}
}
