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

// Open opens a regular file for reading. A path below a process's root (TargetPath) is
// resolved in that root, as by OpenInRoot. Open checks the file before it opens it, and opens
// exactly the file that it checked. It does not open files that are not regular; the error
// then contains a *NotRegularError. Reads block their thread: the file is never added to
// epoll, which would call a user-space file system and wait for it with the whole Go runtime.
// The caller closes the file.
func Open(path string) (*os.File, error) { return open(path, false, false) }

// OpenServed is Open, but allows file systems that a stranger may serve (CheckServed). It may
// wait for the stranger.
func OpenServed(path string) (*os.File, error) { return open(path, false, true) }

// OpenInRoot opens a regular file like Open, by its path as the process sees it, below the
// process's root directory and in its mount namespace. Symbolic links, including absolute
// ones, are resolved inside that root. It looks into no directory, and opens no file, on a file
// system that CheckServed refuses; served allows those that a stranger may serve. It waits a
// few seconds at most for a file system that a process or another machine answers for, and so
// does the file that it returns, which then is no *os.File. The caller closes the file.
func OpenInRoot(pid int, name string, served bool) (fs.File, error) {
	return openRemote(func(patient bool) (*os.File, error) {
		w := &walker{pid: pid, served: served, patient: patient}
		return w.open(name)
	})
}

