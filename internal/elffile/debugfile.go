package elffile

import (
	"bytes"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/procfs"
)

// DebugFinder finds the separate debug file of an ELF file.
type DebugFinder struct {
	Path string // the file's own path, as the target sees it; may be empty
	// Dirs are directories with debug files. Relative ones begin at the file's own.
	Dirs []string
	// Open opens a possible debug file. If it is nil, Find returns nil.
	Open func(path string) (fs.File, error)
	// Room bounds the bytes that sections may occupy decompressed; 0 means the debug file's
	// own bound. Start, if not nil, is called before that many bytes are read, and may return
	// an error.
	Room  int64
	Start func(size int64) error
}

// DebugDir is the directory where distributions install debug files: GDB manual, "Debugging
// Information in Separate Files".
const DebugDir = "/usr/lib/debug"

// ByBuildID returns the path of the debug file for a build-id below a debug directory. The id
// must have more than two digits.
func ByBuildID(dir, id string) string {
	return dir + "/.build-id/" + id[:2] + "/" + id[2:] + ".debug"
}

// OpenDebug opens a debug file in the root of one of the processes. Directories for debug files
// are searched in this process's root with its own rights. Whatever else a file names, beside
// itself or by a path in it, may be a link that a stranger made: it is opened with the rights
// of u, whom the file or the process that maps it belongs to.
func OpenDebug(u procfs.User, dirs []string, name string, pids ...int) (fs.File, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		own := slices.ContainsFunc(dirs, func(dir string) bool {
			return pid == os.Getpid() && path.IsAbs(dir) && strings.HasPrefix(name, path.Clean(dir)+"/")
		})
		var f fs.File
		if own {
			f, err = procfs.OpenInRoot(pid, name, false)
		} else {
			f, err = procfs.OpenFor(u, pid, name)
		}
		if err == nil {
			return f, nil
		}
	}
	return nil, err
}

// Find searches the build-id directories, and then for the .gnu_debuglink or, in a file without
// one, for NAME.debug, like GDB and elfutils. It returns nil if there is no debug file. The caller
// closes the result.
func (d *DebugFinder) Find(f *File, id string) *File {
	if d.Open == nil {
		return nil
	}
	dirs := d.dirs()
	if len(id) > 2 {
		for _, dir := range dirs {
			for _, name := range []string{
				ByBuildID(dir, id),
				dir + "/" + id + "/debuginfo", // a debuginfod client's cache
			} {
				if df := d.Try(name); df != nil {
					if df.BuildID() == id && alike(f, df) {
						return df
					}
					df.Close()
				}
			}
		}
	}
	name, crc, linked := debugLink(f)
	if !linked {
		if id == "" || d.Path == "" {
			return nil
		}
		name = path.Base(d.Path) + ".debug"
	}
	for _, p := range d.linkPaths(name, dirs) {
		df := d.Try(p)
		if df == nil {
			continue
		}
		// The checksum covers the whole file, so it is skipped if the build-ids agree.
		if alike(f, df) && (id != "" && df.BuildID() == id || linked && d.sums(df, crc)) {
			return df
		}
		df.Close()
	}
	return nil
}

// alike reports whether two files are for the same kind of machine.
func alike(a, b *File) bool {
	return a.Class == b.Class && a.Machine == b.Machine && a.Order == b.Order
}

// dirs returns the absolute paths of Dirs.
func (d *DebugFinder) dirs() []string {
	var list []string
	for _, dir := range d.Dirs {
		switch {
		case path.IsAbs(dir):
			list = append(list, dir)
		case d.Path != "":
			list = append(list, path.Join(path.Dir(d.Path), dir))
		}
	}
	return list
}

// linkPaths returns the possible paths of a debug file by name.
func (d *DebugFinder) linkPaths(name string, dirs []string) []string {
	if d.Path == "" {
		return nil
	}
	dir := path.Dir(d.Path)
	paths := []string{dir + "/" + name, dir + "/.debug/" + name}
	for _, g := range dirs {
		paths = append(paths, g+dir+"/"+name, g+"/"+name)
	}
	out := paths[:0]
	for _, p := range paths {
		if p != d.Path {
			out = append(out, p)
		}
	}
	return out
}

// Try opens a debug file. It returns nil if it cannot.
func (d *DebugFinder) Try(name string) *File {
	f, err := d.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	ef, err := NewFS(f)
	if err != nil {
		return nil
	}
	if len(ef.Sections) > maxLinkedSections { // not those of a program, nor of a kernel module
		ef.Close()
		return nil
	}
	if d.Room > 0 {
		ef.Bound(d.Room)
	}
	return ef
}

// debugLink reads .gnu_debuglink: a file name, padding to 4 bytes, and a checksum.
func debugLink(f *File) (name string, crc uint32, ok bool) {
	b, err := f.Data(f.Section(".gnu_debuglink"))
	if err != nil {
		return "", 0, false
	}
	i := bytes.IndexByte(b, 0)
	if i <= 0 || (i+4)&^3+4 > len(b) {
		return "", 0, false
	}
	name = string(b[:i])
	if strings.ContainsRune(name, '/') {
		return "", 0, false
	}
	return name, f.Order.Uint32(b[(i+4)&^3:]), true
}

// sums reports whether the file has the checksum.
func (d *DebugFinder) sums(f *File, crc uint32) bool {
	b, err := f.Whole(d.Start)
	if err != nil {
		return false
	}
	defer f.Release(b)
	return crc32.ChecksumIEEE(b) == crc
}

// maxMiniDebug is far above the size of any distribution's .gnu_debugdata.
const maxMiniDebug = 64 << 20

// MiniDebug opens .gnu_debugdata: an xz-compressed ELF file with symbols of functions that are
// not in .dynsym (GDB manual, "MiniDebugInfo"). It returns nil if there is none.
func MiniDebug(f *File) *File {
	b, err := f.Data(f.Section(".gnu_debugdata"))
	if err != nil || len(b) == 0 {
		return nil
	}
	format := decompress.Detect(b)
	if format != decompress.XZ && format != decompress.LZMA && format != decompress.Zstd {
		return nil
	}
	b, err = decompress.All(format, b, min(maxMiniDebug, f.Left()))
	if err != nil {
		return nil
	}
	ef, err := f.Inner(b)
	if err != nil {
		return nil
	}
	return ef
}
