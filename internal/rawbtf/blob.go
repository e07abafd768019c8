// Package rawbtf reads the kernel's types directly from BTF (Documentation/bpf/btf.rst), for
// uses that need few of them: decoding all of a kernel's 150,000 types takes a second.
package rawbtf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
)

// These are kinds of BTF types (include/uapi/linux/btf.h).
const (
	Int = iota + 1
	Ptr
	Array
	Struct
	Union
	Enum
	Fwd
	Typedef
	Volatile
	Const
	Restrict
	Func
	FuncProto
	Var
	Datasec
	Float
	DeclTag
	TypeTag
	Enum64
)

const (
	// Magic is at the start of BTF, in its byte order.
	Magic = 0xeb9f
	// TypeSize is the size of struct btf_type, headerSize that of struct btf_header.
	TypeSize   = 12
	headerSize = 24
)

// Blob is BTF with an index of its types. It is safe for concurrent use.
type Blob struct {
	Strings []byte
	At      []uint32 // offsets of the types by id; id 0 is void

	order binary.ByteOrder
	big   bool // order is binary.BigEndian
	types []byte
	once  sync.Once // of names
	names atomic.Pointer[names]
}

// New finds the sections and the types of BTF. The Blob keeps raw.
func New(raw []byte) (*Blob, error) {
	if len(raw) < headerSize {
		return nil, fmt.Errorf("%d bytes are not BTF", len(raw))
	}
	r := &Blob{order: binary.LittleEndian}
	if r.order.Uint16(raw) != Magic {
		r.order, r.big = binary.BigEndian, true
	}
	size := r.order.Uint32(raw[4:])
	if r.order.Uint16(raw) != Magic || raw[2] != 1 || size < headerSize ||
		uint64(size) > uint64(len(raw)) {
		return nil, fmt.Errorf("not BTF of version 1")
	}
	part := func(off int) ([]byte, error) {
		start := uint64(size) + uint64(r.order.Uint32(raw[off:]))
		end := start + uint64(r.order.Uint32(raw[off+4:]))
		if end > uint64(len(raw)) {
			return nil, fmt.Errorf("a section ends at byte %d of %d", end, len(raw))
		}
		return raw[start:end], nil
	}
	var err error
	if r.types, err = part(8); err != nil {
		return nil, err
	}
	if r.Strings, err = part(16); err != nil {
		return nil, err
	}
	return r, r.index()
}

// index finds the types, which follow each other and have different sizes.
func (r *Blob) index() error {
	r.At = make([]uint32, 1, len(r.types)/20+1)
	for off := 0; off < len(r.types); {
		if len(r.types)-off < TypeSize {
			return fmt.Errorf("type %d is cut", len(r.At))
		}
		extra, ok := Extra(Info(r.Word(uint32(off) + 4)))
		if !ok || len(r.types)-off-TypeSize < extra {
			return fmt.Errorf("type %d of kind %d is cut or unknown", len(r.At), r.Kind(uint32(off)))
		}
		r.At = append(r.At, uint32(off))
		off += TypeSize + extra
	}
	return nil
}

// Word returns the 32-bit word at an offset in the types.
func (r *Blob) Word(off uint32) uint32 {
	if r.big {
		return binary.BigEndian.Uint32(r.types[off:])
	}
	return binary.LittleEndian.Uint32(r.types[off:])
}

// Kind returns the kind of the type at an offset.
func (r *Blob) Kind(off uint32) uint32 { kind, _ := Info(r.Word(off + 4)); return kind }

// Vlen returns the number of members of the type at an offset.
func (r *Blob) Vlen(off uint32) int { _, n := Info(r.Word(off + 4)); return n }

// Info splits btf_type.info, including the bits that Linux 7.2 added to kind and vlen, which
// were zero before.
func Info(info uint32) (kind uint32, vlen int) { return info >> 24 & 0x7f, int(info & 0xffffff) }

// Extra returns the number of bytes after a type's struct btf_type. It returns false for
// unknown kinds.
func Extra(kind uint32, vlen int) (int, bool) {
	switch kind {
	case Int, Var, DeclTag:
		return 4, true
	case Array:
		return 12, true
	case Struct, Union, Datasec, Enum64:
		return 12 * vlen, true
	case Enum, FuncProto:
		return 8 * vlen, true
	case Ptr, Fwd, Typedef, Volatile, Const, Restrict, Func, Float, TypeTag:
		return 0, true
	}
	return 0, false
}

// Name returns the string at an offset, without copying it.
func (r *Blob) Name(off uint32) []byte {
	if uint64(off) >= uint64(len(r.Strings)) {
		return nil
	}
	s := r.Strings[off:]
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}
