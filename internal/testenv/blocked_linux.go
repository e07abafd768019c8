package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// WaitBlocked waits until a thread is blocked in a system call with this first argument
// (/proc/TID/syscall). That a program was started says that its execve began: what maps its
// libraries and leads to its first wait comes later, on a busy machine much later.
//
// A thread that is being woken looks blocked still: its state is neither 0 nor is it in a queue
// (task_current_syscall, lib/syscall.c).
func WaitBlocked(t testing.TB, tid, call int, first uint64) {
	t.Helper()
	want := fmt.Sprintf("%d %#x ", call, first)
	for begin := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(b), want) {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("thread %d is in %q for a minute, not in %q", tid, b, want)
		}
	}
}
