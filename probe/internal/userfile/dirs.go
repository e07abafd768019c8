package userfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe/env"
)

// MaxEntries bounds the directory entries that one search reads. A process's root may have
// directories of any size; /usr/lib of a large installation has 10,000 entries.
const MaxEntries = 1 << 16

// dirsOf returns the root for one search, with bounded reading of directories.
func dirsOf(e *env.Env) *Dirs { return &Dirs{FS: e.Root(), Left: MaxEntries} }

// Dirs is a file system with bounded reading of directories.
type Dirs struct {
	fs.FS
	Left int   // entries that may still be read
	err  error // for the first directory that exceeded the bound
}

var (
	_ fs.ReadDirFS = (*Dirs)(nil)
	_ fs.StatFS    = (*Dirs)(nil)
)

// Stat describes a file without opening it, as the file system does.
func (d *Dirs) Stat(name string) (fs.FileInfo, error) { return fs.Stat(d.FS, name) }

// ReadDir returns the entries of a directory by name. If there are more than may still be
// read, it returns none and an error.
func (d *Dirs) ReadDir(name string) ([]fs.DirEntry, error) {
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
		some, err := dir.ReadDir(min(1024, d.Left+1))
		if d.Left -= len(some); d.Left < 0 {
			d.err = fmt.Errorf("/%s: more than %d entries were looked through: give the file's path", name,
				MaxEntries)
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
