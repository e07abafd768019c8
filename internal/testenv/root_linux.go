package testenv

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Rooted starts a thread with the root directory dir, which runs until the test ends, and
// returns its id, which can be used like a process's in /proc. The test needs Root.
func Rooted(t testing.TB, dir string) int {
	t.Helper()
	type started struct {
		tid int
		err error
	}
	up, end, gone := make(chan started), make(chan struct{}), make(chan struct{})
	var thread func()
	thread = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			go thread() // /proc shows the first thread's root as the process's
			<-gone
			runtime.UnlockOSThread()
			return
		}
		defer close(gone)
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chroot(dir)
		}
		up <- started{unix.Gettid(), err}
		<-end
	}
	go thread()
	s := <-up
	t.Cleanup(func() { close(end); <-gone })
	if s.err != nil {
		t.Fatalf("chroot: %v", s.err)
	}
	return s.tid
}
