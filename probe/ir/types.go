package ir

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds. Values of the first group are scalars and are kept in a register; values of the
// second are kept in memory.
const (
	// KindAuto is a type that the plan decides: a probe's argument, or an
	// expression over one. The checker replaces it.
	KindAuto Kind = iota
	KindInt       // integer of 1, 2, 4 or 8 bytes
	KindBool      // 0 or 1, in one byte
	KindPtr       // 8 bytes

	KindString // text of at most Size-1 bytes, padded with NULs to Size
	KindBytes  // Size bytes
	KindTuple  // Fields, laid out like a Go struct
)

// Format is what a value means to a reader. It changes nothing in the kernel.
type Format uint8

// The formats.
const (
	FormatNone   Format = iota
	FormatKsym          // kernel address
	FormatUsym          // user address, in the process of the event
	FormatTime          // nanoseconds of CLOCK_MONOTONIC
	FormatBoot          // nanoseconds of CLOCK_BOOTTIME
	FormatTAI           // nanoseconds of CLOCK_TAI
	FormatIP            // IPv4 (4 bytes) or IPv6 (16 bytes), network order
	FormatMAC           // 6 bytes
	FormatCgroup        // cgroup id
	FormatKstack        // kernel PCs, innermost first, padded with zeros
	FormatUstack        // user PCs, innermost first, padded with zeros
	FormatProbe         // index of a site in the plan, plus one
	FormatPath          // file path
)

// Type is the type of a value. It is plain data; treat it as immutable. The
// zero Type is KindAuto.
type Type struct {
	// Kind decides which of the other fields are used.
	Kind Kind
	// Size is the value's width in bytes. For KindTuple it includes padding.
	Size int
	// Signed is set for signed integers.
	Signed bool
	// User is set for pointers into user memory.
	User bool
	// Format is what the value means to a reader.
	Format Format
	// Fields are the elements of a tuple, in ascending order of offset.
	Fields []Field
	// Elem is the type that a pointer points to, nil for void. For KindBytes it is the BTF
	// type of the bytes, if there is one.
	Elem btf.Type
}

// Field is an element of a tuple.
type Field struct {
	Name   string // may be empty
	Offset int    // from the tuple's start, in bytes
	Type   Type
}

// IntType returns an integer type of size 1, 2, 4 or 8 bytes.
func IntType(size int, signed bool) Type { return Type{Kind: KindInt, Size: size, Signed: signed} }

// Uint64Type returns the unsigned 64-bit integer type, which most builtins have.
func Uint64Type() Type { return IntType(8, false) }

// Int64Type returns the signed 64-bit integer type, the default of arithmetic.
func Int64Type() Type { return IntType(8, true) }

// BoolType returns the type of comparisons.
func BoolType() Type { return Type{Kind: KindBool, Size: 1} }

// StringType returns the type of text in size bytes, of which the last is always NUL.
func StringType(size int) Type { return Type{Kind: KindString, Size: size} }

// BytesType returns the type of a buffer of size bytes.
func BytesType(size int) Type { return Type{Kind: KindBytes, Size: size} }

// PtrType returns the type of a pointer to elem, nil for void, in user or kernel memory.
func PtrType(elem btf.Type, user bool) Type {
	return Type{Kind: KindPtr, Size: 8, Elem: elem, User: user}
}

// TupleType returns the type of a tuple, laid out as Go lays out a struct of the same fields
// on a 64-bit machine. Names may be empty.
func TupleType(fields ...Field) Type {
	t := Type{Kind: KindTuple, Fields: make([]Field, len(fields))}
	align := 1
	for i, f := range fields {
		a := f.Type.Align()
		align = max(align, a)
		f.Offset = (t.Size + a - 1) / a * a
		t.Fields[i] = f
		t.Size = f.Offset + f.Type.Size
	}
	t.Size = (t.Size + align - 1) / align * align
	return t
}

// Align returns the alignment in bytes of a value of the type.
func (t Type) Align() int {
	switch t.Kind {
	case KindInt, KindBool, KindPtr:
		return max(t.Size, 1)
	case KindTuple:
		a := 1
		for _, f := range t.Fields {
			a = max(a, f.Type.Align())
		}
		return a
	case KindBytes:
		if t.Format == FormatKstack || t.Format == FormatUstack {
			return 8
		}
	}
	return 1
}

// Scalar reports whether values of the type are kept in a register.
func (t Type) Scalar() bool { return t.Kind == KindInt || t.Kind == KindBool || t.Kind == KindPtr }

// Equal reports whether two types have the same representation. Names, formats and pointers'
// targets are ignored.
func (t Type) Equal(o Type) bool {
	if t.Kind != o.Kind || t.Size != o.Size || len(t.Fields) != len(o.Fields) {
		return false
	}
	if t.Kind == KindInt && t.Signed != o.Signed || t.Kind == KindPtr && t.User != o.User {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Offset != o.Fields[i].Offset || !t.Fields[i].Type.Equal(o.Fields[i].Type) {
			return false
		}
	}
	return true
}

// WithFormat returns the type with format f.
func (t Type) WithFormat(f Format) Type {
	t.Format = f
	return t
}

// String returns the type as programs print it: u32, s8, bool, str[16], buf[6], ptr(struct
// sock), (u32, str[16]).
func (t Type) String() string {
	switch t.Kind {
	case KindInt:
		if t.Signed {
			return fmt.Sprintf("s%d", t.Size*8)
		}
		return fmt.Sprintf("u%d", t.Size*8)
	case KindBool:
		return "bool"
	case KindPtr:
		return t.ptrString()
	case KindString:
		return fmt.Sprintf("str[%d]", t.Size)
	case KindBytes:
		return fmt.Sprintf("buf[%d]", t.Size)
	case KindTuple:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = strings.TrimSpace(f.Name + " " + f.Type.String())
		}
		return "(" + strings.Join(parts, ", ") + ")"
	}
	return "auto"
}

func (t Type) ptrString() string {
	name := "void"
	if t.Elem != nil {
		name = ctype.String(t.Elem)
	}
	if t.User {
		return "uptr(" + name + ")"
	}
	return "ptr(" + name + ")"
}
