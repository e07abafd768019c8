package system

import (
	"strings"

	"github.com/cilium/ebpf/btf"
)

// kind is the keyword before a type's name.
type kind string

// split separates the keyword from a type's name.
func split(name string) (kind, string) {
	for _, k := range []kind{"struct", "union", "enum"} {
		if bare, ok := strings.CutPrefix(name, string(k)+" "); ok {
			return k, strings.TrimSpace(bare)
		}
	}
	return "", name
}

// has reports whether C names a type with the keyword.
func (k kind) has(t btf.Type) bool {
	switch t.(type) {
	case *btf.Struct:
		return k == "struct"
	case *btf.Union:
		return k == "union"
	case *btf.Enum:
		return k == "enum"
	case *btf.Typedef, *btf.Int:
		return k == ""
	}
	return false
}

// first returns the first of the types that C names with the keyword, or nil.
func (k kind) first(list []btf.Type) btf.Type {
	for _, t := range list {
		if k.has(t) {
			return t
		}
	}
	return nil
}

// integer returns C's integer type with a name of several words in any order, such as
// "unsigned long int": BTF has only one of its names. It returns nil for other names.
func integer(name string) btf.Type {
	size, long, unsigned := uint32(4), 0, false
	words := strings.Fields(name)
	for _, w := range words {
		switch w {
		case "unsigned":
			unsigned = true
		case "signed", "int":
		case "char":
			size = 1
		case "short":
			size = 2
		case "long":
			size = 8
			long++
		default:
			return nil
		}
	}
	if len(words) == 0 || long > 2 || long > 0 && strings.Contains(name, "short") {
		return nil
	}
	i := &btf.Int{Name: name, Size: size}
	if !unsigned {
		i.Encoding = btf.Signed
	}
	return i
}
