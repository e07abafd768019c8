package ctype

import (
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
