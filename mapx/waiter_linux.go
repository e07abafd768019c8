package mapx

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// waiter waits for a file descriptor to become readable through Go's own poller, which blocks
// no thread. A wait ends with the context, by close from another goroutine, or when ready
// returns true.
type waiter struct {
	file  *os.File
	conn  syscall.RawConn
	ready func(uintptr) bool
	write bool // wait for it to become writable instead
	// closed is set before file is closed.
	closed atomic.Bool
}

// open makes the waiter wait for a duplicate of fd. It calls ready before and after each event.
// Events are edges, so ready must check the data itself.
func (w *waiter) open(fd int, ready func() bool) error {
	dup, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	return w.adopt(int(dup), ready)
}

// adopt is open for an fd that the waiter owns from now on.
func (w *waiter) adopt(fd int, ready func() bool) error {
	// The poller accepts only non-blocking files.
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	w.file = os.NewFile(uintptr(fd), "bpf")
	w.ready = func(uintptr) bool { return ready() }
	var err error
	if w.conn, err = w.file.SyscallConn(); err == nil {
		// A file that the poller refused has no deadlines.
		err = w.file.SetDeadline(time.Time{})
	}
	if err != nil {
		w.file.Close()
	}
	return err
}

// wait is for one goroutine at a time, since waits share a deadline. It returns nil when ready
// returned true, or after poll (if not 0), for the caller to check again.
func (w *waiter) wait(ctx context.Context, poll time.Duration) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The deadline of an earlier wait is replaced first. The interruption of this wait can
		// only come later, so it stays.
		deadline := time.Time{}
		if poll > 0 {
			deadline = time.Now().Add(poll)
		}
		if err := w.file.SetDeadline(deadline); err != nil {
			return w.closedError(err)
		}
		stop := func() bool { return true }
		if ctx.Done() != nil {
			stop = context.AfterFunc(ctx, w.interrupt)
		}
		var err error
		if w.write {
			err = w.conn.Write(w.ready)
		} else {
			err = w.conn.Read(w.ready)
		}
		stop()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return w.closedError(err)
		}
		if poll > 0 && ctx.Err() == nil {
			return nil
		}
	}
}

func (w *waiter) interrupt() { w.file.SetDeadline(time.Unix(1, 0)) }

// closedError returns os.ErrClosed for the poller's own error after close.
func (w *waiter) closedError(err error) error {
	if err != nil && w.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// close ends every wait and closes the descriptor. A second call does nothing.
func (w *waiter) close() error {
	if w.file == nil {
		return nil
	}
	w.closed.Store(true)
	err := w.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
