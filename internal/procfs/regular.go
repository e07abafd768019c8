package procfs

import (
	"io/fs"
	"strconv"
	"strings"
)

// NotRegularError says what a file is that is no regular one. A FIFO would wait
// for its writer, and the mere opening of a device may act: a watchdog starts, a
// tape rewinds.
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

// TargetPath splits a path below /proc/PID/root into the process and the path as
// the process sees it.
func TargetPath(path string) (pid int, name string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/proc/")
	number, rest, _ := strings.Cut(rest, "/")
	if !ok || number == "" || number[0] < '1' || number[0] > '9' {
		return 0, "", false
	}
	pid, err := strconv.Atoi(number)
	name, ok = strings.CutPrefix(rest, "root")
	if err != nil || !ok || name != "" && name[0] != '/' {
		return 0, "", false
	}
	return pid, name, true
}

// hostFS is this machine's file system.
type hostFS struct{}

// Host returns this machine as a file system, as os.DirFS("/") does, but with
// the paths of processes (TargetPath) resolved in their roots, and without
// opening what is no regular file or directory.
func Host() fs.FS { return hostFS{} }

var _ fs.StatFS = hostFS{}

func (hostFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := open("/"+name, true)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat describes a file, of whatever kind, without opening it.
func (hostFS) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return stat("/" + name)
}
