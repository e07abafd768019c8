package arg

import (
	"errors"
	"fmt"
)

// Type is the type of a probe's argument, as tracers see it.
type Type uint8

// The types. Their sizes and signs are in the probe's note, from which tracers learn how
// to read an argument (https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation).
const (
	Int8 Type = iota
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	// Pointer is an address.
	Pointer
	// String is a Go string or byte slice without a copy. It takes two
	// arguments: the address of its bytes, and their number.
	String
	// CString is a copy of a string or byte slice with a NUL behind it, for
	// tracers and scripts that expect C strings. The copy exists during Fire only, and
	// is the one type that costs an allocation there.
	CString
)

var names = [...]string{
	"Int8", "Int16", "Int32", "Int64", "Uint8", "Uint16", "Uint32", "Uint64",
	"Pointer", "String", "CString",
}

// String returns the type's name: "Int64".
func (t Type) String() string {
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// ErrMismatch is the error of Fire, wrapped, when the values do not match the probe's
// types. The probe did not fire. A test finds such a mistake; programs may ignore it.
var ErrMismatch = errors.New("values do not match the probe's types")
