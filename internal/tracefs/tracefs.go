// Package tracefs finds the kernel's tracefs, which contains the numbers and formats of
// tracepoints and the lists of functions and events. If it is not mounted, the package creates
// a mount that only this process can access.
package tracefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/notexist"
)

// mountpoints are the usual mount points of tracefs: its own, and the kernel's automount below
// debugfs.
var mountpoints = [...]string{"sys/kernel/tracing", "sys/kernel/debug/tracing"}

// remedy is the end of the errors of Find.
const remedy = "mount -t tracefs tracefs /sys/kernel/tracing (in a container, bind-mount the host's)"

// Dir is a tracefs that Find found.
type Dir struct {
	// Path is the path below the root that was searched, without a leading slash. For a mount
	// of the process's own it is proc/self/fd/N.
	Path string
	own  *os.File
}

// Own reports whether it is a mount of the process's own.
func (d *Dir) Own() bool { return d.own != nil }

// Close removes the mount that Find may have created. Path is invalid then.
func (d *Dir) Close() error {
	if d.own == nil {
		return nil
	}
	return d.own.Close()
}

// Need is Find with errors of type *feature.UnsupportedError.
func Need(root fs.FS, own bool) (*Dir, error) {
	dir, err := Find(root, own)
	if err != nil {
		return nil, &feature.UnsupportedError{Feature: "tracefs", Err: err}
	}
	return dir, nil
}

// Find finds tracefs below root: a mount or, if root is this machine's and own is set, a new
// mount of the process's own (Linux 5.2, CAP_SYS_ADMIN), which is in no mount table and ends
// with its last descriptor. Creating and closing that takes a tenth of a millisecond. The
// error matches fs.ErrPermission if tracefs is mounted and cannot be read, and otherwise
// fs.ErrNotExist. It describes the remedy.
func Find(root fs.FS, own bool) (*Dir, error) {
	dir, denied := mounted(root)
	switch {
	case dir != "":
		return &Dir{Path: dir}, nil
	case denied != nil:
		return nil, fmt.Errorf("/sys/kernel/tracing is readable by root only; run as root or remount it with gid= or mode=755: %w", denied)
	case !own:
		return nil, notexist.Error("it is not mounted: " + remedy)
	}
	f, err := detached()
	if err != nil {
		return nil, notexist.Errorf("it is not mounted, and a mount of one's own takes CAP_SYS_ADMIN and Linux 5.2 (%v): %s", err, remedy)
	}
	d := &Dir{Path: fmt.Sprintf("proc/self/fd/%d", f.Fd()), own: f}
	if _, err := fs.Stat(root, d.Path+"/events"); err != nil {
		f.Close()
		return nil, notexist.Errorf(
			"it is not mounted, and a mount of one's own can't be read without /proc (%v): %s", err, remedy)
	}
	return d, nil
}

// Here finds tracefs on this machine, or mounts it.
func Here() (*Dir, error) { return Find(os.DirFS("/"), true) }

// mounted checks the usual mount points, and then those in the table of mounts.
func mounted(root fs.FS) (dir string, denied error) {
	places := mountpoints[:]
	table, _ := fs.ReadFile(root, "proc/self/mounts")
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) >= 3 && f[2] == "tracefs" {
			places = append(places, path.Clean(strings.TrimPrefix(f[1], "/")))
		}
	}
	for _, dir := range places {
		_, err := fs.Stat(root, dir+"/events")
		if err == nil {
			return dir, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	return "", denied
}
