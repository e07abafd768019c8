package ctype

import (
	"math"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestString checks types in C's spelling, and that one which points to itself has an end.
func TestString(t *testing.T) {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	file := &btf.Struct{Name: "file"}
	self := &btf.Pointer{}
	self.Target = self
	around := &btf.Const{}
	around.Type = &btf.Volatile{Type: around}
	for _, tt := range []struct {
		typ        btf.Type
		name, want string
	}{
		{nil, "", "?"},
		{(*btf.Void)(nil), "", "void"},
		{&btf.Pointer{Target: &btf.Const{Type: char}}, "path", "const char *path"},
		{&btf.Const{Type: &btf.Pointer{Target: char}}, "", "char *const"},
		{&btf.Pointer{Target: &btf.Pointer{Target: file}}, "files", "struct file **files"},
		{&btf.Pointer{Target: &btf.FuncProto{}}, "", "void (*)()"},
		{&btf.Array{Type: char, Nelems: 16}, "comm", "char comm[16]"},
		{&btf.Array{Type: char, Nelems: 16}, "", "char[16]"},
		{&btf.Array{Type: &btf.Array{Type: char, Nelems: 4}, Nelems: 2}, "m", "char m[2][4]"},
		{&btf.Pointer{Target: &btf.Array{Type: &btf.Array{Type: char, Nelems: 4}, Nelems: 2}}, "", "char[2][4] *"},
		{&btf.Array{Type: char}, "rest", "char rest[]"},
		{&btf.Typedef{Name: "u32"}, "n", "u32 n"},
		{&btf.Union{}, "", "union {…}"},
		{&btf.Enum{Name: "e"}, "", "enum e"},
		{&btf.TypeTag{Value: "user", Type: char}, "", "char"},
		{self, "p", "?" + " " + strings.Repeat("*", maxDepth) + "p"},
		{around, "", strings.Repeat("const volatile ", maxDepth/2) + "?"},
	} {
		got := String(tt.typ)
		if tt.name != "" {
			got = Declaration(tt.typ, tt.name)
		}
		if got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestStarsFirst: as bpftrace spells the parameters of user functions.
func TestStarsFirst(t *testing.T) {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	text := &btf.Pointer{Target: &btf.Const{Type: char}}
	for want, typ := range map[string]btf.Type{
		"char x": char, "const char* x": text, "const char* const* x": &btf.Pointer{Target: &btf.Const{Type: text}},
		"struct file** x":  &btf.Pointer{Target: &btf.Pointer{Target: &btf.Struct{Name: "file"}}},
		"void (*)() x":     &btf.Pointer{Target: &btf.FuncProto{}},
		"void (*)()* x":    &btf.Pointer{Target: &btf.Pointer{Target: &btf.FuncProto{}}},
		"char* const x":    &btf.Const{Type: &btf.Pointer{Target: char}},
		"volatile char* x": &btf.Pointer{Target: &btf.Volatile{Type: char}},
	} {
		if got := StarsFirst(typ, "x"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSigned: the sign bit alone decides, whatever a type's name is. A char was signed in
// scripts and unsigned in programs, and so was DWARF's signed char.
func TestSigned(t *testing.T) {
	for _, tt := range []struct {
		typ  btf.Type
		want bool
	}{
		{&btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}, true},
		{&btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, false},
		{&btf.Int{Name: "char", Size: 1, Encoding: btf.Signed | btf.Char}, true},
		{&btf.Int{Name: "char", Size: 1}, false},
		{&btf.Typedef{Name: "s8", Type: &btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed}}, true},
		{&btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}, false},
		{&btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}, true},
		{&btf.Const{Type: &btf.Enum{Size: 4, Signed: true}}, true},
		{&btf.Enum{Size: 4}, false},
		{&btf.Pointer{Target: &btf.Int{Size: 4, Encoding: btf.Signed}}, false},
		{nil, false},
	} {
		if got := Signed(tt.typ); got != tt.want {
			t.Errorf("%v: %v", tt.typ, got)
		}
	}
}

// TestDefinition: anonymous members are written out.
func TestDefinition(t *testing.T) {
	i := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	inner := &btf.Union{Size: 4, Members: []btf.Member{{Name: "a", Type: i}, {Name: "b", Type: i, BitfieldSize: 3}}}
	self := &btf.Struct{Name: "self", Size: 32}
	self.Members = []btf.Member{
		{Name: "next", Type: &btf.Pointer{Target: self}},
		{Type: inner},
		{Name: "u", Type: &btf.Array{Type: inner, Nelems: 2, Index: i}},
		{Name: "e", Type: &btf.Enum{Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "X", Value: math.MaxUint64}, {Name: "Y", Value: 1}}}},
		{Name: "name", Type: &btf.Array{Type: i, Nelems: 0, Index: i}},
	}
	const want = `struct self {
	struct self *next;
	union {
		int a;
		int b:3;
	};
	union {
		int a;
		int b:3;
	} u[2];
	enum {
		X = -1,
		Y = 1,
	} e;
	int name[];
}`
	if got := Definition(self); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Definition(i); got != "int" {
		t.Errorf("got %s", got)
	}
}
