package userfile

import (
	"fmt"
	"os"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// FileID identifies a file and its contents: a plan's offsets are valid only for the file that
// they were read from. It differs for another file at the same path, and for the same file
// with changed contents.
type FileID struct {
	// Device and Inode are those of stat(2).
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Changed is the time of the file's last change, of contents or attributes
	// (st_ctim), in nanoseconds since 1970.
	Changed int64 `json:"changed"`
	// BuildID is the file's GNU build-id in lower-case hex, empty if it has none. It shows
	// which build a recorded plan is for. Same ignores it.
	BuildID string `json:"buildID,omitempty"`
}

// Same reports whether both are the same file with the same contents. An equal build-id is not
// enough: tools that rewrite a file (strip, patchelf) keep its id and may move its code.
func (id FileID) Same(other FileID) bool {
	return id.Device == other.Device && id.Inode == other.Inode && id.Changed == other.Changed
}

// String returns the device, the inode, the change time and the build-id, if there is one.
func (id FileID) String() string {
	s := fmt.Sprintf("device %#x inode %d changed %d", id.Device, id.Inode, id.Changed)
	if id.BuildID != "" {
		s += " build-id " + id.BuildID
	}
	return s
}

// FileIDs contains the files that were read, by path. A nil FileIDs records nothing.
type FileIDs map[string]FileID

// Sources records the files that a plan is made from.
type Sources struct {
	IDs FileIDs
	// Served allows files on file systems that a process serves.
	Served bool
}

// note records which file is open. It returns an error for a file that was replaced since it
// was first read, and for a file on a file system that a process serves.
func (s Sources) note(path string, f *os.File) error {
	ids := s.IDs
	if ids == nil {
		return nil
	}
	if _, noted := ids[path]; noted {
		if err := ids.Check(path, f); err != nil {
			return fmt.Errorf("%s was replaced or changed while it was read: %w", path, err)
		}
		return nil
	}
	if !s.Served {
		if err := NotServed(path, f); err != nil {
			return err
		}
	}
	id, err := Identify(f)
	if err != nil {
		return err
	}
	ids[path] = id
	return nil
}

// noteBuild adds the build-id to what is recorded for the path. All files that a plan has
// sites in are opened as ELF files, except archives.
func (s Sources) noteBuild(path string, f *elffile.File) {
	if id, noted := s.IDs[path]; noted && id.BuildID == "" {
		id.BuildID = f.BuildID()
		s.IDs[path] = id
	}
}

// NotServed returns an error for a file on a file system that a process serves, or may serve.
// While the kernel reads the instruction to put a breakpoint there, no process on the machine
// can fork (dup_mmap_sem, kernel/events/uprobes.c), so it must not wait for a process.
func NotServed(path string, f *os.File) error {
	pid, _, ok := procfs.TargetPath(path)
	if !ok {
		pid = os.Getpid()
	}
	if err := procfs.CheckAttachable(int(f.Fd()), pid); err != nil {
		return fmt.Errorf(
			"%s: %w; Options.Unsafe, and -unsafe of the tools, probes it all the same", path, err)
	}
	return nil
}

// Check compares an open file with the one recorded for the path, if there is one.
func (ids FileIDs) Check(path string, f *os.File) error {
	want, ok := ids[path]
	if !ok {
		return nil
	}
	have, err := Identify(f)
	if err == nil && !have.Same(want) {
		err = fmt.Errorf("it was %s and is %s", want, have)
	}
	return err
}
