package action

import (
	"bytes"
	"reflect"

	"github.com/borescope/borescope/probe/ir"
)

// Comm is the name of a thread, as the kernel keeps it.
type Comm [16]byte

// String returns the name without its padding.
func (c Comm) String() string { return Text(c[:]) }

// Text returns the text in a buffer up to the first NUL.
func Text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// None is the key type of maps without keys.
type None = struct{}

// keyType is the type of the keys of a map with Go keys K; None is none.
func keyType[K any]() (ir.Type, error) {
	t := reflect.TypeFor[K]()
	if t == reflect.TypeFor[None]() {
		return ir.Type{}, nil
	}
	return ir.TypeFor(t)
}

// keyExpr puts the parts of a key together: none, one, or a struct's fields.
func keyExpr(m *ir.Map, parts []any) *ir.Expr {
	switch {
	case len(parts) == 0:
		return nil
	case len(parts) == 1:
		return lift(parts[0])
	}
	return Key(parts...).Expr()
}
