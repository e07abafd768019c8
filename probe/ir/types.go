package ir

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir/internal/ctype"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds. Values of the first group are scalars and live in a register;
// values of the second live in memory.
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

// Format says what a value means to a reader. It changes nothing in the kernel.
type Format uint8

// The formats.
const (
	FormatNone   Format = iota
	FormatKsym          // kernel address
	FormatUsym          // user address, of the process the event is in
	FormatTime          // nanoseconds of CLOCK_MONOTONIC
	FormatBoot          // nanoseconds of CLOCK_BOOTTIME
	FormatTAI           // nanoseconds of CLOCK_TAI
	FormatIP            // IPv4 (4 bytes) or IPv6 (16 bytes), network order
	FormatMAC           // 6 bytes
	FormatCgroup        // cgroup id
	FormatKstack        // kernel PCs, innermost first, padded with zeros
	FormatUstack        // user PCs, innermost first, padded with zeros
	FormatProbe         // index of a site in the plan, plus one
	FormatHex           // number best shown in base 16
	FormatErrno         // negative errno, or a result
	FormatSignal        // signal number
	FormatPath          // file path
)

// Type is the type of a value. It is plain data; treat it as immutable. The
// zero Type is KindAuto.
type Type struct {
	// Kind says which of the other fields count.
	Kind Kind
	// Size is the value's width in bytes. For KindTuple it includes padding.
	Size int
	// Signed is set for integers that are signed.
	Signed bool
	// User says, of a pointer, that it points into user memory.
	User bool
	// Format says what the value means.
	Format Format
	// Fields are the elements of a tuple, by ascending offset.
	Fields []Field
	// Elem is what a pointer points to, nil for void. Of KindBytes it is the
	// BTF type of the bytes, where there is one.
	Elem btf.Type
}

// Field is an element of a tuple.
type Field struct {
	Name   string // may be empty
	Offset int    // from the tuple's start, in bytes
	Type   Type
}

// IntType is an integer of size 1, 2, 4 or 8 bytes.
func IntType(size int, signed bool) Type { return Type{Kind: KindInt, Size: size, Signed: signed} }

// Uint64Type is an unsigned 64-bit integer, the type of most builtins.
func Uint64Type() Type { return IntType(8, false) }

// Int64Type is a signed 64-bit integer, the type of arithmetic by default.
func Int64Type() Type { return IntType(8, true) }

// BoolType is the type of comparisons.
func BoolType() Type { return Type{Kind: KindBool, Size: 1} }

// StringType is text in size bytes, of which the last is always NUL.
func StringType(size int) Type { return Type{Kind: KindString, Size: size} }

// BytesType is a buffer of size bytes.
func BytesType(size int) Type { return Type{Kind: KindBytes, Size: size} }

// PtrType is a pointer to elem, nil for void, in user or kernel memory.
func PtrType(elem btf.Type, user bool) Type {
	return Type{Kind: KindPtr, Size: 8, Elem: elem, User: user}
}

// TupleType is a tuple of types, laid out as Go lays out a struct of the same
// fields on a 64-bit machine. Names may be empty.
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

// Align is the alignment of a value of the type, in bytes.
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

// Scalar says whether a value of the type lives in a register.
func (t Type) Scalar() bool { return t.Kind == KindInt || t.Kind == KindBool || t.Kind == KindPtr }

// Equal says whether two types have the same representation: names, formats
// and what a pointer points to do not count.
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

// WithFormat returns the type with another meaning.
func (t Type) WithFormat(f Format) Type {
	t.Format = f
	return t
}

// String is the type as programs print it: u32, s8, bool, str[16], buf[6],
// ptr(struct sock), (u32, str[16]).
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
		name = ctype.Name(t.Elem)
	}
	if t.User {
		return "uptr(" + name + ")"
	}
	return "ptr(" + name + ")"
}
