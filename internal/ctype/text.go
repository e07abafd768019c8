package ctype

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Declaration returns "TYPE NAME" as C spells it: "struct file *file", "char name[16]".
func Declaration(t btf.Type, name string) string { return declare(t, name, maxDepth) }

// declare is Declaration for up to depth types.
func declare(t btf.Type, name string, depth int) string {
	dims := ""
	for arr, ok := t.(*btf.Array); ok && depth > 0; arr, ok = t.(*btf.Array) {
		dims += dimension(arr)
		t = arr.Type
		depth--
	}
	s := text(t, depth)
	if name != "" && !strings.HasSuffix(s, "*") {
		s += " "
	}
	return s + name + dims
}

// maxDepth bounds the types below a type: malicious BTF may have pointers that point to
// themselves.
const maxDepth = 16

// String returns a type as a C declaration spells it: "const char *", "struct file *", "u32",
// "char[16]". nil, and what is deeper than 16 types, is "?".
func String(t btf.Type) string { return text(t, maxDepth) }

func text(t btf.Type, depth int) string {
	if depth == 0 {
		return "?"
	}
	below := func(t btf.Type) string { return text(t, depth-1) }
	switch v := t.(type) {
	case nil:
		return "?"
	case *btf.Void:
		return "void"
	case *btf.Pointer:
		if _, ok := v.Target.(*btf.FuncProto); ok {
			return "void (*)()"
		}
		s := below(v.Target)
		if strings.HasSuffix(s, "*") {
			return s + "*"
		}
		return s + " *"
	case *btf.Const:
		if _, ok := v.Type.(*btf.Pointer); ok {
			return below(v.Type) + "const"
		}
		return "const " + below(v.Type)
	case *btf.Volatile:
		return "volatile " + below(v.Type)
	case *btf.Restrict:
		return below(v.Type)
	case *btf.TypeTag:
		return below(v.Type)
	case *btf.Array:
		return declare(v, "", depth)
	case *btf.Struct:
		return "struct " + tag(v.Name)
	case *btf.Union:
		return "union " + tag(v.Name)
	case *btf.Enum:
		return "enum " + tag(v.Name)
	case *btf.Fwd:
		return v.Kind.String() + " " + v.Name
	}
	return t.TypeName()
}

// dimension returns "[N]", and "[]" for an array without a length.
func dimension(a *btf.Array) string {
	if a.Nelems == 0 {
		return "[]"
	}
	return fmt.Sprintf("[%d]", a.Nelems)
}

// tag returns the name of a struct, union or enum.
func tag(name string) string {
	if name == "" {
		return "{…}"
	}
	return name
}
