package elfnotes

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"strings"
)

// Value is the meaning of a note. Its dynamic type is one of this package's. Its String is for
// people, and its JSON encoding has the same content.
type Value interface {
	fmt.Stringer
	value() // the set is closed
}

// Raw is the descriptor of a note that this package has no type for. It borrows the note's
// memory.
type Raw []byte

// String returns the bytes in hex.
func (r Raw) String() string { return hex.EncodeToString(r) }

// MarshalText encodes the bytes as String does.
func (r Raw) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Text is a descriptor that is a string, without its NUL bytes.
type Text string

// String returns the string itself.
func (t Text) String() string { return string(t) }

// ID is a GNU build-id: 20 bytes (SHA-1) by default, 16 or 8 from some
// linkers. It identifies the contents of a file across its stripped, debug and
// running forms.
type ID []byte

// String returns the id in lower-case hex, as file names under
// /usr/lib/debug/.build-id and debuginfod have it.
func (id ID) String() string { return hex.EncodeToString(id) }

// MarshalText encodes the id as String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Number is a descriptor that is one number: an address, a flag word.
type Number uint64

// String returns the number in hex with 0x.
func (n Number) String() string { return fmt.Sprintf("%#x", uint64(n)) }

// Empty is the value of a note that has no content: its presence is its meaning.
type Empty struct{}

// String returns "".
func (Empty) String() string { return "" }

func (Raw) value()    {}
func (Text) value()   {}
func (ID) value()     {}
func (Number) value() {}
func (Empty) value()  {}

// Kind returns a short lower-case name for the kind of the note, such as "build-id", "abi-tag",
// "stapsdt" or "prstatus", and "" for a note that this package does not support. The names are
// stable.
func (n Note) Kind() string { return n.spec().kind }

// Decode returns the meaning of the note. For an unknown note it returns the descriptor as
// Raw without an error. The error is a *FormatError for a descriptor that contradicts its
// type.
func (n Note) Decode() (Value, error) {
	decode := n.spec().decode
	if decode == nil {
		return Raw(n.Desc), nil
	}
	v, err := decode(n)
	if err != nil {
		return nil, &FormatError{
			Where: n.Where, Offset: n.Offset,
			Msg: fmt.Sprintf("%s note %s", n.Owner, n.Kind()), Err: err,
		}
	}
	return v, nil
}

// spec is the kind of a type of note, and its decoder.
type spec struct {
	kind   string
	decode func(Note) (Value, error)
}

func (n Note) spec() spec {
	switch n.Owner {
	case "GNU":
		return gnuSpec(n.Type)
	case "Go":
		return goSpec(n.Type)
	case "stapsdt":
		if n.Type == 3 {
			return spec{"stapsdt", decodeStapsdt}
		}
	case "FDO":
		return fdoSpec(n.Type)
	case "Linux":
		return linuxSpec(n.Type)
	case "Xen":
		return xenSpec(n.Type)
	case "CORE", "LINUX":
		return coreSpec(n.Type)
	case "VMCOREINFO":
		return spec{"vmcoreinfo", decodeText}
	case "GDB":
		if n.Type == 0xff000000 { // NT_GDB_TDESC, binutils include/elf/common.h
			return spec{"gdb-tdesc", decodeText}
		}
	case "Android":
		return androidSpec(n.Type)
	case "FreeBSD":
		return freeBSDSpec(n.Type)
	case "NetBSD", "PaX":
		return netBSDSpec(n.Owner, n.Type)
	case "OpenBSD", "DragonFly":
		if n.Type == 1 {
			return spec{"ident", decodeOSVersion}
		}
	}
	return spec{}
}

// word returns the size of a C long or pointer in the note. A raw stream, which
// states no class, is taken to be from a 64-bit machine.
func (n Note) word() int {
	if n.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// reader reads numbers from a descriptor. After the end it returns zeros and sets short, so
// that a decoder checks once.
type reader struct {
	n     Note
	b     []byte
	short bool
}

func newReader(n Note) *reader { return &reader{n: n, b: n.Desc} }

func (r *reader) bytes(size int) []byte {
	if size < 0 || size > len(r.b) {
		r.short, r.b = true, nil
		return nil
	}
	b := r.b[:size:size]
	r.b = r.b[size:]
	return b
}

func (r *reader) skip(size int) { r.bytes(size) }

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return r.n.Order.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return r.n.Order.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return r.n.Order.Uint64(b)
	}
	return 0
}

// word reads a C unsigned long.
func (r *reader) word() uint64 {
	if r.n.word() == 4 {
		return uint64(r.u32())
	}
	return r.u64()
}

// text reads a string of fixed size, which may fill it.
func (r *reader) text(size int) string { return cString(r.bytes(size)) }

// cstring reads a NUL-terminated string.
func (r *reader) cstring() string {
	for i, c := range r.b {
		if c == 0 {
			return string(r.bytes(i + 1)[:i])
		}
	}
	r.bytes(len(r.b) + 1)
	return ""
}

func (r *reader) err() error {
	if r.short {
		return fmt.Errorf("descriptor of %d bytes is too short", len(r.n.Desc))
	}
	return nil
}

func decodeText(n Note) (Value, error) { return Text(cString(n.Desc)), nil }

// decodeNumber reads a number that has the descriptor's size.
func decodeNumber(n Note) (Value, error) {
	r := newReader(n)
	switch len(n.Desc) {
	case 1:
		return Number(n.Desc[0]), nil
	case 2:
		return Number(r.u16()), nil
	case 4:
		return Number(r.u32()), nil
	case 8:
		return Number(r.u64()), nil
	}
	return nil, fmt.Errorf("descriptor of %d bytes is not a number", len(n.Desc))
}

// flagNames renders a bit set as "A, B", unknown bits as hex.
func flagNames(v uint64, names []string) string {
	var out []string
	for i, name := range names {
		if name != "" && v&(1<<i) != 0 {
			out = append(out, name)
			v &^= 1 << i
		}
	}
	if v != 0 {
		out = append(out, fmt.Sprintf("%#x", v))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
