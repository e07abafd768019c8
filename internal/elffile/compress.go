package elffile

import (
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
)

// maxInflate is the largest section that is decompressed. The debug sections
// of a kernel with DWARF are some 400 MB.
const maxInflate = 1 << 30

// gnuCompressed reports whether the section is compressed in the way that came
// before SHF_COMPRESSED: ".zdebug_info", "ZLIB" and a big-endian size.
func gnuCompressed(s *Section) bool { return strings.HasPrefix(s.Name, ".zdebug") }

// load reads a section into memory, decompressed.
func (f *File) load(s *Section) ([]byte, error) {
	raw, err := f.Bytes(s.Offset, s.Size)
	if err != nil {
		return nil, err
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 {
		if len(raw) >= 12 && gnuCompressed(s) && string(raw[:4]) == "ZLIB" {
			return inflate(s, decompress.Zlib, raw[12:], binary.BigEndian.Uint64(raw[4:]))
		}
		return raw, nil
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
		return inflate(s, decompress.Zlib, raw[hdr:], size)
	case elf.COMPRESS_ZSTD:
		return inflate(s, decompress.Zstd, raw[hdr:], size)
	}
	return nil, bad(s.Offset, "unknown compression %d", typ)
}

func inflate(s *Section, f decompress.Format, b []byte, size uint64) ([]byte, error) {
	if size > maxInflate {
		return nil, bad(s.Offset, "section %s claims %d bytes", s.Name, size)
	}
	out, err := decompress.Bytes(f, b, int64(size))
	if err != nil {
		return nil, bad(s.Offset, "section %s: %v", s.Name, err)
	}
	return out, nil
}
