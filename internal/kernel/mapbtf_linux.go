package kernel

import (
	"os"

	"golang.org/x/sys/unix"
)

// MapBTF maps the running kernel's BTF of at most limit bytes, which is one
// system call where reading it is one for every 4096 bytes (sysfs). Linux 6.16
// can; done unmaps it.
func MapBTF(limit int64) (raw []byte, done func(), ok bool) {
	f, err := os.Open("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil, nil, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= 0 || st.Size() > limit {
		return nil, nil, false
	}
	raw, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, false
	}
	return raw, func() { _ = unix.Munmap(raw) }, true
}
