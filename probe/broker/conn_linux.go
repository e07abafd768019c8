package broker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
)

// peerOf returns the process at the other end, as the kernel reports it.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *syscall.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, os.NewSyscallError("getsockopt SO_PEERCRED", cerr)); err != nil {
		return Peer{}, err
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}

// rightsOf returns all ids of the process at the other end, as the kernel reports them.
func rightsOf(conn *net.UnixConn, peer Peer) (rights, error) {
	groups, err := groupsOf(conn)
	return rights{peer.UID, peer.GID, groups}, err
}

// passing reports whether an error of accept(2) concerns one connection only, or a
// temporary shortage.
func passing(err error) bool {
	for _, no := range []syscall.Errno{
		syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS,
		syscall.EPERM, syscall.EPROTO,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// own returns a descriptor of a socket of the broker's that keeps it open until closeAside
// closes it. Where the kernel can do that, no descriptors can be sent to the socket and to
// those that a listener accepts.
func own(socket syscall.Conn) (int, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var derr error
	err = raw.Control(func(s uintptr) {
		// Commit 77cbe1a6d873, "af_unix: Introduce SO_PASSRIGHTS", 6.16. The others add
		// control data to messages, which readMessage would take for descriptors. Each is
		// refused by kernels that do not know it.
		for _, option := range []int{
			soPassRights, unix.SO_PASSCRED, unix.SO_PASSSEC, unix.SO_PASSPIDFD,
		} {
			_ = unix.SetsockoptInt(int(s), unix.SOL_SOCKET, option, 0)
		}
		if fd, derr = kernel.Dup(int(s)); errors.Is(derr, syscall.EINVAL) {
			derr = syscall.EMFILE // RLIMIT_NOFILE is 0
		}
	})
	return fd, errors.Join(err, derr)
}

// soPassRights is SO_PASSRIGHTS (include/uapi/asm-generic/socket.h).
const soPassRights = 83

// closeAside closes a socket, and calls closed after that. The kernel closes the descriptors
// that are in messages which nobody received in the thread that closes the socket, and a
// TCP socket may delay that for as long as its owner likes (SO_LINGER). A signal ends such
// delays (sk_stream_wait_close, net/core/stream.c); if nothing does, only this thread waits.
func closeAside(fd int, closed func()) {
	thread, done := make(chan int, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		thread <- unix.Gettid()
		kernel.Close(fd)
	}()
	go func() {
		defer closed()
		id := <-thread
		for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			select {
			case <-done:
				return
			case <-time.After(wait):
				// The runtime's own signal for threads, which does nothing if it is not due.
				_ = unix.Tgkill(unix.Getpid(), id, unix.SIGURG)
			}
		}
	}()
}

// hungUp reports whether a connection has been closed, here or at its other end. Messages may
// still be there.
func hungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	p := []unix.PollFd{{}}
	err = raw.Control(func(fd uintptr) {
		p[0].Fd = int32(fd)
		_, _ = unix.Poll(p, 0)
	})
	return err != nil || p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// shutdown tells the other end that a connection ends.
func shutdown(fd int) { _ = unix.Shutdown(fd, unix.SHUT_RDWR) }

// readMessage reads one message into b, and accepts up to files descriptors. The kernel
// closes descriptors beyond that. If files is 0, a message with descriptors is an error and
// remains unread: reading it would close them, which may take as long as the sender likes.
func readMessage(conn *net.UnixConn, b []byte, files int) (int, []int, error) {
	if files == 0 {
		n, err := readAlone(conn, b)
		return n, nil, err
	}
	oob := make([]byte, syscall.CmsgSpace(4*files))
	n, oobn, flags, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, io.EOF
	}
	fds, err := descriptors(oob[:oobn])
	if err == nil && flags&syscall.MSG_CTRUNC != 0 {
		err = fmt.Errorf("%w: descriptors were lost: is RLIMIT_NOFILE too low?", errMessage)
	}
	return n, fds, err
}

// readAlone reads a message that has no descriptors. Nobody else reads of the connection.
func readAlone(conn *net.UnixConn, b []byte) (n int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var rerr error
	err = raw.Read(func(fd uintptr) bool {
		var with int
		if _, with, rerr = receive(int(fd), b[:1], unix.MSG_PEEK); rerr == nil {
			if with&unix.MSG_CTRUNC != 0 {
				rerr = fmt.Errorf("%w: it has descriptors, which nobody asked for", errMessage)
			} else {
				n, _, rerr = receive(int(fd), b, 0)
			}
		}
		return rerr != unix.EAGAIN
	})
	switch err := cmp.Or(err, rerr); {
	case err != nil && !errors.Is(err, errMessage):
		return 0, fmt.Errorf("recvmsg: %w", err)
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func receive(fd int, b []byte, flags int) (n, with int, err error) {
	for {
		n, _, with, _, err = unix.Recvmsg(fd, b, nil, flags|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, with, err
		}
	}
}

func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []int
	for i := range messages {
		if messages[i].Header.Level != syscall.SOL_SOCKET ||
			messages[i].Header.Type != syscall.SCM_RIGHTS {
			continue
		}
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return out, err
		}
		out = append(out, fds...)
	}
	for _, fd := range out {
		syscall.CloseOnExec(fd) // net asks for MSG_CMSG_CLOEXEC; be sure
	}
	return out, nil
}

func writeMessage(conn *net.UnixConn, b []byte, files []int) error {
	var oob []byte
	if len(files) > 0 {
		oob = syscall.UnixRights(files...)
	}
	_, _, err := conn.WriteMsgUnix(b, oob, nil)
	return err
}

func closeFiles(fds []int) error {
	var errs []error
	for _, fd := range fds {
		errs = append(errs, kernel.Close(fd))
	}
	return errors.Join(errs...)
}

// gone reports whether an error means that the other side has closed.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNRESET)
}

// openMap opens a descriptor of a map for the client.
func openMap(m *ebpf.Map, writable bool) (int, error) {
	if writable {
		return kernel.Dup(m.FD())
	}
	info, err := m.Info()
	if err != nil {
		return -1, err
	}
	id, ok := info.ID()
	if !ok {
		return -1, errors.New("it has no id")
	}
	fd, err := kernel.ReadOnlyMap(uint32(id))
	if errors.Is(err, syscall.EPERM) {
		err = fmt.Errorf("the broker needs CAP_SYS_ADMIN for descriptors that can only read: %w", err)
	}
	return fd, err
}

// mapFrom returns a map made of a descriptor, which it owns.
func mapFrom(fd int) (*ebpf.Map, error) {
	m, err := ebpf.NewMapFromFD(fd)
	if errors.Is(err, syscall.EPERM) {
		// Commit c8644cd0efe7, "bpf: refine kernel.unprivileged_bpf_disabled behaviour".
		return nil, &probe.UnsupportedError{
			Feature: "using the descriptor of a map without CAP_BPF", Since: "5.19", Err: err,
			Hint: "before, the sysctl kernel.unprivileged_bpf_disabled must be 0",
		}
	}
	return m, err
}
