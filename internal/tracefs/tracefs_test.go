package tracefs

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// TestFind: the usual places before others that the table of mounts has, and
// an error that says what to do.
func TestFind(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("1\n")}
	elsewhere := &fstest.MapFile{Data: []byte("proc /proc proc rw 0 0\nnone /mnt/tr tracefs rw 0 0\n")}
	for want, root := range map[string]fstest.MapFS{
		"sys/kernel/tracing":       {"sys/kernel/tracing/events/a/b/id": file, "mnt/tr/events/a/b/id": file, "proc/self/mounts": elsewhere},
		"sys/kernel/debug/tracing": {"sys/kernel/debug/tracing/events/a/b/id": file},
		"mnt/tr":                   {"mnt/tr/events/a/b/id": file, "proc/self/mounts": elsewhere},
	} {
		if d, err := Find(root, false); err != nil || d.Path != want || d.Close() != nil {
			t.Errorf("%v, %v; want %s", d, err, want)
		}
	}
	_, err := Find(fstest.MapFS{"proc/self/mounts": elsewhere}, false)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "mount -t tracefs") {
		t.Errorf("nowhere: %v", err)
	}
	if _, err := Find(denying{}, true); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "run as root") {
		t.Errorf("not readable: %v", err)
	}
}

// denying is a file system for somebody else.
type denying struct{}

func (denying) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
