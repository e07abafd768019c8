package broker

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/procfs"
)

// attachCaps are the capabilities that a thread with a client's rights keeps, to find out
// what the kernel can do. None of them allows opening files or processes.
const attachCaps = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON |
	1<<unix.CAP_SYS_RESOURCE

// asClient calls f on a thread that opens files and processes with a client's rights: its
// user and groups, and none of the broker's capabilities except keep. f must not start
// goroutines that open things. It is not isolated otherwise: it runs with the broker's
// memory.
//
// Only the ids for file access change (setfsuid(2)), which ptrace checks use too
// (PTRACE_MODE_FSCREDS). The thread keeps the broker's real ids, so the client can't send
// it a signal. The thread ends with f: nothing else ever runs on it.
func asClient(r rights, keep uint64, f func() error) error {
	return procfs.OnThread(func() error {
		if err := becomeClient(r, keep); err != nil {
			return err
		}
		return f()
	})
}

// becomeClient changes the calling thread only, unlike package syscall's calls.
func becomeClient(r rights, keep uint64) error {
	if err := procfs.Become(int(r.uid), int(r.gid), r.groups); err != nil {
		return becomeError(err)
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		return becomeError(os.NewSyscallError("capget", err))
	}
	for i := range d {
		d[i].Effective = d[i].Permitted & uint32(keep>>(32*i))
	}
	return becomeError(os.NewSyscallError("capset", unix.Capset(&h, &d[0])))
}

func becomeError(err error) error {
	if err != nil {
		err = fmt.Errorf("take the client's rights (CAP_SETUID and CAP_SETGID are needed): %w", err)
	}
	return err
}

// groupsOf returns the peer's supplementary groups (SO_PEERGROUPS, Linux 4.13).
func groupsOf(conn *net.UnixConn) ([]uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	groups := make([]uint32, 64)
	for {
		n := uint32(4 * len(groups))
		var no syscall.Errno
		err := raw.Control(func(fd uintptr) {
			_, _, no = syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.SOL_SOCKET, unix.SO_PEERGROUPS,
				uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&n)), 0)
		})
		switch {
		case err != nil:
			return nil, err
		case no == syscall.ERANGE && len(groups) < 1<<16: // NGROUPS_MAX
			groups = make([]uint32, 1<<16)
		case no != 0:
			return nil, os.NewSyscallError("getsockopt SO_PEERGROUPS", no)
		default:
			return groups[:n/4], nil
		}
	}
}
