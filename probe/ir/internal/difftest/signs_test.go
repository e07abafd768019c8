package difftest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

const signsSource = `
enum plus { P = 1 }; enum minus { M = -1 };
enum narrow : signed char { N = 1 };
struct s {
	signed char sc; char c; unsigned char uc; bool b; short sh; unsigned short us;
	plus p; minus m; narrow n; char16_t wide; __int128 big;
	signed char sbits:3; unsigned ubits:3; char cbits:3;
};
struct s global;
extern "C" int f(struct s *p) { return p->sc; }
int main() { return f(&global); }
`

// TestSignsByDWARF: which members of a struct are signed, by a C++ file's DWARF. int8_t and
// signed char were unsigned, and a char16_t anywhere left a function without types.
func TestSignsByDWARF(t *testing.T) {
	testenv.Need(t, testenv.Tool("g++"))
	dir := t.TempDir()
	src := filepath.Join(dir, "a.cc")
	if err := os.WriteFile(src, []byte(signsSource), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"-fsigned-char", "-funsigned-char"} {
		cmd := testenv.Command(t, "g++", "-g", "-O1", how, "-o", filepath.Join(dir, "a"), src)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		machine := env.New(&env.Options{Root: os.DirFS(dir), Release: "6.12.0", Features: probetest.Features()})
		plan, err := probe.Resolve(machine, []probe.Target{probe.Uprobe{Path: "/a", Symbol: "f"}},
			&probe.Options{DWARF: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Programs[0].Args) != 1 {
			t.Fatalf("no types: %v", plan)
		}
		p := btf.UnderlyingType(plan.Programs[0].Args[0].Type).(*btf.Pointer)
		char := "-"
		if how == "-fsigned-char" {
			char = "+"
		}
		want := "sc+ c" + char + " uc- b- sh+ us- p- m+ n+ wide- big- sbits+ ubits- cbits" + char
		if got := signsOf(t, p.Target); got != want {
			t.Errorf("%s: %s, want %s", how, got, want)
		}
	}
}

// TestSignsByFormat: a trace format's "signed:" decides, also for char and for arrays, whatever
// the names in it say: the kernel is built with -funsigned-char since 6.2.
func TestSignsByFormat(t *testing.T) {
	f, err := env.ParseFormat(strings.NewReader("name: x\nID: 1\n" +
		"\tfield:char a;\toffset:0;\tsize:1;\tsigned:1;\n" +
		"\tfield:char b;\toffset:1;\tsize:1;\tsigned:0;\n" +
		"\tfield:s8 c;\toffset:2;\tsize:1;\tsigned:1;\n" +
		"\tfield:bool d;\toffset:3;\tsize:1;\tsigned:0;\n" +
		"\tfield:enum e e;\toffset:4;\tsize:4;\tsigned:1;\n" +
		"\tfield:int i;\toffset:8;\tsize:4;\tsigned:0;\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &btf.Struct{Name: "x", Size: 12}
	for i := range f.Fields {
		s.Members = append(s.Members, btf.Member{Name: f.Fields[i].Name, Type: f.Fields[i].BTFType()})
	}
	const want = "a+ b- c+ d- e+ i-"
	if got := signsOf(t, s); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for signed, bit := range map[bool]string{true: "1", false: "0"} {
		f, err := env.ParseFormat(strings.NewReader("name: x\nID: 1\n" +
			"\tfield:char a[4];\toffset:0;\tsize:4;\tsigned:" + bit + ";\n"))
		if err != nil {
			t.Fatal(err)
		}
		elem := f.Fields[0].BTFType().(*btf.Array).Type
		if got, err := check.FromBTF(elem, false); err != nil || got.Signed != signed {
			t.Errorf("an array's char: %+v, %v", got, err)
		}
	}
}

// signsOf lists a struct's members: "a+" is signed, "b-" is not.
func signsOf(t *testing.T, s btf.Type) string {
	t.Helper()
	var out []string
	for _, m := range btf.UnderlyingType(s).(*btf.Struct).Members {
		typ, err := check.FromBTF(m.Type, false)
		if err != nil {
			t.Fatal(err)
		}
		sign := "-"
		if typ.Kind == ir.KindInt && typ.Signed {
			sign = "+"
		}
		out = append(out, m.Name+sign)
	}
	return strings.Join(out, " ")
}
