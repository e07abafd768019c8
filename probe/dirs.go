package probe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// maxEntries is how many entries of directories one search reads: a process's root
// may have directories of any size, /usr/lib of a large installation 10,000.
const maxEntries = 1 << 16

// dirsOf returns the tree for one search, to be listed in bounds.
func dirsOf(e *Env) *dirs { return &dirs{FS: e.root, left: maxEntries} }

// dirs is a tree whose directories are read in bounds.
type dirs struct {
	fs.FS
	left int   // entries
	err  error // of the first directory that led beyond
}

var (
	_ fs.ReadDirFS = (*dirs)(nil)
	_ fs.StatFS    = (*dirs)(nil)
)

// Stat is that of the tree, which opens nothing.
func (d *dirs) Stat(name string) (fs.FileInfo, error) { return fs.Stat(d.FS, name) }

// ReadDir returns the entries of a directory by name, or none where that are more
// than are left.
func (d *dirs) ReadDir(name string) ([]fs.DirEntry, error) {
	if d.err != nil {
		return nil, d.err
	}
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.ErrUnsupported}
	}
	var out []fs.DirEntry
	for {
		some, err := dir.ReadDir(min(1024, d.left+1))
		if d.left -= len(some); d.left < 0 {
			d.err = fmt.Errorf("/%s: more than %d entries were looked through: give the file's path", name, maxEntries)
			return nil, d.err
		}
		out = append(out, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}