// OpenPath resolves a path like Open, for any type of file, and returns a descriptor that only
// identifies the file (O_PATH): to create files in a directory, to stat the file, or to pass
// it to the kernel as /proc/self/fd/N. served allows file systems that a stranger may serve.
// The caller closes it.
func OpenPath(path string, served bool) (*os.File, error) {
	fd, err := lookup(path, served)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenReal is OpenPath, but also returns the path without links, in the root in which it was
// looked up. The caller closes the file.
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
		w := &walker{pid: pid, patient: true}
		fd, err = w.lookupBelow(at, name)
	} else {
		fd, err = lookup(path, false)
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

// SocketIn finds a user's socket in a directory and returns a descriptor that only identifies
// it (O_PATH). It follows no links and crosses no mounts. The caller closes it.
func SocketIn(dir *os.File, name string, uid int) (*os.File, error) {
	fd, err := openAt2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	var st unix.Stat_t
	if err == nil {
		err = fstat(fd, &st)
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

// OpenMapping opens the file behind a mapping, even if its path has changed, through
// /proc/PID/map_files, which needs CAP_CHECKPOINT_RESTORE (Linux 5.9) or CAP_SYS_ADMIN. It
// does not open devices, nor what CheckServed refuses; served allows file systems that a
// stranger may serve. It waits for a remote file system like OpenInRoot. The caller closes the
// file.
func OpenMapping(pid int, m *Mapping, served bool) (fs.File, error) {
	path := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
	return openRemote(func(patient bool) (*os.File, error) {
		fd, err := openPath(path, unix.O_PATH|unix.O_CLOEXEC)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		defer unix.Close(fd)
		var st unix.Statx_t
		at, err := look(fd, pid, &st, found{}, served)
		if err == nil && at.system.remote && !patient {
			err = &remoteError{at.server}
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return reopenAs(fd, path, uint32(st.Mode)&unix.S_IFMT, false)
	})
}

// OpenMapped opens the file of a mapping: through OpenMapping if that is allowed, else by its
// path in the process's root or, if the process is gone, in this process's, if it is still the
// same file. It opens no file that OpenMapping would not. The caller closes the file.
func OpenMapped(pid int, m *Mapping, served bool) (fs.File, error) {
	f, err := OpenMapping(pid, m, served)
	var refused *ServedError
	if err == nil || errors.As(err, &refused) {
		return f, err
	}
	if !strings.HasPrefix(m.Path, "/") || m.Deleted {
		return nil, fs.ErrNotExist
	}
	f, err = OpenInRoot(pid, m.Path, served)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = OpenInRoot(os.Getpid(), m.Path, served)
	}
	if err != nil {
		return nil, err
	}
	if !IsMapped(f, pid, m) {
		f.Close()
		return nil, fmt.Errorf("the file at this path is another: %w", fs.ErrNotExist)
	}
	return f, nil
}

// IsMapped reports whether an open file is the one behind a mapping. A mapping shows the
// device of the file system, stat(2) that of a part of it (btrfs), and on an overlay one
// shows a layer's.
func IsMapped(f fs.File, pid int, m *Mapping) bool {
	dev, inode, err := FileID(f)
	if err != nil || inode != m.Inode {
		return false
	}
	if dev == m.Dev {
		return true
	}
	fd, ok := descriptor(f)
	if !ok {
		return false
	}
	at, err := mountOf(fd, pid, true)
	return err == nil && !at.onDisk() && at.system.fstype != "" &&
		(at.system.fstype == "overlay" || at.system.dev == fmt.Sprintf("%d:%d", m.Dev>>32, uint32(m.Dev)))
}

// IsRemote reports whether a process or another machine answers for the file, so that a page
// of a mapping of it may come late, or never. info is the file's Stat.
func IsRemote(f *os.File, info fs.FileInfo) bool {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && unix.Major(uint64(st.Dev)) != 0 {
		return false // on a disk
	}
	at, err := mountOf(int(f.Fd()), os.Getpid(), true)
	return err == nil && at.system.remote
}

// descriptor returns the descriptor of a file that this package opened.
func descriptor(f fs.File) (fd int, ok bool) {
	d, ok := f.(interface{ Fd() uintptr })
	if !ok {
		return -1, false
	}
	return int(d.Fd()), true
}

// open opens a regular file or, if dir is set, a directory.
func open(path string, dir, served bool) (*os.File, error) {
	fd, err := lookup(path, served)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	f, err := reopen(fd, path, dir)
	if _, _, target := TargetPath(path); errors.Is(err, unix.ENOENT) && !target {
		return openAgain(fd, path) // /proc is not mounted
	}
	return f, err
}

func stat(path string) (fs.FileInfo, error) {
	f, err := OpenPath(path, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// lookup resolves a path to a descriptor that cannot be read (O_PATH).
func lookup(path string, served bool) (int, error) {
	if pid, name, ok := TargetPath(path); ok {
		w := &walker{pid: pid, served: served, patient: true}
		return w.lookup(name)
	}
	fd, err := openPath(path, unix.O_PATH|unix.O_CLOEXEC)
	if pid, ok := magicPath(path); ok && err == nil {
		if _, err = mountOf(fd, pid, served); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// magicPath returns the process of a path that leads to a file that it has open or mapped,
// wherever that is.
func magicPath(path string) (pid int, ok bool) {
	pid, rest, ok := processPath(path)
	kind, _, _ := strings.Cut(rest, "/")
	return pid, ok && (kind == "fd" || kind == "map_files" || kind == "exe")
}

// openRoot opens a process's root directory.
func openRoot(pid int) (int, error) {
	dir := rootPath(pid)
	root, err := openPath(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return root, nil
}

func rootPath(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/root" }

// reopen opens the file of an O_PATH descriptor for reading.
func reopen(fd int, name string, dir bool) (*os.File, error) {
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return reopenAs(fd, name, st.Mode&unix.S_IFMT, dir)
}

// reopenAs is reopen for a file whose kind is known.
func reopenAs(fd int, name string, kind uint32, dir bool) (f *os.File, err error) {
	n := -1
	switch {
	case kind == unix.S_IFREG:
		n, err = openPath(selfFD(fd), readOnly)
	case kind == unix.S_IFDIR && dir:
		n, err = openAt(fd, ".", readOnly|unix.O_DIRECTORY)
	default:
		err = &NotRegularError{modeOf(kind)}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(n), name), nil
}

// openAgain opens the path of an O_PATH descriptor again, and checks that it is the same file.
func openAgain(fd int, path string) (*os.File, error) {
	n, err := openPath(path, readOnly|unix.O_NONBLOCK)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var was, is unix.Stat_t
	err = errors.Join(fstat(fd, &was), fstat(n, &is), unix.SetNonblock(n, false))
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

// FileID returns the inode of an open file and its device in the format of Mapping.Dev. It
// asks no file system.
func FileID(f fs.File) (dev, inode uint64, err error) {
	fd, ok := descriptor(f)
	if !ok {
		return 0, 0, errors.ErrUnsupported
	}
	var st unix.Statx_t
	if _, err := statx(fd, &st); err != nil {
		return 0, 0, err
	}
	return uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), st.Ino, nil
}

// ReadMemory reads len(b) bytes of another process at addr with process_vm_readv(2), which
// needs ptrace read permission.
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

// OpenPID returns a descriptor of a process, which does not refer to another process when the
// pid is reused (pidfd_open(2), since Linux 5.3). The caller closes it.
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
