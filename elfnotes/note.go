package elfnotes

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
)

// Note is one ELF note. Its Desc borrows the memory that the note was read
// from: for All that is the caller's slice, for a File a buffer that stays
// valid for as long as it is held.
type Note struct {
	// Where is the place of the note: the name of a section, "PT_NOTE" for a segment, "raw"
	// for a stream without an ELF header.
	Where string
	// Offset is the position of the note's header in the file or stream.
	Offset int64
	// Owner is the note's name without its terminating NUL bytes: "GNU".
	Owner string
	// Type is the number that the owner gave to this kind of note.
	Type uint32
	// Desc is the content of the note.
	Desc []byte

	// Order is the byte order of the numbers in Desc.
	Order binary.ByteOrder
	// Class and Machine are the file's; zero for a raw stream, whose reader
	// may set them before calling Decode.
	Class   elf.Class
	Machine elf.Machine
	// Align is the padding of this note: 4, or 8.
	Align int
}

// headerSize is the size of Elf32_Nhdr and Elf64_Nhdr, which are the same:
// namesz, descsz and type of four bytes each.
const headerSize = 12

// FormatError is the error when notes could not be read further, with the place and the
// reason. All notes before that place have been yielded.
type FormatError struct {
	// Where is the section's name, "PT_NOTE", "raw", or "header" for the ELF
	// header and its tables.
	Where string
	// Offset is the position in the file or stream.
	Offset int64
	// Msg is the reason.
	Msg string
	// Err is the reader's own error, nil if there is none.
	Err error
}

// Error reads "WHERE at 0xOFFSET: MSG: ERR".
func (e *FormatError) Error() string {
	s := fmt.Sprintf("%s at %#x: %s", e.Where, e.Offset, e.Msg)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the reader's own error.
func (e *FormatError) Unwrap() error { return e.Err }

// All iterates over the notes of a raw stream such as /sys/kernel/notes, whose numbers are in
// the given byte order. The notes borrow b. The function that it returns reports, after the
// loop, why reading stopped early; nil if b was read to its end.
//
// align is the alignment that the section or segment states. 8 pads names and descriptors to 8
// bytes from the note's start, as GNU properties in 64-bit files are; every other value means
// 4, because linkers that write 0, 1, 2 or 16 pad to 4 all the same.
func All(b []byte, order binary.ByteOrder, align int) (iter.Seq[Note], func() error) {
	var err error
	seq := func(yield func(Note) bool) {
		proto := Note{Where: "raw", Order: order}
		_, err = walk(b, proto, align, yield)
	}
	return seq, func() error { return err }
}

// padTo returns the padding that stated alignment means.
func padTo(align int) int {
	if align == 8 {
		return 8
	}
	return 4
}

// walk yields the notes of b. proto contains the fields that all of them share; its Offset is
// the position of b in the file. It reports whether the consumer wants more.
func walk(b []byte, proto Note, align int, yield func(Note) bool) (bool, error) {
	pad := uint64(padTo(align))
	size := uint64(len(b))
	for pos := uint64(0); pos < size; {
		if size-pos < headerSize {
			if zeros(b[pos:]) {
				return true, nil // the section's own padding
			}
			return true, proto.errorAt(pos, "note header is cut off")
		}
		namesz := uint64(proto.Order.Uint32(b[pos:]))
		descsz := uint64(proto.Order.Uint32(b[pos+4:]))
		// Sums of 32-bit sizes can't overflow 64 bits.
		desc := pos + roundUp(headerSize+namesz, pad)
		if desc > size {
			// A last note without descriptor need not pad its name.
			if descsz != 0 || pos+headerSize+namesz > size {
				return true, proto.errorAt(pos,
					fmt.Sprintf("name of %d bytes is longer than the notes", namesz))
			}
			desc = size
		}
		if descsz > size-desc {
			return true, proto.errorAt(pos,
				fmt.Sprintf("descriptor of %d bytes is longer than the notes", descsz))
		}
		n := proto
		n.Offset += int64(pos)
		n.Owner = owner(b[pos+headerSize : pos+headerSize+namesz])
		n.Type = proto.Order.Uint32(b[pos+8:])
		n.Desc = b[desc : desc+descsz : desc+descsz]
		n.Align = int(pad)
		if !yield(n) {
			return false, nil
		}
		pos += roundUp(desc-pos+descsz, pad)
	}
	return true, nil
}

func (n *Note) errorAt(pos uint64, msg string) error {
	return &FormatError{Where: n.Where, Offset: n.Offset + int64(pos), Msg: msg}
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// owner returns a note's name as a string, for the common ones without an
// allocation. Names lack their NUL, or have several, in files of the wild.
func owner(b []byte) string {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	switch string(b) {
	case "GNU":
		return "GNU"
	case "stapsdt":
		return "stapsdt"
	case "FDO":
		return "FDO"
	case "CORE":
		return "CORE"
	case "LINUX":
		return "LINUX"
	case "Go":
		return "Go"
	}
	return string(b)
}

// Append appends a note to dst, in the form that All reads, and returns the extended slice.
// It writes the header, the owner with a terminating NUL (nothing for an empty owner) and
// the descriptor, each padded with zeros by align (see All). It uses Owner, Type, Desc and
// Order of n only; a nil Order means little-endian. len(dst) must be a multiple of the
// padding, so that the note is aligned.
func Append(dst []byte, n Note, align int) []byte {
	order, ok := n.Order.(binary.AppendByteOrder)
	if !ok {
		order = binary.LittleEndian
	}
	pad := padTo(align)
	start := len(dst)
	name := n.Owner
	if name != "" {
		name += "\x00"
	}
	dst = order.AppendUint32(dst, uint32(len(name)))
	dst = order.AppendUint32(dst, uint32(len(n.Desc)))
	dst = order.AppendUint32(dst, n.Type)
	dst = appendPadding(append(dst, name...), start, pad)
	return appendPadding(append(dst, n.Desc...), start, pad)
}

func appendPadding(dst []byte, start, pad int) []byte {
	for (len(dst)-start)%pad != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// cString returns b up to its first NUL.
func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
