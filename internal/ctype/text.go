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

// StarsFirst returns Declaration with the stars of pointers beside the type: "struct file* file",
// "const char* const* names".
func StarsFirst(t btf.Type, name string) string {
	s := strings.ReplaceAll(String(t), " *", "*")
	return strings.ReplaceAll(s, "*const", "* const") + " " + name
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

// Definition returns the definition of a struct, union or enum as C has it, over several lines, with
// the members of anonymous ones in it; of another type it is String.
func Definition(t btf.Type) string {
	var b strings.Builder
	define(&b, t, "", maxDepth)
	return b.String()
}

func define(b *strings.Builder, t btf.Type, indent string, depth int) {
	head := func(s string) {
		b.WriteString(strings.TrimSuffix(strings.TrimSuffix(s, "{…}"), " ") + " {\n")
	}
	switch v := t.(type) {
	case *btf.Struct:
		head(text(v, 1))
		members(b, v.Members, indent+"\t", depth)
	case *btf.Union:
		head(text(v, 1))
		members(b, v.Members, indent+"\t", depth)
	case *btf.Enum:
		head(text(v, 1))
		for _, e := range v.Values {
			if v.Signed {
				fmt.Fprintf(b, "%s\t%s = %d,\n", indent, e.Name, int64(e.Value))
			} else {
				fmt.Fprintf(b, "%s\t%s = %d,\n", indent, e.Name, e.Value)
			}
		}
	default:
		b.WriteString(String(t))
		return
	}
	b.WriteString(indent + "}")
}

func members(b *strings.Builder, list []btf.Member, indent string, depth int) {
	for _, m := range list {
		b.WriteString(indent)
		t, dims := m.Type, ""
		for arr, ok := t.(*btf.Array); ok; arr, ok = t.(*btf.Array) {
			t, dims = arr.Type, dims+dimension(arr)
		}
		switch {
		case depth > 1 && t.TypeName() == "" && composite(t):
			define(b, t, indent, depth-1)
			if m.Name != "" {
				b.WriteString(" " + m.Name + dims)
			}
		default:
			b.WriteString(Declaration(m.Type, m.Name))
		}
		if m.BitfieldSize > 0 {
			fmt.Fprintf(b, ":%d", m.BitfieldSize)
		}
		b.WriteString(";\n")
	}
}

// composite reports whether a type has members.
func composite(t btf.Type) bool {
	switch t.(type) {
	case *btf.Struct, *btf.Union, *btf.Enum:
		return true
	}
	return false
}
