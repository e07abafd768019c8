package stranger

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// self is whose this process is.
type self struct {
	uid, login uint32
	mounts     uint64
}

// Owner finds out whose file it is that a process maps.
func (s *Share) Owner(pid int, file fs.FileInfo) Owner {
	st, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{} // of a recording
	}
	if s.self == nil {
		login, _ := os.ReadFile("/proc/self/loginuid") // kernels without audit have none
		s.self = &self{uid: uint32(os.Geteuid()), login: loginUser(string(login)), mounts: mountsOf("self")}
	}
	if st.Uid != 0 && st.Uid != s.self.uid && st.Uid != s.self.login {
		return Owner{stranger: true, uid: st.Uid}
	}
	mounts := mountsOf(strconv.Itoa(pid))
	if mounts != 0 && mounts == s.self.mounts {
		return Owner{}
	}
	return Owner{stranger: true, uid: st.Uid, mounts: mounts}
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

// mountsOf is the number of a process's mount namespace, 0 if that can't be read.
func mountsOf(pid string) uint64 {
	st, err := os.Stat("/proc/" + pid + "/ns/mnt")
	if err != nil {
		return 0
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return sys.Ino
}
