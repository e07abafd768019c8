package tracefs

import (
	"io/fs"
	"strings"
)

// Files returns root's files with those of tracefs where it is usually mounted.
func (d *Dir) Files(root fs.FS) fs.FS {
	if d.Path == mountpoints[0] {
		return root
	}
	return &files{root, d.Path}
}

// files has tracefs at the usual place.
type files struct {
	root fs.FS
	dir  string // where it is
}

var (
	_ fs.StatFS     = (*files)(nil)
	_ fs.ReadLinkFS = (*files)(nil)
)

// place returns where a file of these is in root.
func (f *files) place(name string) string {
	if rest, ok := strings.CutPrefix(name, mountpoints[0]); ok && (rest == "" || rest[0] == '/') {
		return f.dir + rest
	}
	return name
}

func (f *files) Open(name string) (fs.File, error) { return f.root.Open(f.place(name)) }

func (f *files) Stat(name string) (fs.FileInfo, error) { return fs.Stat(f.root, f.place(name)) }

func (f *files) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.root, f.place(name)) }

func (f *files) ReadLink(name string) (string, error) { return fs.ReadLink(f.root, f.place(name)) }
