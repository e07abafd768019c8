package symbol

import (
	"bytes"
	"debug/elf"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// debugFinder finds the separate debug file of an ELF file.
type debugFinder struct {
	path string   // of the file itself, as the target sees it; may be empty
	dirs []string // global debug directories
	open func(path string) (fs.File, error)
	// room is how many bytes sections may take decompressed, 0 what the debug file
	// allows by itself; start is asked before so many bytes are read, unless nil.
	room  int64
	start func(size int64) error
}

// defaultDebugDir is where distributions install debug files: GDB manual,
// "Debugging Information in Separate Files".
const defaultDebugDir = "/usr/lib/debug"

func debugDirs(dirs []string) []string {
	if dirs == nil {
		return []string{defaultDebugDir}
	}
	return dirs
}

func openHost(path string) (fs.File, error) {
	return procfs.Open(path)
}

// symbolFile returns the file that has the symbol table: this one, its debug
// file, or the one inside .gnu_debugdata. The caller holds mu.
func (e *ELF) symbolFile() *elffile.File {
	if e.f.SectionOfType(elf.SHT_SYMTAB) != nil {
		return e.f
	}
	if d := e.debugFile(); d != nil && d.SectionOfType(elf.SHT_SYMTAB) != nil {
		return d
	}
	return e.f
}

// debugFile returns the separate debug file, nil if there is none. The caller
// holds mu.
func (e *ELF) debugFile() *elffile.File {
	if e.debugTried {
		return e.debug
	}
	e.debugTried = true
	if e.debug = e.opts.find.find(e.f, e.buildID); e.debug == nil {
		e.debug = miniDebug(e.f)
	}
	if e.debug != nil {
		e.debug.LayOutAs(e.f)
	}
	return e.debug
}

// find looks in the build-id directories, then for the .gnu_debuglink, as GDB
// and elfutils do.
func (d *debugFinder) find(f *elffile.File, id string) *elffile.File {
	if d.open == nil {
		return nil
	}
	if len(id) > 2 {
		for _, dir := range d.dirs {
			for _, name := range []string{
				dir + "/.build-id/" + id[:2] + "/" + id[2:] + ".debug",
				dir + "/" + id + "/debuginfo", // a debuginfod client's cache
			} {
				if df := d.try(name); df != nil {
					if df.BuildID() == id {
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
		df := d.try(p)
		if df == nil {
			continue
		}
		// The sum is over the whole file: a build-id that agrees spares it.
		if id != "" && df.BuildID() == id || d.sums(df, crc) {
			return df
		}
		df.Close()
	}
	return nil
}

// linkPaths are the places of a debug file by name.
func (d *debugFinder) linkPaths(name string) []string {
	if d.path == "" {
		return nil
	}
	dir := path.Dir(d.path)
	paths := []string{dir + "/" + name, dir + "/.debug/" + name}
	for _, g := range d.dirs {
		paths = append(paths, g+dir+"/"+name)
	}
	out := paths[:0]
	for _, p := range paths {
		if p != d.path {
			out = append(out, p)
		}
	}
	return out
}

// try opens a debug file, nil if that cannot be done.
func (d *debugFinder) try(name string) *elffile.File {
	f, err := d.open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	ef, err := elffile.NewFS(f)
	if err != nil {
		return nil
	}
	if d.room > 0 {
		ef.Bound(d.room)
	}
	return ef
}

// debugLink reads .gnu_debuglink: a file name, padding to 4 bytes, a checksum.
func debugLink(f *elffile.File) (name string, crc uint32, ok bool) {
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
func (d *debugFinder) sums(f *elffile.File, crc uint32) bool {
	b, err := f.Whole(d.start)
	if err != nil {
		return false
	}
	defer f.Release(b)
	return crc32.ChecksumIEEE(b) == crc
}

// maxMiniDebug is far above what distributions put into .gnu_debugdata.
const maxMiniDebug = 64 << 20

// miniDebug opens .gnu_debugdata: an xz-compressed ELF file with the symbols
// of functions that .dynsym does not have (GDB manual, "MiniDebugInfo").
func miniDebug(f *elffile.File) *elffile.File {
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
