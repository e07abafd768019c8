// Package ctype describes types in BTF in terms of C.
package ctype

import (
	"slices"

	"github.com/cilium/ebpf/btf"
)

// Underlying removes qualifiers, tags and typedefs. btf.UnderlyingType does the same, but
// returns a nil type for a cycle, which malicious BTF may contain. Underlying returns a
// *btf.Void for it.
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

// Tagged reports whether a pointer has one of these type tags, which declare that it does not
// point to plain kernel memory (__user, __percpu). BTF contains them if the kernel was built
// with clang or a recent pahole.
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

// IsChar reports whether t is C's char, which is not signed char nor unsigned char.
func IsChar(t btf.Type) bool {
	i, ok := Underlying(t).(*btf.Int)
	return ok && i.Size == 1 && (i.Encoding&btf.Char != 0 || i.Name == "char")
}

// Signed reports whether t is an integer or an enumeration with negative values. It is the
// only place that decides so, for types from BTF, DWARF, trace formats and scripts.
//
// An integer's name and BTF_INT_CHAR do not tell: char is unsigned in kernels since 6.2, which
// are built with -funsigned-char, and on most machines other than x86. Who makes a type for a
// signed char gives it the encoding btf.Signed, as pahole and clang do. The kernel accepts one
// encoding a type (btf_int_check_meta, kernel/bpf/btf.c).
func Signed(t btf.Type) bool {
	switch u := Underlying(t).(type) {
	case *btf.Int:
		return u.Encoding&btf.Signed != 0
	case *btf.Enum:
		return u.Signed
	}
	return false
}
