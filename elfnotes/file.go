package elfnotes

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"

	"github.com/borescope/borescope/internal/procfs"
)

// defaultMaxBytes is the largest size of a section or segment of notes if File.MaxBytes is not
// set: 256 MiB, the notes of a core file with some 60,000 threads.
const defaultMaxBytes = 256 << 20

// File is an ELF file whose notes can be read: an executable, library, object, debug or
// core file of either class and byte order. A File is immutable except for MaxBytes, and
// safe for concurrent use if its reader is.
type File struct {
	// Class, Order, Machine and Type are from the ELF header.
	Class   elf.Class
	Order   binary.ByteOrder
	Machine elf.Machine
	Type    elf.Type

	// MaxBytes bounds the size of a section or segment of notes; 0 means
	// 256 MiB. A larger one is reported as an error and not read. Whatever it is, all notes of
	// an *os.File together may not exceed the storage that it takes up by more than 16 MiB.
	MaxBytes int64

	r      io.ReaderAt
	h      *header
	stored int64 // bytes of storage of r, -1 if unknown
	closer io.Closer
}

// leastNotes is how many bytes of notes a file may have more than it has storage: a hole is free
// for the author of a malicious file, and so are its zeros where a file system compresses.
const leastNotes = 16 << 20

// NewFile reads the header of an ELF file. It keeps r, which the caller still owns, and reads
// notes from it when a method needs them. If r is a Bytes, notes are sub-slices of it, without
// a copy.
//
// The error matches ErrNotELF for input that is not an ELF file, and is a *FormatError for a
// file that can't be read.
func NewFile(r io.ReaderAt) (*File, error) {
	h, err := parseHeader(r)
	if err != nil {
		return nil, fmt.Errorf("read ELF header: %w", err)
	}
	return &File{
		Class: h.class, Order: h.order, Machine: h.machine, Type: h.typ, r: r, h: h,
		stored: storage(r),
	}, nil
}

// storage returns how many bytes of storage a file occupies, -1 if that is not known.
func storage(r io.ReaderAt) int64 {
	switch r := r.(type) {
	case interface{ Stat() (os.FileInfo, error) }:
		if st, err := r.Stat(); err == nil && st.Mode().IsRegular() {
			return procfs.Stored(st)
		}
	case interface{ Stored() int64 }:
		return r.Stored()
	}
	return -1
}

