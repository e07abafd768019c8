package elffile

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
)

// ErrTooLarge is the error for a section that is too large in proportion to the file's
// storage, or larger than the reader of the file allows.
var ErrTooLarge = errors.New("too large for what the file takes up")

// These bound the size of sections, in proportion to the file's storage, because holes and
// zeros, which compress to nothing, are free for the author of a malicious file. Debug
// sections of real programs are 2 to 5 times as large as their compressed form, and
// compressing file systems reach a factor of 3.
const (
	maxExpansion = 16
	leastRoom    = 4 << 20 // for tables of zeros in small object files
)

// namesRoom is more room for the texts that debug information refers to: C++ names repeat each
// other, and compress to less than a hundredth of their size. Nothing is decoded from them, so
// that they cost what they are large.
const namesRoom = 24 << 20

// maxInflate bounds the decompressed size of all of a file's sections. The debug sections of a
// kernel with DWARF have about 400 MB, those of a browser 2 GB.
const maxInflate = 4 << 30

// room returns the size limit of a section.
func (f *File) room() int64 { return max(leastRoom, maxExpansion*f.stored) }

// Stored returns how many bytes of storage the file occupies: less than its size if it has
// holes.
func (f *File) Stored() int64 { return f.stored }

// Bound limits the bytes that all sections together may occupy decompressed or copied. A
// section that would exceed the limit is ErrTooLarge. Bound never raises the limit that
// follows from the file's storage. It must be called before other methods.
func (f *File) Bound(n int64) { f.bound = min(f.bound, n) }

// isNames reports whether a section has texts only.
func (s *Section) isNames() bool {
	name, debug := strings.CutPrefix(s.Name, ".debug_")
	if !debug {
		name, debug = strings.CutPrefix(s.Name, ".zdebug_")
	}
	return debug && (name == "str" || name == "line_str" || name == "str.dwo")
}

// left returns how many more bytes the sections may occupy decompressed or copied; names if
// they have texts only. The caller holds mu.
func (f *File) left(names bool) int64 {
	most := f.most - (f.heap - f.names)
	if names {
		most = f.most + namesRoom - f.heap
	}
	return max(min(most, f.bound-f.heap), 0)
}

// Inner reads an ELF file that was compressed in f. Both together have the bounds of f. It is
// read from b, which must not change until Close.
func (f *File) Inner(b []byte) (*File, error) {
	in := &File{
		r: bytesAt(b), size: int64(len(b)), stored: f.stored,
		most: max(f.most-int64(len(b)), 0), bound: max(f.bound-int64(len(b)), 0),
	}
	if err := in.parse(); err != nil {
		return nil, err
	}
	return in, nil
}

// Left returns how many more bytes sections may occupy decompressed or copied.
func (f *File) Left() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left(false)
}

// gnuCompressed reports whether the section is compressed in the format before SHF_COMPRESSED:
// ".zdebug_info", "ZLIB" and a big-endian size.
func gnuCompressed(s *Section) bool { return strings.HasPrefix(s.Name, ".zdebug") }

// load reads a section into memory, decompressed. The caller holds mu.
func (f *File) load(s *Section) ([]byte, error) {
	raw, err := f.Bytes(s.Offset, s.Size)
	if err != nil {
		return nil, err
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 {
		if len(raw) >= 12 && gnuCompressed(s) && string(raw[:4]) == "ZLIB" {
			return f.inflate(s, decompress.Zlib, raw[12:], binary.BigEndian.Uint64(raw[4:]))
		}
		return raw, nil
	}
	// gABI, "Section Compression": loaded sections are not compressed.
	if s.Flags&elf.SHF_ALLOC != 0 {
		return nil, bad(s.Offset, "section %s is loaded and compressed", s.Name)
	}
	var typ uint32
	var size uint64
	hdr := 24 // Elf64_Chdr
	if f.Class == elf.ELFCLASS32 {
		hdr = 12
	}
	if len(raw) < hdr {
		return nil, bad(s.Offset, "the compression header is cut off")
	}
	typ = f.Order.Uint32(raw)
	if f.Class == elf.ELFCLASS64 {
		size = f.Order.Uint64(raw[8:])
	} else {
		size = uint64(f.Order.Uint32(raw[4:]))
	}
	switch elf.CompressionType(typ) {
	case elf.COMPRESS_ZLIB:
		return f.inflate(s, decompress.Zlib, raw[hdr:], size)
	case elf.COMPRESS_ZSTD:
		return f.inflate(s, decompress.Zstd, raw[hdr:], size)
	}
	return nil, bad(s.Offset, "unknown compression %d", typ)
}

// maxTable bounds the decompressed size of a table of symbols or strings: linkers and objcopy
// compress only debug sections.
const maxTable = 16 << 20

func (f *File) inflate(s *Section, format decompress.Format, b []byte, size uint64) ([]byte,
	error,
) {
	isTable := s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_DYNSYM || s.Type == elf.SHT_STRTAB
	if size > uint64(f.left(s.isNames())) || isTable && size > maxTable {
		return nil, tooLarge(s, size)
	}
	out, err := decompress.Bytes(format, b, int64(size))
	if err != nil {
		return nil, bad(s.Offset, "section %s: %v", s.Name, err)
	}
	return out, nil
}
