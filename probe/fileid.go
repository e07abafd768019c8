package probe

import (
	"fmt"
	"os"
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
}

// String is the device, the inode and the change time.
func (id FileID) String() string {
	return fmt.Sprintf("device %#x inode %d changed %d", id.Device, id.Inode, id.Changed)
}

// fileIDs are the files that were read, by path; a nil one notes nothing.
type fileIDs map[string]FileID

// note remembers which file is open, and refuses one that another has replaced
// since it was first read.
func (ids fileIDs) note(path string, f *os.File) error {
	if ids == nil {
		return nil
	}
	if err := ids.check(path, f); err != nil {
		return fmt.Errorf("%s was replaced or changed while it was read: %w", path, err)
	}
	id, err := identify(f)
	if err == nil {
		ids[path] = id
	}
	return err
}

// check compares an open file with the one noted for the path, if there is one.
func (ids fileIDs) check(path string, f *os.File) error {
	want, ok := ids[path]
	if !ok {
		return nil
	}
	have, err := identify(f)
	if err == nil && have != want {
		err = fmt.Errorf("it was %s and is %s", want, have)
	}
	return err
}

// keep leaves the files that the plan's sites are in.
func (ids fileIDs) keep(programs []Program) fileIDs {
	var out fileIDs
	for i := range programs {
		for j := range programs[i].Sites {
			path := programs[i].Sites[j].Path
			if id, ok := ids[path]; ok {
				if out == nil {
					out = fileIDs{}
				}
				out[path] = id
			}
		}
	}
	return out
}
