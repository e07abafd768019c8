package guest

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// archive writes an initramfs: cpio in the "newc" format
// (Documentation/driver-api/early-userspace/buffer-format.rst). It is not compressed, because
// unpacking would cost the emulated CPU more than reading.
type archive struct {
	w    io.Writer
	off  int64
	ino  int
	dirs map[string]bool
	err  error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: w, dirs: map[string]bool{".": true, "/": true}}
}

func (a *archive) write(b []byte) {
	if a.err == nil {
		var n int
		n, a.err = a.w.Write(b)
		a.off += int64(n)
	}
}

func (a *archive) align() {
	a.write(make([]byte, (4-a.off%4)%4))
}

// header writes an entry's header, which size bytes of content follow.
func (a *archive) header(name string, mode uint32, size int64) {
	a.ino++
	name = strings.TrimPrefix(name, "/")
	a.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.ino, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name))
	a.align()
}

func (a *archive) dir(name string) {
	if a.dirs[name] {
		return
	}
	a.dirs[name] = true
	a.dir(path.Dir(name))
	a.header(name, 0o40755, 0)
}

// file adds a file with the given contents.
func (a *archive) file(name string, mode uint32, content []byte) {
	a.dir(path.Dir(name))
	a.header(name, 0o100000|mode, int64(len(content)))
	a.write(content)
	a.align()
}

// symlink adds a symbolic link.
func (a *archive) symlink(name, target string) {
	a.dir(path.Dir(name))
	a.header(name, 0o120777, int64(len(target)))
	a.write([]byte(target))
	a.align()
}

// device adds a character device node.
func (a *archive) device(name string, major, minor int) {
	a.dir(path.Dir(name))
	a.ino++
	name = strings.TrimPrefix(name, "/")
	a.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.ino, 0o20600, 0, 0, 1, 0, 0, 0, 0, major, minor, len(name)+1, 0, name))
	a.align()
}

// copyFile adds a file of this machine.
func (a *archive) copyFile(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", from)
	}
	a.dir(path.Dir(name))
	a.header(name, 0o100000|uint32(st.Mode().Perm()), st.Size())
	if a.err == nil {
		var n int64
		n, a.err = io.CopyN(a.w, f, st.Size())
		a.off += n
	}
	a.align()
	return a.err
}

// close ends the archive.
func (a *archive) close() error {
	a.header("TRAILER!!!", 0, 0)
	return a.err
}
