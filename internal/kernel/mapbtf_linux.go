package kernel

import (
	"os"

	"golang.org/x/sys/unix"
)

// MapBTF maps the running kernel's BTF, if it has at most limit bytes. That is one system
// call, while reading takes one for every 4096 bytes (sysfs). It works from Linux 6.16;
// otherwise ok is false. done unmaps it.
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
