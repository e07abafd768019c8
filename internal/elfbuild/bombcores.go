package elfbuild

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coreBombs returns malicious core files.
func coreBombs() []Bomb {
	return []Bomb{
		{Name: "threads", Kind: Core, Make: func() []byte { return coreFile(coreThreads(40_000)) }},
		{Name: "mapped-files", Kind: Core, Make: func() []byte {
			return coreFile(coreFiles(500_000, 500_000))
		}},
		{Name: "giant-count", Kind: Core, Make: func() []byte { return coreFile(coreFiles(1<<60, 10)) }},
		{Name: "notes-over-notes", Kind: Core, Make: func() []byte {
			return NotesOverNotes(2000, coreThreads(10_000))
		}},
		{Name: "paths", Kind: Core, Make: func() []byte { return CorePaths(100_000, 64) }},
		{Name: "more-paths", Kind: Core, Make: func() []byte { return CorePaths(300_000, 64) }},
		{Name: "paths-of-large-headers", Kind: Core, Make: func() []byte {
			return CorePaths(100_000, 64<<10)
		}},
		{Name: "notes-in-a-hole", Kind: Core, Hole: 6 << 30, Make: func() []byte {
			image := coreFile(coreThreads(1))
			setSegment(image, 0, uint64(len(image)), 255<<20)
			return image
		}},
		{Name: "core-of-a-hole", Kind: Core, Hole: 6 << 30, Make: func() []byte {
			return GzipZeros(coreFile(coreThreads(1)), 0)
		}},
		{Name: "packed-zeros", Kind: Core, Make: func() []byte { return GzipZeros(nil, 512<<20) }},
		{Name: "packed-core-of-zeros", Kind: Core, Make: func() []byte {
			return GzipZeros(coreFile(coreThreads(1)), 512<<20)
		}},
		{Name: "zstd-core-of-zeros", Kind: Core, Make: func() []byte {
			return zstdRepeat(coreFile(coreThreads(1)), 4<<30, 0)
		}},
		{Name: "zstd-core-of-text", Kind: Core, Make: func() []byte {
			return zstdRepeat(coreFile(coreThreads(1)), 1<<30, 'a')
		}},
	}
}

// kernelBombs returns malicious images of kernels and kernel modules.
func kernelBombs() []Bomb {
	return []Bomb{
		{Name: "magic-and-a-hole", Kind: Kernel, Hole: 6 << 30, Make: func() []byte {
			return (&File{Machine: elf.EM_X86_64, NoSections: true}).Bytes()
		}},
		{Name: "nothing-but-a-hole", Kind: Kernel, Hole: 6 << 30, Make: func() []byte {
			return make([]byte, 4096)
		}},
		{Name: "ORC-in-a-hole", Kind: Kernel, Hole: 6 << 30, Make: func() []byte {
			image, o := Program(orcSections()...).Bytes(), binary.LittleEndian
			headers := image[o.Uint64(image[40:]):]
			for i, size := range []uint64{64 << 20, 96 << 20} {
				o.PutUint64(headers[64*(2+i)+24:], uint64(len(image)))
				o.PutUint64(headers[64*(2+i)+32:], size)
			}
			return image
		}},
		{Name: "compressed-ORC", Kind: Kernel, Make: func() []byte {
			s := orcSections()
			for i, size := range []int{64 << 20, 96 << 20} {
				s[i].Flags, s[i].Data = elf.SHF_COMPRESSED, Compressed(nil, size)
			}
			return Program(s...).Bytes()
		}},
		{Name: "packed-zeros-for-a-kernel", Kind: Kernel, Make: func() []byte {
			return GzipZeros(nil, 512<<20)
		}},
		{Name: "packed-kernel-of-zeros", Kind: Kernel, Make: func() []byte {
			return GzipZeros(Program().Bytes(), 512<<20)
		}},
		{Name: "zstd-kernel-of-text", Kind: Kernel, Make: func() []byte {
			return zstdRepeat(Program().Bytes(), 1<<30, 'a')
		}},
	}
}

// orcSections returns empty tables of ORC data.
func orcSections() []Section {
	return []Section{
		{Name: ".orc_unwind_ip", Type: elf.SHT_PROGBITS, Data: make([]byte, 4)},
		{Name: ".orc_unwind", Type: elf.SHT_PROGBITS, Data: make([]byte, 6)},
	}
}

// NotesOverNotes returns a core file in which n segments are the same notes.
func NotesOverNotes(n int, notes []byte) []byte {
	f := File{Type: elf.ET_CORE, Machine: elf.EM_X86_64, NoSections: true}
	f.Sections = []Section{{Name: "notes", Type: elf.SHT_NOTE, Data: notes, Align: 4}}
	for range n {
		f.Segments = append(f.Segments, Segment{Type: elf.PT_NOTE, Section: "notes", Align: 4})
	}
	return f.Bytes()
}

// CorePaths returns a core file of a process that had mapped n files, each with another path,
// of which none exists. All are mapped at the beginning of the same head bytes, which are an
// ELF header with as many program headers as fit.
func CorePaths(n, head int) []byte {
	o := binary.LittleEndian
	const at = 0x10000
	desc := o.AppendUint64(o.AppendUint64(nil, uint64(n)), 4096)
	var paths []byte
	for i := range n {
		desc = o.AppendUint64(o.AppendUint64(o.AppendUint64(desc, at), at+4096), 0)
		paths = fmt.Appendf(paths, "/%06x\x00", i)
	}
	image := (&File{Machine: elf.EM_X86_64, NoSections: true}).Bytes()
	image = append(image, make([]byte, max(head-len(image), 0))...)
	o.PutUint64(image[32:], 64)
	o.PutUint16(image[54:], 56)
	o.PutUint16(image[56:], uint16((head-64)/56))
	f := File{Type: elf.ET_CORE, Machine: elf.EM_X86_64, NoSections: true}
	f.Sections = []Section{
		{
			Name: "notes", Type: elf.SHT_NOTE, Align: 4,
			Data: append(coreThreads(1), note("CORE", 0x46494c45, append(desc, paths...))...),
		},
		{
			Name: "head", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
			Addr: at, Data: image,
		},
	}
	f.Segments = []Segment{
		{Type: elf.PT_NOTE, Section: "notes", Align: 4},
		{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Section: "head"},
	}
	return f.Bytes()
}

// setSegment changes the place and the size of a segment of a 64-bit file.
func setSegment(image []byte, i int, off, size uint64) {
	o := binary.LittleEndian
	header := image[o.Uint64(image[32:])+uint64(56*i):]
	o.PutUint64(header[8:], off)
	o.PutUint64(header[32:], size)
}

// GzipZeros returns head and n zeros, compressed by gzip.
func GzipZeros(head []byte, n int64) []byte {
	var out bytes.Buffer
	// Writing to a buffer does not fail.
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = w.Write(head)
	_, _ = io.CopyN(w, &repeater{b: make([]byte, 1<<20)}, n)
	_ = w.Close()
	return out.Bytes()
}

// zstdRepeat returns head and n bytes of the same value, compressed by zstd.
func zstdRepeat(head []byte, n int64, value byte) []byte {
	var out bytes.Buffer
	// Writing to a buffer does not fail.
	w, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	_, _ = w.Write(head)
	_, _ = io.CopyN(w, &repeater{b: bytes.Repeat([]byte{value}, 1<<20)}, n)
	_ = w.Close()
	return out.Bytes()
}
