package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const readOnly = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOCTTY

// Open opens a regular file for reading; a path of a process (TargetPath) is
// resolved in that process's root, as by OpenInRoot. The file is looked at before
// it is opened, and it is the very file looked at that is opened: what is no
// regular file is not touched, and the error holds a *NotRegularError. Reads block
// their thread: the file is never handed to epoll, which would ask a file system
// in user space, and wait for its answer with the whole Go runtime. The caller
// closes it.
func Open(path string) (*os.File, error) { return open(path, false) }

// OpenInRoot opens a regular file, as Open does, by its path as the process sees
// it, below its root directory and in its mount namespace: symbolic links,
// absolute ones too, are resolved inside that root.
func OpenInRoot(pid int, name string) (*os.File, error) {
	fd, err := lookupIn(pid, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return reopen(fd, name, false)
}

// OpenPath resolves a path as Open does, whatever is there, and returns a
// descriptor that only names it (O_PATH): to make files in a directory, to ask what
// a file is, to hand it to the kernel as /proc/self/fd/N. The caller closes it.
func OpenPath(path string) (*os.File, error) {
	fd, err := lookup(path)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenReal is OpenPath, and returns the path without links too, as it is in the root
// that it was looked up in. The caller closes the file.
func OpenReal(path string) (f *os.File, real string, err error) {
	root := "/"
	var fd int
	if pid, name, ok := TargetPath(path); ok {
		var at int
		if at, err = openRoot(pid); err != nil {
			return nil, "", err
		}
		defer unix.Close(at)
		if root, err = os.Readlink(selfFD(at)); err != nil {
			return nil, "", err
		}
		fd, err = lookupBelow(at, pid, name)
	} else {
		fd, err = lookup(path)
	}
	if err != nil {
		return nil, "", err
	}
	f = os.NewFile(uintptr(fd), path)
	if real, err = os.Readlink(selfFD(fd)); err != nil {
		f.Close()
		return nil, "", err
	}
	return f, "/" + strings.TrimLeft(strings.TrimPrefix(real, strings.TrimSuffix(root, "/")), "/"), nil
}

func selfFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// SocketIn finds a user's socket in a directory and returns a descriptor that only
// names it (O_PATH); no link and no mount leads to another. The caller closes it.
func SocketIn(dir *os.File, name string, uid int) (*os.File, error) {
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
		if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != uid) {
			err = fmt.Errorf("no socket of user %d", uid)
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "find", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// OpenMapping opens the file behind a mapping itself, whatever became of its
// path: /proc/PID/map_files, which needs CAP_CHECKPOINT_RESTORE (Linux 5.9) or
// CAP_SYS_ADMIN. A device is not opened. The caller closes the file.
func OpenMapping(pid int, m *Mapping) (*os.File, error) {
	return Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
}

// open opens a regular file, or, if that is allowed, a directory.
func open(path string, dir bool) (*os.File, error) {
	fd, err := lookup(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	f, err := reopen(fd, path, dir)
	if _, _, target := TargetPath(path); errors.Is(err, unix.ENOENT) && !target {
		return openAgain(fd, path) // no /proc here
	}
	return f, err
}

func stat(path string) (fs.FileInfo, error) {
	f, err := OpenPath(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// lookup resolves a path to a descriptor that can't be read (O_PATH).
func lookup(path string) (int, error) {
	if pid, name, ok := TargetPath(path); ok {
		return lookupIn(pid, name)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// lookupIn resolves a path in a process's root.
func lookupIn(pid int, name string) (int, error) {
	root, err := openRoot(pid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return lookupBelow(root, pid, name)
}

// openRoot opens a process's root directory.
func openRoot(pid int) (int, error) {
	dir := rootPath(pid)
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return root, nil
}

func rootPath(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/root" }

// lookupBelow resolves a path in the root of a process that is open. Only openat2
// does that without a race (RESOLVE_IN_ROOT, since Linux 5.6): where a seccomp filter
// hides it, nothing is resolved by other means.
func lookupBelow(root, pid int, name string) (int, error) {
	rel := strings.TrimLeft(name, "/")
	fd, err := unix.Openat2(root, "./"+rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: rootPath(pid) + "/" + rel, Err: err}
	}
	return fd, nil
}

// reopen opens the file of an O_PATH descriptor for reading.
func reopen(fd int, name string, dir bool) (*os.File, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	kind := st.Mode & unix.S_IFMT
	n := -1
	switch {
	case err != nil:
	case kind == unix.S_IFREG:
		n, err = unix.Open(selfFD(fd), readOnly, 0)
	case kind == unix.S_IFDIR && dir:
		n, err = unix.Openat(fd, ".", readOnly|unix.O_DIRECTORY, 0)
	default:
		err = &NotRegularError{modeOf(kind)}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(n), name), nil
}

// openAgain opens the path of an O_PATH descriptor a second time, and takes what
// it finds if it is the same file.
func openAgain(fd int, path string) (*os.File, error) {
	n, err := unix.Open(path, readOnly|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var was, is unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &was), unix.Fstat(n, &is), unix.SetNonblock(n, false))
	if err == nil && (was.Dev != is.Dev || was.Ino != is.Ino) {
		err = errors.New("replaced while it was opened")
	}
	if err != nil {
		unix.Close(n)
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(n), path), nil
}

func modeOf(kind uint32) fs.FileMode {
	switch kind {
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR, unix.S_IFBLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// FileID returns the device, as Mapping.Dev has it, and the inode of an open file.
func FileID(f *os.File) (dev, inode uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	d := uint64(st.Dev)
	return uint64(unix.Major(d))<<32 | uint64(unix.Minor(d)), st.Ino, nil
}

// ReadMemory reads len(b) bytes of another process at addr
// (process_vm_readv(2); ptrace read permission is needed).
func ReadMemory(pid int, b []byte, addr uint64) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}},
		0)
	if err != nil {
		return fmt.Errorf("read memory of %d at %#x: %w", pid, addr, err)
	}
	if n != len(b) {
		return fmt.Errorf("read memory of %d at %#x: %d of %d bytes", pid, addr, n, len(b))
	}
	return nil
}

// OpenPID returns a descriptor of a process, which does not come to mean another
// one when the number is used again (pidfd_open(2), since Linux 5.3). The caller
// closes it.
func OpenPID(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// SendSignal sends a signal to the process of an OpenPID descriptor.
func SendSignal(pid *os.File, sig syscall.Signal) error {
	return os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(int(pid.Fd()), sig, nil, 0))
}
