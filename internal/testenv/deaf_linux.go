package testenv

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inDeaf is the variable with the name of the test that runs where breakpoints never fire.
const inDeaf = "BORESCOPE_DEAF"

// DeafBreakpoints runs the test, which must not be a subtest, again in a process in which
// hardware breakpoints behave as under some hypervisors: they open without an error and are
// never hit. It returns true there. In the original process it returns false, and the test
// ends. It skips the test if seccomp does not let a process answer another's system calls
// (Linux 5.9 can).
func DeafBreakpoints(t *testing.T) bool {
	t.Helper()
	cmd := again(t, inDeaf)
	if cmd == nil {
		return true
	}
	// A signal between adding a descriptor and returning it from the call would make the
	// process repeat the call and leak the first descriptor.
	cmd.Env = append(cmd.Env, NoPreemption())
	out, err := runDeaf(cmd.Here()) // on the thread that has the filter
	if errors.Is(err, errNoListener) {
		Need(t, Got("seccomp's notifications", err))
	}
	passedOnce(t, "where breakpoints never fire", out, err)
	return false
}

var errNoListener = errors.New("no filter with a listener can be had")

// runDeaf runs the command from a thread. The thread's perf_event_open calls go to this
// process (seccomp(2), SECCOMP_RET_USER_NOTIF). The command inherits the filter.
func runDeaf(cmd *Cmd) (out []byte, err error) {
	listener, done := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its filter
		fd, ferr := filterPerf()
		if ferr != nil {
			close(listener)
			err = fmt.Errorf("%w: %w", errNoListener, ferr)
			return
		}
		listener <- fd
		out, err = cmd.CombinedOutput()
	}()
	if fd, ok := <-listener; ok {
		answer(fd, done)
		unix.Close(fd)
	}
	<-done
	return out, err
}

// filterPerf makes perf_event_open of the calling thread and its children ask the holder of
// the listener.
func filterPerf() (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the system call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_PERF_EVENT_OPEN},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	p := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// answer serves the listener until done is closed.
func answer(listener int, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 20); err != nil || n == 0 || fds[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var req notification
		if notifyIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&req)) != nil {
			continue // the caller has ended
		}
		resp := response{id: req.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if fd, ok := deafEvent(&req); ok {
			add := addFD{id: req.id, srcFD: uint32(fd), newFlags: unix.O_CLOEXEC}
			theirs, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener),
				unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&add)))
			unix.Close(fd)
			resp = response{id: req.id, val: int64(theirs), err: -int32(errno)}
		}
		_ = notifyIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&resp))
	}
}

// deafEvent opens an event that never counts instead of a breakpoint. ok is false for other
// events, which the process may open itself.
func deafEvent(req *notification) (fd int, ok bool) {
	var attr unix.PerfEventAttr
	b := unsafe.Slice((*byte)(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	local := []unix.Iovec{{Base: &b[0], Len: unix.PERF_ATTR_SIZE_VER5}}
	remote := []unix.RemoteIovec{{Base: uintptr(req.args[0]), Len: unix.PERF_ATTR_SIZE_VER5}}
	if _, err := unix.ProcessVMReadv(int(req.pid), local, remote, 0); err != nil ||
		attr.Type != unix.PERF_TYPE_BREAKPOINT {
		return -1, false
	}
	attr.Type, attr.Config, attr.Size = unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_DUMMY,
		unix.PERF_ATTR_SIZE_VER5
	attr.Bp_type, attr.Ext1, attr.Ext2 = 0, 0, 0
	pid := int(int32(req.args[1]))
	if pid == 0 {
		pid = int(req.pid)
	}
	fd, err := unix.PerfEventOpen(&attr, pid, int(int32(req.args[2])), -1, unix.PERF_FLAG_FD_CLOEXEC)
	return fd, err == nil
}

// These are the structures of seccomp's notifications (include/uapi/linux/seccomp.h).
type (
	notification struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	response struct {
		id    uint64
		val   int64
		err   int32
		flags uint32
	}
	addFD struct {
		id                            uint64
		flags, srcFD, newFD, newFlags uint32
	}
)

func notifyIoctl(listener int, cmd uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), cmd, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
