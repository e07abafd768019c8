package procfs

import (
	"fmt"
	"os"
)

// OpenMapped opens the file of a mapping: through OpenMapping if that is allowed, else by its
// path, if it is still the same file. The caller closes it.
func OpenMapped(pid int, m *Mapping) (*os.File, error) {
	if f, err := OpenMapping(pid, m); err == nil {
		return f, nil
	}
	f, err := OpenInRoot(pid, m.Path)
	if err != nil {
		return nil, err
	}
	if dev, inode, err := FileID(f); err != nil || inode != m.Inode || dev != m.Dev {
		f.Close()
		return nil, fmt.Errorf("the file at this path is another: %w", os.ErrNotExist)
	}
	return f, nil
}
