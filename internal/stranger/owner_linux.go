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

// self describes this process.
type self struct {
	uid, login    uint32
	mounts, users uint64 // its namespaces
}

// trusts reports whether a user is trusted.
func (s *self) trusts(uid uint32) bool { return uid == 0 || uid == s.uid || uid == s.login }

// known describes this process, once.
func (s *Share) known() *self {
	if s.self == nil {
		login, _ := os.ReadFile("/proc/self/loginuid") // kernels without audit have none
		s.self = &self{
			uid: uint32(os.Geteuid()), login: loginUser(string(login)),
			mounts: namespaceOf("self", "mnt"), users: namespaceOf("self", "user"),
		}
	}
	return s.self
}

// Party returns for whom is read what a process of a user maps; uid is negative for a user who
// is not known.
func (s *Share) Party(pid, uid int) Party {
	if uid <= 0 || s.Chosen || s.known().trusts(uint32(uid)) {
		uid = 0
	}
	return Party{pid, uid}
}

// Owner returns the owner of a file that a process maps.
func (s *Share) Owner(pid int, file fs.FileInfo) Owner {
	st, ok := file.Sys().(*syscall.Stat_t)
	if !ok || s.Chosen {
		return Owner{} // a recorded file, or one of the user's choice
	}
	s.known()
	process := strconv.Itoa(pid)
	mounts := namespaceOf(process, "mnt")
	if s.self.trusts(st.Uid) && mounts != 0 && mounts == s.self.mounts {
		return Owner{}
	}
	if o, ok := s.self.confined(process); ok {
		return o
	}
	// Its user has no other uid, and only mount namespaces that a trusted user created.
	if uids := procfs.UIDs(procfs.Root(nil), pid); len(uids) > 0 && !s.self.trusts(uint32(uids[0])) {
		return Owner{stranger: true, uid: uint32(uids[0]), namespace: mounts}
	}
	return Owner{stranger: true, uid: st.Uid, namespace: mounts}
}

// confined returns the stranger of a process in another user namespace: its owner, who
// controls all users and mount namespaces within (user_namespaces(7)). ok is false for a
// process in this user namespace, and if the namespace cannot be read.
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
	for { // the kernel allows 32 levels
		parent, err := unix.IoctlRetInt(fd, unix.NS_GET_PARENT)
		if err != nil {
			break // it is not below this process's namespace
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

// loginUser returns the login user, as the kernel records it (audit(8): loginuid in
// /proc/PID): sudo and su do not change it. It is root if there is none.
func loginUser(loginuid string) uint32 {
	const nobody = ^uint32(0)
	uid, err := strconv.ParseUint(strings.TrimSpace(loginuid), 10, 32)
	if err != nil || uint32(uid) == nobody {
		return 0
	}
	return uint32(uid)
}

// namespaceOf returns the inode of a process's namespace of a kind, 0 if it cannot be read.
func namespaceOf(process, kind string) uint64 {
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+process+"/ns/"+kind, &st); err != nil {
		return 0
	}
	return st.Ino
}

// numberOf returns the inode of an open namespace, 0 if it cannot be read.
func numberOf(fd int) uint64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	return st.Ino
}
