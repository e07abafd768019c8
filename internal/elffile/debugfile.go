package elffile

import (
	"bytes"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
)

// DebugFinder finds the separate debug file of an ELF file.
type DebugFinder struct {
	Path string   // the file's own path, as the target sees it; may be empty
	Dirs []string // global debug directories
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

// Find searches the build-id directories, and then for the .gnu_debuglink, like GDB and
// elfutils. It returns nil if there is no debug file. The caller closes the result.
func (d *DebugFinder) Find(f *File, id string) *File {
	if d.Open == nil {
		return nil
	}
	if len(id) > 2 {
		for _, dir := range d.Dirs {
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
	name, crc, ok := debugLink(f)
	if !ok {
		return nil
	}
	for _, p := range d.linkPaths(name) {
		df := d.Try(p)
		if df == nil {
			continue
		}
		// The checksum covers the whole file, so it is skipped if the build-ids agree.
		if alike(f, df) && (id != "" && df.BuildID() == id || d.sums(df, crc)) {
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

// linkPaths returns the possible paths of a debug file by name.
func (d *DebugFinder) linkPaths(name string) []string {
	if d.Path == "" {
		return nil
	}
	dir := path.Dir(d.Path)
	paths := []string{dir + "/" + name, dir + "/.debug/" + name}
	for _, g := range d.Dirs {
		paths = append(paths, g+dir+"/"+name)
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
