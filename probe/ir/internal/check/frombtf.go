package check

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/probe/ir"
)

// FromBTF returns the type of a value that C declares as t. For a type without values (a
// function) it returns an error.
func FromBTF(t btf.Type, user bool) (ir.Type, error) {
	switch u := ctype.Underlying(t).(type) {
	case *btf.Int:
		if u.Encoding == btf.Bool {
			return ir.BoolType(), nil
		}
		if u.Size > 8 {
			return ir.Type{Kind: ir.KindBytes, Size: int(u.Size), Elem: u}, nil
		}
		return ir.IntType(int(u.Size), ctype.Signed(u)), nil
	case *btf.Enum:
		return ir.IntType(int(u.Size), ctype.Signed(u)), nil
	case *btf.Pointer:
		elem := u.Target
		if _, void := ctype.Underlying(elem).(*btf.Void); void {
			elem = nil
		}
		return ir.PtrType(elem, user || ctype.Tagged(u, "user")), nil
	case *btf.Array:
		n, err := btf.Sizeof(u)
		if err != nil {
			return ir.Type{}, err
		}
		if ctype.IsChar(u.Type) {
			return ir.StringType(n), nil
		}
		return ir.Type{Kind: ir.KindBytes, Size: n, Elem: u}, nil
	case *btf.Struct:
		return ir.Type{Kind: ir.KindBytes, Size: int(u.Size), Elem: u}, nil
	case *btf.Union:
		return ir.Type{Kind: ir.KindBytes, Size: int(u.Size), Elem: u}, nil
	}
	return ir.Type{}, fmt.Errorf("type %s has no value", ctype.String(t))
}

// StructOf returns the struct or union that t is, nil if it is neither.
func StructOf(t btf.Type) btf.Type {
	if t == nil {
		return nil
	}
	switch u := ctype.Underlying(t).(type) {
	case *btf.Struct, *btf.Union:
		return u
	}
	return nil
}
