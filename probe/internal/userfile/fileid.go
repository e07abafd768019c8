package userfile

import (
	"fmt"
	"os"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// FileID tells a file from another that takes its place, and from itself with
// other contents: a plan's offsets are good for the file they were read from only.
type FileID struct {
	// Device and Inode are those of stat(2).
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Changed is the time of the file's last change, of contents or attributes
	// (st_ctim), in nanoseconds since 1970.
	Changed int64 `json:"changed"`
	// BuildID is the file's GNU build-id in lower-case hex, empty if it has none: it says
	// of a recorded plan which build it is for. Same does not ask for it.
	BuildID string `json:"buildID,omitempty"`
}

// Same reports whether both are the same file with the same contents. Files of one
// build-id are not: what rewrites a file (strip, patchelf) keeps its id and may move
// its code.
func (id FileID) Same(other FileID) bool {
	return id.Device == other.Device && id.Inode == other.Inode && id.Changed == other.Changed
}

// String is the device, the inode, the change time and the build-id, if there is one.
func (id FileID) String() string {
	s := fmt.Sprintf("device %#x inode %d changed %d", id.Device, id.Inode, id.Changed)
	if id.BuildID != "" {
		s += " build-id " + id.BuildID
	}
	return s
}

// FileIDs are the files that were read, by path; a nil one notes nothing.
type FileIDs map[string]FileID

// Sources are the files that a plan is made from.
type Sources struct {
	IDs FileIDs
	// Served lets files be read for which a process answers.
	Served bool
}

// note remembers which file is open, and refuses one that another has replaced
// since it was first read, or for which a process answers.
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

// noteBuild adds to what is noted for the path which build it is. All files that a
// plan has sites in are opened as ELF files, but archives.
func (s Sources) noteBuild(path string, f *elffile.File) {
	if id, noted := s.IDs[path]; noted && id.BuildID == "" {
		id.BuildID = f.BuildID()
		s.IDs[path] = id
	}
}

// NotServed refuses a file for which a process answers. While the kernel reads the
// instruction to put a breakpoint there, nobody on the machine can fork
// (dup_mmap_sem, kernel/events/uprobes.c): it must not wait for a process.
func NotServed(path string, f *os.File) error {
	served, err := procfs.Served(int(f.Fd()))
	if err == nil && served {
		err = fmt.Errorf(
			"%s: its file system is a process's (FUSE), which may keep the whole machine waiting: "+
				"Options.Unsafe, and -unsafe of the tools, probes it all the same", path)
	}
	return err
}

// Check compares an open file with the one noted for the path, if there is one.
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
