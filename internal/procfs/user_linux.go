package procfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As calls f on a thread that reaches files as another user does: with that user
// and group alone, and without the capabilities that make root reach all
// (setfsuid(2)). What f makes is the user's from the start. It needs CAP_SETUID
// and CAP_SETGID, unless the user is this process's own.
func As(uid, gid int, f func() error) error {
	if uid == os.Geteuid() && gid == os.Getegid() {
		return f()
	}
	return OnThread(func() error {
		if err := Become(uid, gid, nil); err != nil {
			return err
		}
		return f()
	})
}

// OnThread calls f on a thread of its own, which ends with f: what f makes of
// the thread's rights and namespaces, nothing else ever runs with. A runtime.Goexit
// of f's is an error.
func OnThread(f func() error) error {
	err := errors.New("the thread ended")
	gone := make(chan struct{})
	var run func()
	run = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			go run() // the first thread does not end, and /proc shows it as the process
			<-gone
			runtime.UnlockOSThread()
			return
		}
		defer close(gone)
		err = f()
	}
	go run()
	<-gone
	return err
}

// Become changes the file system user of the calling thread, and of no other, and its
// supplementary groups, which stay as they are where the user and group are this
// process's own and it may not change them. The thread is to end with what it does so.
func Become(uid, gid int, groups []uint32) error {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)),
		uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if e != 0 && (uid != os.Geteuid() || gid != os.Getegid()) {
		return os.NewSyscallError("setgroups", e)
	}
	// They return what was, and say nothing of a failure: ask again.
	for _, set := range []struct {
		to int
		by func(int) (int, error)
	}{{gid, unix.SetfsgidRetGid}, {uid, unix.SetfsuidRetUid}} {
		_, err := set.by(set.to)
		is, _ := set.by(-1)
		if err == nil && is != set.to {
			err = unix.EPERM
		}
		if err != nil {
			return fmt.Errorf("reach files as user %d, group %d: %w", uid, gid, err)
		}
	}
	return nil
}
