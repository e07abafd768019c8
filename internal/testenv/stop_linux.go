package testenv

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Stop stops a child and waits until all of its threads stand: one that runs on another CPU goes on
// for a moment after the signal was sent, and may still answer.
func Stop(t testing.TB, cmd *Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WSTOPPED, nil)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			t.Fatal(err)
		}
	}
}
