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
	Path string   // of the file itself, as the target sees it; may be empty
	Dirs []string // global debug directories
	// Open opens a file that may be one; nil finds none.
	Open func(path string) (fs.File, error)
	// Room is how many bytes sections may take decompressed, 0 what the debug file
	// allows by itself; Start is asked before so many bytes are read, unless nil.
	Room  int64
	Start func(size int64) error
}

// DebugDir is where distributions install debug files: GDB manual, "Debugging
// Information in Separate Files".
const DebugDir = "/usr/lib/debug"

// ByBuildID is where the debug file of a build-id is installed below a debug directory;
// the id has more than two digits.
func ByBuildID(dir, id string) string {
	return dir + "/.build-id/" + id[:2] + "/" + id[2:] + ".debug"
}

// Find looks in the build-id directories, then for the .gnu_debuglink, as GDB
// and elfutils do.
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
		// The sum is over the whole file: a build-id that agrees spares it.
		if alike(f, df) && (id != "" && df.BuildID() == id || d.sums(df, crc)) {
			return df
		}
		df.Close()
	}
	return nil
}

// alike reports whether two files are of one kind of machine.
func alike(a, b *File) bool {
	return a.Class == b.Class && a.Machine == b.Machine && a.Order == b.Order
}

// linkPaths are the places of a debug file by name.
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

// Try opens a debug file, nil if that cannot be done.
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
	if d.Room > 0 {
		ef.Bound(d.Room)
	}
	return ef
}

// debugLink reads .gnu_debuglink: a file name, padding to 4 bytes, a checksum.
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

// sums tells whether the file has that checksum.
func (d *DebugFinder) sums(f *File, crc uint32) bool {
	b, err := f.Whole(d.Start)
	if err != nil {
		return false
	}
	defer f.Release(b)
	return crc32.ChecksumIEEE(b) == crc
}

// maxMiniDebug is far above what distributions put into .gnu_debugdata.
const maxMiniDebug = 64 << 20

// MiniDebug opens .gnu_debugdata: an xz-compressed ELF file with the symbols
// of functions that .dynsym does not have (GDB manual, "MiniDebugInfo").
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
