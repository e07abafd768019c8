package broker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/cilium/ebpf"

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

// readMessage reads one message into b, and accepts up to files descriptors. The kernel
// closes descriptors beyond that.
func readMessage(conn *net.UnixConn, b []byte, files int) (int, []int, error) {
	var oob []byte
	if files > 0 {
		oob = make([]byte, syscall.CmsgSpace(4*files))
	}
	n, oobn, flags, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, io.EOF
	}
	fds, err := descriptors(oob[:oobn])
	if err == nil && files > 0 && flags&syscall.MSG_CTRUNC != 0 {
		err = fmt.Errorf("%w: descriptors were lost: is RLIMIT_NOFILE too low?", errMessage)
	}
	return n, fds, err
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