// Open opens a file of this machine by path. The caller must close it.
func Open(path string) (*File, error) {
	file, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := NewFile(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.closer = file
	return f, nil
}

// Close closes the file that Open opened; for a File made by NewFile it does nothing. It
// may be called more than once, and on nil.
func (f *File) Close() error {
	if f == nil || f.closer == nil {
		return nil
	}
	err := f.closer.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Bytes is a file in memory: a mapping, or one that was read whole. Notes that are read
// from it are parts of it. It implements io.ReaderAt.
type Bytes []byte

// ReadAt implements io.ReaderAt.
func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Notes iterates over the file's notes: those of its sections in the order of their headers,
// then those of its note segments that are in no note section. Sections come first because they
// have names and individual alignments, which a segment merges; a file without section headers,
// and a core file, has segments only. A note is yielded once, even if several headers cover it.
//
// The function that it returns reports, after the loop, the parts that could not be read; a bad
// section doesn't hide the others.
func (f *File) Notes() (iter.Seq[Note], func() error) {
	var errs errorList
	seq := func(yield func(Note) bool) {
		errs = nil
		sections, err := f.h.sections(f.r)
		errs.add(err)
		segments, err := f.h.segments(f.r)
		errs.add(err)
		sections = disjoint(sections, &errs)
		segments = subtract(disjoint(segments, &errs), sections)
		left := uint64(math.MaxUint64)
		if f.stored >= 0 {
			left = uint64(f.stored) + leastNotes
		}
		for _, g := range append(inOrder(sections), inOrder(segments)...) {
			if g.size > left {
				errs.add(g.tooLarge(left))
				continue
			}
			left -= g.size
			more, err := f.walk(g, yield)
			errs.add(err)
			if !more {
				return
			}
		}
	}
	return seq, func() error { return errors.Join(errs...) }
}

// Find returns the first note of an owner and type. The error matches os.ErrNotExist if there
// is no such note, and all notes that could be it were readable.
func (f *File) Find(owner string, typ uint32) (Note, error) {
	notes, errOf := f.Notes()
	for n := range notes {
		if n.Owner == owner && n.Type == typ {
			return n, nil
		}
	}
	if err := errOf(); err != nil {
		return Note{}, err
	}
	return Note{}, fmt.Errorf("no note of owner %q and type %#x: %w", owner, typ, os.ErrNotExist)
}

// BuildID returns the GNU build-id of the file; see the function BuildID.
func (f *File) BuildID() (ID, error) {
	n, err := f.Find("GNU", 3)
	if err != nil {
		return nil, err
	}
	if len(n.Desc) == 0 {
		return nil, &FormatError{Where: n.Where, Offset: n.Offset, Msg: "build-id is empty"}
	}
	return slices.Clone(n.Desc), nil
}

// BuildID returns the GNU build-id of an ELF file: usually 20 bytes, 16 or 8 from some linkers.
// The error matches os.ErrNotExist if the file has none.
func BuildID(r io.ReaderAt) (ID, error) {
	f, err := NewFile(r)
	if err != nil {
		return nil, err
	}
	return f.BuildID()
}

// walk yields the notes of one region.
func (f *File) walk(g region, yield func(Note) bool) (bool, error) {
	limit := f.MaxBytes
	if limit <= 0 {
		limit = defaultMaxBytes
	}
	if g.size > uint64(limit) {
		return true, g.tooLarge(uint64(limit))
	}
	b, readErr := readAt(f.r, int64(g.offset), int(g.size))
	if readErr != nil {
		readErr = &FormatError{
			Where: g.where, Offset: int64(g.offset) + int64(len(b)),
			Msg: "notes are cut off", Err: readErr,
		}
	}
	if g.where == gap {
		if zeros(b) {
			return true, readErr // padding between sections
		}
		g.where = "PT_NOTE"
	}
	proto := Note{
		Where: g.where, Offset: int64(g.offset), Order: f.Order, Class: f.Class,
		Machine: f.Machine,
	}
	more, err := walk(b, proto, g.align, yield)
	if readErr != nil {
		return more, readErr // the cause of walk's error
	}
	return more, err
}

// tooLarge returns the error for a region that is larger than allowed.
func (g *region) tooLarge(limit uint64) error {
	return &FormatError{
		Where: g.where, Offset: int64(g.offset),
		Msg: fmt.Sprintf("%d bytes are more than the limit of %d", g.size, limit),
	}
}

// readAt reads size bytes, or as many as the file has. It allocates no more than the file's
// size, whatever the headers claim.
func readAt(r io.ReaderAt, off int64, size int) ([]byte, error) {
	if b, ok := r.(Bytes); ok {
		if off >= int64(len(b)) {
			return nil, io.ErrUnexpectedEOF
		}
		if rest := b[off:]; len(rest) < size {
			return rest, io.ErrUnexpectedEOF
		}
		return b[off : off+int64(size) : off+int64(size)], nil
	}
	const small = 64 << 10
	if size > small {
		var last [1]byte
		if n, err := r.ReadAt(last[:], off+int64(size)-1); n != 1 {
			// Cut off: read the rest of the file in pieces of fixed size.
			b, err2 := io.ReadAll(io.NewSectionReader(r, off, int64(size)))
			if err2 == nil && err != nil {
				err2 = io.ErrUnexpectedEOF
			}
			return b, err2
		}
	}
	b := make([]byte, size)
	n, err := r.ReadAt(b, off)
	if n == size {
		return b, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b[:n], err
}

// gap marks a part of a segment between sections or behind them.
const gap = ""

// inOrder sorts regions as their headers are.
func inOrder(regions []region) []region {
	slices.SortStableFunc(regions, func(a, b region) int { return cmp.Compare(a.index, b.index) })
	return regions
}

// disjoint sorts regions by offset and drops those that overlap an earlier one, so that the
// work is linear in the size of the file whatever its headers claim.
func disjoint(regions []region, errs *errorList) []region {
	slices.SortFunc(regions, func(a, b region) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(b.size, a.size))
	})
	kept := regions[:0]
	var end uint64
	for _, g := range regions {
		if g.offset > 1<<62 || g.size > 1<<62 {
			errs.add(&FormatError{Where: g.where, Offset: int64(g.offset), Msg: "lies outside any file"})
			continue // and their sum would overflow
		}
		if g.offset < end {
			if g.offset+g.size > end { // not just a second header for the same notes
				errs.add(&FormatError{Where: g.where, Offset: int64(g.offset), Msg: "overlaps other notes"})
			}
			continue
		}
		end = max(end, g.offset+g.size)
		kept = append(kept, g)
	}
	return kept
}

// subtract returns the parts of segments that are in no section. Both are sorted and disjoint.
func subtract(segments, sections []region) []region {
	var out []region
	for _, g := range segments {
		end := g.offset + g.size
		for len(sections) > 0 && sections[0].offset+sections[0].size <= g.offset {
			sections = sections[1:]
		}
		cut := false
		for _, s := range sections {
			if s.offset >= end {
				break
			}
			if s.offset > g.offset {
				out = append(out, region{gap, g.offset, s.offset - g.offset, g.align, g.index})
			}
			g.offset, cut = min(s.offset+s.size, end), true
		}
		if g.offset == end {
			continue
		}
		g.size = end - g.offset
		if cut {
			g.where = gap
		}
		out = append(out, g)
	}
	return out
}

// errorList collects errors, a bounded number of them.
type errorList []error

func (l *errorList) add(err error) {
	const most = 16
	if err != nil && len(*l) < most {
		*l = append(*l, err)
	}
}
