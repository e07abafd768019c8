// Package ctype answers what C says of a type in BTF.
package ctype

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// Name prints a BTF type as C does, as far as a reader needs it.
func Name(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Struct:
		return "struct " + t.Name
	case *btf.Union:
		return "union " + t.Name
	case *btf.Enum:
		return "enum " + t.Name
	case *btf.Pointer:
		return Name(t.Target) + "*"
	case *btf.Const:
		return Name(t.Type)
	case *btf.Volatile:
		return Name(t.Type)
	case *btf.Array:
		return fmt.Sprintf("%s[%d]", Name(t.Type), t.Nelems)
	case *btf.Void:
		return "void"
	}
	return t.TypeName()
}

// Underlying removes qualifiers, tags and typedefs. btf.UnderlyingType does
// the same, but gives up with a nil type on a cycle, which hostile BTF may hold.
func Underlying(t btf.Type) btf.Type {
	if t == nil {
		return (*btf.Void)(nil)
	}
	u := btf.UnderlyingType(t)
	if u == nil {
		return (*btf.Void)(nil)
	}
	return u
}

// Tagged says whether a pointer is declared to be not of plain kernel memory
// (__user, __percpu), by one of these type tags: BTF carries them where the kernel
// was built with clang or a recent pahole.
func Tagged(p *btf.Pointer, tags ...string) bool {
	t := p.Target
	for range 8 {
		switch u := t.(type) {
		case *btf.TypeTag:
			if slices.Contains(tags, u.Value) {
				return true
			}
			t = u.Type
		case *btf.Const:
			t = u.Type
		case *btf.Volatile:
			t = u.Type
		default:
			return false
		}
	}
	return false
}

// IsChar reports whether t is C's char.
func IsChar(t btf.Type) bool {
	i, ok := Underlying(t).(*btf.Int)
	return ok && i.Size == 1 && (i.Encoding == btf.Char || i.Name == "char")
}
