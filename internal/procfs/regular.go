package procfs

import (
	"io/fs"
	"strconv"
	"strings"
)

// NotRegularError is the error for a file that is not regular, with its type. Opening a FIFO
// would wait for its writer, and opening a device may have effects: a watchdog starts, a tape
// rewinds.
type NotRegularError struct{ Mode fs.FileMode }

func (e *NotRegularError) Error() string {
	what := "a special file"
	switch {
	case e.Mode.IsDir():
		what = "a directory"
	case e.Mode&fs.ModeNamedPipe != 0:
		what = "a FIFO"
	case e.Mode&fs.ModeSocket != 0:
		what = "a socket"
	case e.Mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return what + ", not a regular file"
}

// ServedError is the error for a file that is not opened because of its file system: a
// process that is not trusted serves it, so that reads may be late, never return, or differ
// each time; or it is one of the kernel's own, where reads have effects.
type ServedError struct {
	FS  string // the file system's type: "fuse.sshfs"; "" if unknown
	Why string
}

func (e *ServedError) Error() string {
	if e.FS == "" {
		return "file system: " + e.Why
	}
	return "file system " + e.FS + ": " + e.Why
}

// TargetPath splits a path below /proc/PID/root into the pid and the path as the process sees
// it.
func TargetPath(path string) (pid int, name string, ok bool) {
	pid, rest, ok := processPath(path)
	name, root := strings.CutPrefix(rest, "root")
	if !ok || !root || name != "" && name[0] != '/' {
		return 0, "", false
	}
	return pid, name, true
}

// processPath splits a path below /proc/PID into the pid and the rest.
func processPath(path string) (pid int, rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, "/proc/")
	number, rest, _ := strings.Cut(rest, "/")
	if !ok || number == "" || number[0] < '1' || number[0] > '9' {
		return 0, "", false
	}
	pid, err := strconv.Atoi(number)
	return pid, rest, err == nil
}

// DirFS returns the files below a directory, like os.DirFS, but opens only regular files and
// directories, and resolves the paths of processes (TargetPath) in their roots. DirFS("/") is
// this machine.
func DirFS(dir string) fs.FS { return dirFS(strings.TrimRight(dir, "/")) }

type dirFS string

var _ fs.StatFS = dirFS("")

func (d dirFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := open(string(d)+"/"+name, true, false)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat describes a file of any type, without opening it.
func (d dirFS) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return stat(string(d) + "/" + name)
}
