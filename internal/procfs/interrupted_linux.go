package procfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// interruptions is how often a call that a signal interrupted is made again.
const interruptions = 100

// again makes a call until no signal interrupts it. A file system that a process or another
// machine answers for may say EINTR at any signal, and Go's runtime sends signals to its own
// threads. One that says nothing else is not asked for ever, as package os would.
func again(call func() error) (err error) {
	for range interruptions {
		if err = call(); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return err
}

func openPath(path string, flags int) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Open(path, flags, 0)
		return err
	})
	return fd, err
}

func openAt(dir int, name string, flags int) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Openat(dir, name, flags, 0)
		return err
	})
	return fd, err
}

func openAt2(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Openat2(dir, name, how)
		return err
	})
	return fd, err
}

// fstat may ask the file system, unlike statx.
func fstat(fd int, st *unix.Stat_t) error {
	return again(func() error { return unix.Fstat(fd, st) })
}

// readLink returns where a link leads, by its own descriptor.
func readLink(link int) (string, error) {
	b, n := make([]byte, unix.PathMax), 0
	err := again(func() (err error) {
		n, err = unix.Readlinkat(link, "", b)
		return err
	})
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// control calls f with the descriptor of a file, which nobody closes meanwhile.
func control(file *os.File, op string, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	if err != nil && err != io.EOF {
		err = &os.PathError{Op: op, Path: file.Name(), Err: err}
	}
	return err
}

// readAt is ReadAt of the file.
func readAt(file *os.File, b []byte, off int64) (n int, err error) {
	err = control(file, "read", func(fd int) error {
		for n < len(b) {
			m := 0
			err := again(func() (err error) {
				m, err = unix.Pread(fd, b[n:], off+int64(n))
				return err
			})
			if err == nil && m == 0 {
				err = io.EOF
			}
			if err != nil {
				return err
			}
			n += m
		}
		return nil
	})
	return n, err
}

// statFile is Stat of the file.
func statFile(file *os.File) (fs.FileInfo, error) {
	info := &fileInfo{name: file.Name()}
	err := control(file, "stat", func(fd int) error {
		return again(func() error { return syscall.Fstat(fd, &info.stat) })
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// fileInfo describes a regular file.
type fileInfo struct {
	name string
	stat syscall.Stat_t
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.stat.Size }
func (i *fileInfo) Mode() fs.FileMode  { return fs.FileMode(i.stat.Mode & 0o777) }
func (i *fileInfo) ModTime() time.Time { return time.Unix(i.stat.Mtim.Unix()) }
func (i *fileInfo) IsDir() bool        { return false }
func (i *fileInfo) Sys() any           { return &i.stat }
