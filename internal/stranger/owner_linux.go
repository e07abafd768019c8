package stranger

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/procfs"
)

// self is whose this process is.
type self struct {
	uid, login    uint32
	mounts, users uint64 // its namespaces
}

// trusts reports whether a user is nobody to beware of.
func (s *self) trusts(uid uint32) bool { return uid == 0 || uid == s.uid || uid == s.login }

// Owner finds out whose file it is that a process maps.
func (s *Share) Owner(pid int, file fs.FileInfo) Owner {
	st, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{} // of a recording
	}
	if s.self == nil {
		login, _ := os.ReadFile("/proc/self/loginuid") // kernels without audit have none
		s.self = &self{
			uid: uint32(os.Geteuid()), login: loginUser(string(login)),
			mounts: namespaceOf("self", "mnt"), users: namespaceOf("self", "user"),
		}
	}
	process := strconv.Itoa(pid)
	mounts := namespaceOf(process, "mnt")
	if s.self.trusts(st.Uid) && mounts != 0 && mounts == s.self.mounts {
		return Owner{}
	}
	if o, ok := s.self.confined(process); ok {
		return o
	}
	// Its user has no other number, and no mount namespace but of a trusted user's
	// making.
	if uids := procfs.UIDs(procfs.Root(nil), pid); len(uids) > 0 && !s.self.trusts(uint32(uids[0])) {
		return Owner{stranger: true, uid: uint32(uids[0]), namespace: mounts}
	}
	return Owner{stranger: true, uid: st.Uid, namespace: mounts}
}

// confined is the stranger of a process in another user namespace than this one's,
// whose users, and the mount namespaces within, are whose it is: user_namespaces(7).
// ok is false for others, and where that can't be read.
func (s *self) confined(process string) (o Owner, ok bool) {
	if users := namespaceOf(process, "user"); users == 0 || users == s.users {
		return o, false
	}
	fd, err := unix.Open("/proc/"+process+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return o, false
	}
	defer func() { unix.Close(fd) }()
	number := numberOf(fd)
	for { // the kernel nests up to 32
		parent, err := unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
		if err != nil {
			break // it is not below this process's
		}
		n := numberOf(parent)
		if n == s.users {
			unix.Close(parent)
			break
		}
		unix.Close(fd)
		fd, number = parent, n
	}
	uid, err := unix.IoctlGetUint32(fd, unix.NS_GET_OWNER_UID)
	if err != nil {
		return o, false
	}
	o = Owner{stranger: true, uid: uid}
	if s.trusts(uid) {
		o.namespace = number
	}
	return o, true
}

// loginUser is who has logged in, by the kernel's word (audit(8): loginuid in
// /proc/PID): sudo and su don't change it. Root where nobody has.
func loginUser(loginuid string) uint32 {
	const nobody = ^uint32(0)
	uid, err := strconv.ParseUint(strings.TrimSpace(loginuid), 10, 32)
	if err != nil || uint32(uid) == nobody {
		return 0
	}
	return uint32(uid)
}

// namespaceOf is the number of a process's namespace of a kind, 0 if that can't be read.
func namespaceOf(process, kind string) uint64 {
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+process+"/ns/"+kind, &st); err != nil {
		return 0
	}
	return st.Ino
}

// numberOf is the number of an open namespace, 0 if that can't be read.
func numberOf(fd int) uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	return st.Ino
}
