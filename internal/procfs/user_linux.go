package procfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As calls f on a thread that accesses files as another user: with only that user and those
// groups, and without root's capabilities for files (setfsuid(2)). Files that f creates belong to the
// user from the start. It needs CAP_SETUID and CAP_SETGID, unless the user and group are this
// process's own.
func As(u User, f func() error) error {
	if u.isOwn() {
		return f()
	}
	return OnThread(func() error {
		if err := Become(u.UID, u.GID, u.Groups); err != nil {
			return err
		}
		return f()
	})
}

// isOwn reports whether the user and group are this process's.
func (u *User) isOwn() bool { return u.UID == os.Geteuid() && u.GID == os.Getegid() }

// OnThread calls f on its own thread, which ends with f, so that no other code runs with the
// rights and namespaces that f sets for the thread. If f calls runtime.Goexit, OnThread
// returns an error.
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
// supplementary groups. The groups remain unchanged if the user and group are this process's
// own and it may not change them. The thread should end after use.
func Become(uid, gid int, groups []uint32) error {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)),
		uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if e != 0 && (uid != os.Geteuid() || gid != os.Getegid()) {
		return os.NewSyscallError("setgroups", e)
	}
	// They return the previous id, and no error on failure, so read it again.
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
