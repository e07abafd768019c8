package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"math"
	"runtime/debug"
)

// Offset returns the file offset of the byte at a virtual address, by the loaded segments.
func (f *File) Offset(vaddr uint64) (off uint64, ok bool) {
	if i := covering(f, spanProgs, vaddr); i >= 0 {
		p := &f.Progs[i]
		return vaddr - p.Vaddr + p.Offset, true
	}
	if f.inObject(vaddr) {
		return vaddr, true
	}
	return 0, false
}

// inObject reports whether an address is one of an object file. Their addresses are offsets:
// see layOut.
func (f *File) inObject(addr uint64) bool {
	return f.Type == elf.ET_REL && len(f.Progs) == 0 && covering(f, spanObject, addr) >= 0
}

// SectionAt returns the number of the first section that contains a virtual address, -1 if there
// is none. If loaded is set, it is one of those that are loaded at their addresses.
func SectionAt(f *File, vaddr uint64, loaded bool) int {
	if loaded {
		return covering(f, spanLoaded, vaddr)
	}
	return covering(f, spanSections, vaddr)
}

// VAddr returns the virtual address at which the byte at a file offset is loaded. If segments
// share a page and exec is set, it prefers the executable one.
func (f *File) VAddr(off uint64, exec bool) (vaddr uint64, ok bool) {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_LOAD || off < p.Offset || off-p.Offset >= p.Filesz {
			continue
		}
		if v := off - p.Offset + p.Vaddr; !exec || p.Flags&elf.PF_X != 0 {
			return v, true
		} else if !ok {
			vaddr, ok = v, true
		}
	}
	if !ok && f.inObject(off) {
		return off, true
	}
	return vaddr, ok
}

// Bias is the function Bias for a file's program headers.
func (f *File) Bias(start, offset, length uint64, exec bool) (bias uint64, ok bool) {
	return Bias(f.Progs, start, offset, length, exec, 0)
}

// These are the page sizes of processes, in bytes.
const smallestPage, largestPage = 4 << 10, 64 << 10

// Bias returns the number to subtract from an address in a process, modulo 2^64, to get the
// file's own virtual address, for a mapping of the file at start with the given file offset.
//
// A mapping consists of whole pages, while its segment may begin later and end earlier in
// these. Segments that share a page are both in it: exec selects the executable one. Of two
// executable ones, Bias selects the one with the pages that fit the mapping best. If several
// fit equally well, it selects the one with the bias before, which is that of the previous
// mapping of the same file, or else the first.
//
// The process's pages may be larger than this machine's (arm64: 4, 16 or 64 KiB). They are not
// larger than the alignment of the file's segments and of the mapping. If several sizes
// remain, Bias assumes the smallest with which a segment fits exactly.
func Bias(progs []Prog, start, offset, length uint64, exec bool, before uint64) (bias uint64,
	ok bool,
) {
	bias, misfit, ok := biasOf(progs, start, offset, length, exec, before, smallestPage)
	for page := uint64(4 * smallestPage); misfit != 0 && page <= largestPage &&
		(start|offset|length)%page == 0; page *= 4 {
		if b, misfit, ok := biasOf(progs, start, offset, length, exec, before, page); ok && misfit == 0 {
			return b, true
		}
	}
	return bias, ok
}

// biasOf is Bias for one page size. misfit is the number of bytes that are in only one of the
// mapping and the segment's pages.
func biasOf(progs []Prog, start, offset, length uint64, exec bool, before, page uint64) (bias,
	misfit uint64, ok bool,
) {
	best := uint64(math.MaxUint64)
	end := offset + length
	for i := range progs {
		p := &progs[i]
		if p.Type != elf.PT_LOAD || p.Filesz == 0 || p.Offset+p.Filesz <= offset || p.Offset >= end {
			continue
		}
		if page > smallestPage && (p.Align < page || p.Align > largestPage) {
			continue // amd64's were once aligned to 2 MiB, which implies no page size
		}
		first, last := p.Offset&^(page-1), (p.Offset+p.Filesz+page-1)&^(page-1)
		misfit := max(first, offset) - min(first, offset) + max(last, end) - min(last, end)
		if exec != (p.Flags&elf.PF_X != 0) {
			misfit |= 1 << 63
		}
		if b := start - offset + p.Offset - p.Vaddr; misfit < best || misfit == best && b == before {
			best, bias, ok = misfit, b, true
		}
	}
	return bias, best, ok
}

// ntGNUBuildID is NT_GNU_BUILD_ID, elf.h.
const ntGNUBuildID = 3

// maxNotes bounds how many bytes of notes are searched for the build-id.
const maxNotes = 1 << 18

// BuildID returns the GNU build-id in lower-case hex, or "" if the file has none.
func (f *File) BuildID() (id string) {
	var err error
	defer Catch(debug.SetPanicOnFault(true), &err)
	left := uint64(maxNotes)
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PT_NOTE {
			continue
		}
		if id := f.buildID(p.Offset, p.Filesz, p.Align, &left); id != "" {
			return id
		}
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != elf.SHT_NOTE {
			continue
		}
		if id := f.buildID(s.Offset, s.Size, s.Addralign, &left); id != "" {
			return id
		}
	}
	return ""
}

// buildID finds the build-id in notes. left is the number of bytes that may still be searched.
func (f *File) buildID(off, size, align uint64, left *uint64) string {
	b, err := f.Bytes(off, min(size, *left))
	*left -= uint64(len(b))
	if err != nil {
		return ""
	}
	if align != 8 {
		align = 4
	}
	for len(b) >= 12 {
		namesz, descsz := uint64(f.Order.Uint32(b)), uint64(f.Order.Uint32(b[4:]))
		typ := f.Order.Uint32(b[8:])
		desc := (12 + namesz + align - 1) &^ (align - 1)
		end := (desc + descsz + align - 1) &^ (align - 1)
		if desc+descsz > uint64(len(b)) {
			return ""
		}
		if typ == ntGNUBuildID && namesz == 4 && bytes.Equal(b[12:16], []byte("GNU\x00")) &&
			descsz <= 64 {
			return hex.EncodeToString(b[desc : desc+descsz])
		}
		if end >= uint64(len(b)) {
			return ""
		}
		b = b[end:]
	}
	return ""
}
