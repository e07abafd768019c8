package probe

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapBTF maps the running kernel's BTF, which is one system call where reading
// it is one for every 4096 bytes (sysfs). Linux 6.16 can; done unmaps it.
func mapBTF() (raw []byte, done func(), ok bool) {
	f, err := os.Open("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil, nil, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= 0 || st.Size() > maxBTF {
		return nil, nil, false
	}
	raw, err = unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, false
	}
	return raw, func() { _ = unix.Munmap(raw) }, true
}
