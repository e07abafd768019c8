package pmc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/perfring"
)

// The system calls that the rest of the package uses: see sys_other.go.

const (
	iocEnable    = unix.PERF_EVENT_IOC_ENABLE
	iocDisable   = unix.PERF_EVENT_IOC_DISABLE
	iocID        = unix.PERF_EVENT_IOC_ID
	iocSetBPF    = unix.PERF_EVENT_IOC_SET_BPF
	iocSetFilter = unix.PERF_EVENT_IOC_SET_FILTER
	iocGroup     = unix.PERF_IOC_FLAG_GROUP
)

func perfEventOpen(a *perfring.Attr, at Place, leader int) (int, error) {
	pid, flags := at.PID, unix.PERF_FLAG_FD_CLOEXEC
	if at.Cgroup != nil {
		pid, flags = int(at.Cgroup.Fd()), flags|unix.PERF_FLAG_PID_CGROUP
	}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(a)),
			uintptr(pid), uintptr(at.CPU), uintptr(leader), uintptr(flags), 0)
		switch errno {
		case 0:
			runtime.KeepAlive(at.Cgroup)
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

func closeEvent(fd int) { unix.Close(fd) }

func ioctl(fd int, op uint, arg uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(op), arg); errno != 0 {
		return errno
	}
	return nil
}

func readEvent(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func mapPage(fd int) ([]byte, error) {
	return unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapPage(mem []byte) error { return unix.Munmap(mem) }

// waiter waits for the events of a Sampler. A nil waiter is closed.
type waiter struct {
	poll []unix.PollFd
	wake *os.File
	fd   int // wake's
}

func newWaiter(handles []*Handle) (*waiter, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	w := &waiter{wake: os.NewFile(uintptr(fd), "eventfd"), fd: fd}
	for _, h := range handles {
		w.poll = append(w.poll, unix.PollFd{Fd: int32(h.fd), Events: unix.POLLIN})
	}
	w.poll = append(w.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return w, nil
}

// wait blocks until an event's ring has data, an event has ended, which it records in ended,
// or wakeUp was called.
func (w *waiter) wait(ended []bool) error {
	_, err := unix.Poll(w.poll, -1)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll perf rings: %w", err)
	}
	for i := range ended {
		if w.poll[i].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			ended[i] = true
			w.poll[i].Fd = -1 // or the next poll would return at once
		}
	}
	if w.poll[len(w.poll)-1].Revents != 0 {
		var b [8]byte
		unix.Read(w.fd, b[:])
	}
	return nil
}

// wakeUp ends a wait, the current or the next one. It goes through the os.File, since it may
// be called after close.
func (w *waiter) wakeUp() {
	if w == nil {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	w.wake.Write(one[:])
}

func (w *waiter) close() error {
	if w == nil {
		return nil
	}
	return w.wake.Close()
}
