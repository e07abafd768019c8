package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// TestDWARFTarget: names and types of the test target's functions.
func TestDWARFTarget(t *testing.T) {
	p, err := Resolve(probetest.Env(t), []Target{
		Uprobe{Path: "/bin/target", Symbol: "add"}, Uretprobe{Path: "/bin/target", Symbol: "add"},
	}, &Options{DWARF: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"long a @ reg 5 (user)", "int b @ reg 4 (user)", "unsigned char c @ reg 1 (user)", "const char *s @ reg 2 (user)"}
	if got := argStrings(p.Programs[0].Args); strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("got %q", got)
	}
	if r := p.Programs[1].Ret; r == nil || r.String() != "long retval @ reg 0 (user)" {
		t.Errorf("returns %v", r)
	}
}

func argStrings(args []Arg) []string {
	var out []string
	for _, a := range args {
		out = append(out, a.String())
	}
	return out
}

const convention = `
struct point { double x, y; };
struct mixed { long n; double x; };
struct two { long a; int b; };
struct big { long v[5]; };
struct node { struct node *next; unsigned flag:3, rest:5; };
typedef unsigned long word;
enum color { RED, GREEN };
float f1(float x, long a, double y, int b) { return x + a + y + b; }
double f2(struct point p, long a) { return p.x + a; }
long f3(struct mixed m, long a) { return m.n + a; }
long f4(struct two t, struct big g, word a, enum color c) { return t.a + g.v[0] + a + c; }
struct node *f5(struct node *n, const char *const *names, void (*call)(int)) { return n->next; }
void f6(long a, long b, long c, long d, long e, long f, long g, struct two t, long h) {}
long f7(long a, long b, long c, long d, long e, struct two t, long h) { return h; }
int main(void) { return 0; }
`

// TestDWARFConvention: where the compiler passes what, on amd64. The registers
// are those of the System V ABI; TestDWARFLive checks values.
func TestDWARFConvention(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"))
	dir := t.TempDir()
	src := filepath.Join(dir, "a.c")
	if err := os.WriteFile(src, []byte(convention), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "gcc", "-g", "-O0", "-w", "-o", filepath.Join(dir, "a"), src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := os.DirFS(dir)
	env := NewEnv(&EnvOptions{Root: root, Arch: "amd64", Release: "6.12.0", Features: probetest.Features()})
	testenv.Need(t, testenv.Arch("amd64"))
	for name, want := range map[string]string{
		"f1": "float x @ - (in a floating point register); long int a @ reg 5 (user); double y @ - (in a floating point register); int b @ reg 4 (user)",
		"f2": "struct point p @ - (struct by value); long int a @ reg 5 (user)",
		"f3": "struct mixed m @ - (struct by value; see the fields); long int a @ reg 4 (user)",
		"f4": "struct two t @ - (struct by value; see the fields); struct big g @ - (struct by value); word a @ reg 1 (user); enum color c @ reg 2 (user)",
		"f5": "struct node *n @ reg 5 (user); const char *const *names @ reg 4 (user); void (*)() call @ reg 1 (user)",
		"f6": "long int a @ reg 5 (user); long int b @ reg 4 (user); long int c @ reg 1 (user); long int d @ reg 2 (user); long int e @ reg 8 (user); " +
			"long int f @ reg 9 (user); long int g @ sp+8 (user); struct two t @ - (struct by value; see the fields); long int h @ sp+32 (user)",
		// t does not fit into the one register that is left, h does.
		"f7": "long int a @ reg 5 (user); long int b @ reg 4 (user); long int c @ reg 1 (user); long int d @ reg 2 (user); long int e @ reg 8 (user); " +
			"struct two t @ - (struct by value; see the fields); long int h @ reg 9 (user)",
	} {
		p, err := Resolve(env, []Target{Uprobe{Path: "/a", Symbol: name}}, &Options{DWARF: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(argStrings(p.Programs[0].Args), "; "); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	p, err := Resolve(env, []Target{Uretprobe{Path: "/a", Symbol: "f1"}}, &Options{DWARF: true})
	if err != nil || p.Programs[0].Ret.Loc.Reason != "in a floating point register" {
		t.Errorf("%v\n%v", err, p)
	}
}

const passing = `
struct three { long v[3]; };
struct copied { int k; copied(const copied &o) : k(o.k) {} };
struct holds { copied c; };
struct base { int q; };
struct derived : base { char w; };
struct virt { virtual int f(int a); int z; };
struct plain { int a; plain(int x) : a(x) {} int get(int b) { return a + b; } };
struct empty {};
struct __attribute__((packed)) pack { char c; long v; };
typedef double vec __attribute__((vector_size(16)));
int virt::f(int a) { return a; }
extern "C" {
three c1(int a) { three t = {}; return t; }
int c2(copied c, int a) { return a; }
int c3(holds h, int a) { return a; }
int c4(derived d, int a) { return d.w + a; }
int c5(virt v, int &r, int &&s, int a) { return a; }
int c6(int virt::*m, int (virt::*f)(int), decltype(nullptr) n, int a) { return a; }
int c7(long double x, empty e, __int128 i, pack p, int a, int b, int c, int d, int f) { return a; }
int c8(vec v, int a) { return a; }
plain c9(plain p, bool b, char16_t c) { return p; }
holds c10(int a) { return *(holds *)nullptr; }
}
int main() { plain p(1); return p.get(2); }
`

// TestDWARFPassing: what C++ passes in other places than its position says: behind a hidden
// pointer to the returned object, by address, without contents, in memory. References had no
// type and took no register, and returned structures took none, so the arguments behind them
// were those before.
func TestDWARFPassing(t *testing.T) {
	testenv.Need(t, testenv.Tool("g++"), testenv.Arch("amd64"))
	const byValue = "struct by value"
	dir := t.TempDir()
	src := filepath.Join(dir, "a.cc")
	if err := os.WriteFile(src, []byte(passing), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		cmd := testenv.Command(t, "g++", version, "-O0", "-w", "-o", filepath.Join(dir, "a"), src)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		env := NewEnv(&EnvOptions{
			Root: os.DirFS(dir), Arch: "amd64", Release: "6.12.0", Features: probetest.Features(),
		})
		for name, want := range map[string]string{
			"c1": "reg 4 (user)",
			"c2": "- (" + byValue + "); reg 4 (user)",
			"c3": "- (" + byValue + "); reg 4 (user)",
			"c4": "- (" + byValue + seeFields + "); reg 4 (user); d.q reg 5 (user); d.w reg 5 byte 4 (user)",
			"c5": "- (" + byValue + "); reg 4 (user); reg 1 (user); reg 2 (user)",
			"c6": "reg 5 (user); - (" + byValue + seeFields + "); reg 2 (user); reg 8 (user); " +
				"f.ptr reg 4 (user); f.adj reg 1 (user)",
			"c7": "- (16 bytes by value); - (" + byValue + "); - (16 bytes by value); - (" + byValue + seeFields +
				"); reg 1 (user); reg 2 (user); reg 8 (user); reg 9 (user); sp+40 (user); " +
				"p.c sp+24 (user); p.v sp+25 (user)",
			"c8":  "- (it is a vector); - (where it is depends on how v is passed: it is a vector)",
			"c9":  "- (" + byValue + seeFields + "); reg 4 (user); reg 1 (user); p.a reg 5 (user)",
			"c10": "reg 4 (user)",

			"_ZN5plain3getEi": "reg 5 (user); reg 4 (user)",
		} {
			p, err := Resolve(env, []Target{Uprobe{Path: "/a", Symbol: name}}, &Options{DWARF: true})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var got []string
			for _, a := range p.Programs[0].Args {
				got = append(got, a.Loc.String())
			}
			for _, a := range p.Programs[0].Fields {
				got = append(got, a.Name+" "+a.Loc.String())
			}
			if got := strings.Join(got, "; "); got != want {
				t.Errorf("%s: %s: got\n%s\nwant\n%s", version, name, got, want)
			}
		}
		p, err := Resolve(env, []Target{Uretprobe{Path: "/a", Symbol: "c9"}}, &Options{DWARF: true})
		if err != nil || argStrings(p.Programs[0].Fields)[0] != "int retval.a @ reg 0 (user)" {
			t.Errorf("%v\n%v", err, p)
		}
		p, err = Resolve(env, []Target{Uprobe{Path: "/a", Symbol: "c*"}}, &Options{DWARF: true})
		if err != nil || len(p.Programs) != 1 || len(p.Programs[0].Fields) != 0 {
			t.Errorf("a pattern's functions should share a program without the fields of some: %v\n%v", err, p)
		}
	}
}

// TestCountParams: the parameters in C++'s names.
func TestCountParams(t *testing.T) {
	for name, want := range map[string]int{
		"f()": 0, "f(int)": 1, "a::f(b<c, d>, e (*)(f, g), h&) const": 3, "int f<int, long>(int)": 1,
		"f(int) [clone .cold]": 1, "printf(char const*, ...)": 1, "operator()(int, long)": 2, "core::f": -1,
		"f(void)": 0, "": -1, ")": -1, "a(": -1,
	} {
		n, ok := countParams(name)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

// planOfGo builds a Go program, and plans probes at a function's entry and returns, by DWARF.
func planOfGo(t *testing.T, src, function string) *Plan {
	t.Helper()
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, "go", "build", "-o", "a", "a.go")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOARCH=amd64", "GOOS=linux", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := NewEnv(&EnvOptions{Root: os.DirFS(dir), Arch: "amd64", Release: "6.12.0", Features: probetest.Features()})
	p, err := Resolve(env, []Target{Uprobe{Path: "/a", Symbol: function}, Uretprobe{Path: "/a", Symbol: function}}, &Options{DWARF: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDWARFGoInlined: a Go function that is inlined as well refers to its abstract instance. Its
// results were taken for further arguments.
func TestDWARFGoInlined(t *testing.T) {
	src := "package main\n\nfunc G(a int, s string, _ int8, b uint8) (int, bool) { return a + len(s) + int(b), b > 1 }\n\n" +
		"var f = G\n\nfunc main() {\n\tn, _ := G(1, \"x\", 0, 2)\n\tm, _ := f(n, \"y\", 0, 3)\n\tprintln(m)\n}\n"
	p := planOfGo(t, src, "main.G")
	got := strings.Join(argStrings(p.Programs[0].Args), "; ")
	if !strings.HasPrefix(got, "int a @ reg 0 (user)") || !strings.HasSuffix(got, "uint8 b @ reg 4 (user)") {
		t.Errorf("arguments %s", got)
	}
	if r := p.Programs[1].Ret; r == nil || !strings.HasPrefix(r.String(), "int retval @ reg 0") || len(p.Programs[1].Fields) < 2 {
		t.Errorf("returns %v, %v", r, p.Programs[1].Fields)
	}
}

// TestDWARFGo: a Go function's arguments and results by ABIInternal.
func TestDWARFGo(t *testing.T) {
	src := "package main\n\n//go:noinline\nfunc F(a int, s string, b uint8, v []byte, f float64) (int, error) {\n" +
		"\tif f > 1 {\n\t\treturn a + len(s) + int(b) + len(v), nil\n\t}\n\treturn 0, nil\n}\n\nfunc main() {\n\tF(1, \"x\", 2, nil, 3)\n}\n"
	p := planOfGo(t, src, "main.F")
	want := "int a @ reg 0 (user); struct string s @ - (in several registers; see the fields); uint8 b @ reg 5 (user); " +
		"struct []uint8 v @ - (in several registers; see the fields); float64 f @ - (in a floating point register)"
	if got := strings.Join(argStrings(p.Programs[0].Args), "; "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = "uint8 *s.str @ reg 3 (user); int s.len @ reg 2 (user); uint8 *v.array @ reg 4 (user); int v.len @ reg 8 (user); int v.cap @ reg 9 (user)"
	if got := strings.Join(argStrings(p.Programs[0].Fields), "; "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r := p.Programs[1].Ret; r == nil || !strings.HasPrefix(r.String(), "int retval @ reg 0") {
		t.Errorf("returns %v", r)
	}
}

const placement = `
struct ii { int a, b; }; struct li { long a; int b; }; struct dl { double x; long n; }; struct big { long v[3]; };
struct c3 { char c[3]; }; struct ff { float x, y; }; struct dddd { double x[4]; }; struct fl { float x; long double y; };
struct lf { long n; float x; }; struct __attribute__((packed)) pack { char c; long v; }; struct one { __int128 v; };
enum e { A, B = -1 };
#define F __attribute__((noipa)) long
F f0(char a, struct ii b, short c, struct li d, int e, long g, long h) { return a + b.a + c + d.a + e + g + h; }
F f1(struct dl a, long b, struct big c, long d) { return a.n + b + c.v[0] + d; }
F f2(struct ff a, long b, struct dddd c, long d, double e, long g) { return a.x + b + c.x[0] + d + e + g; }
F f3(struct fl a, long b, long double c, long d) { return a.x + b + c + d; }
F f4(struct lf a, long b, struct pack c, long d, enum e g) { return a.n + b + c.v + d + g; }
F f5(long a, __int128 b, long c, struct one d, long e) { return a + b + c + d.v + e; }
F f6(long a, long b, long c, long d, long e, struct li g, long h, long i, long j) { return a + b + c + d + e + g.a + h + i + j; }
F f7(double a, double b, double c, double d, double e, double g, double h, double i, double j, long k) { return a + b + c + d + e + g + h + i + j + k; }
F f8(long a, long b, long c, long d, long e, long g, long h, long i, char j, short k, struct c3 l, int m) { return a + b + c + d + e + g + h + i + j + k + l.c[0] + m; }
__attribute__((noipa)) struct big f9(long a, struct c3 b, long c) { struct big r = {{a + c, b.c[0]}}; return r; }
int main(void) { return 0; }
`

// TestConventionIsCompilers: where the calling convention puts arguments is where compilers that
// optimize say that they are at the first instruction.
func TestConventionIsCompilers(t *testing.T) {
	for compiler, arch := range map[string]string{"gcc": runtime.GOARCH, "aarch64-linux-gnu-gcc": "arm64"} {
		t.Run(compiler, func(t *testing.T) {
			testenv.Need(t, testenv.Tool(compiler))
			dir := t.TempDir()
			src, bin := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
			if err := os.WriteFile(src, []byte(placement), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := testenv.Command(t, compiler, "-g", "-O1", "-w", "-o", bin, src).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			f, err := elffile.Open(bin)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			compared := 0
			types := usercode.NewTypes(usercode.OpenDebug(f, &elffile.DebugFinder{}))
			wanted := func(b []byte) bool { return len(b) == 2 && b[0] == 'f' }
			err = userfile.Symbols(t.Context(), f, wanted, func(s userfile.Symbol) error {
				sig, err := types.SignatureAt(s.Value)
				if err != nil {
					return err
				}
				// Not as a global function, of which the convention would be taken where they differ.
				fn := userFunction{sig: sig, abi: abis[arch], symbol: userfile.Symbol{Name: s.Name}}
				for i, want := range fn.byConvention() {
					p := sig.Params[i]
					at, late := fn.described(p, want)
					if late || at.why != "" || want.why != "" {
						continue
					}
					for _, piece := range at.pieces {
						size := min(piece.size, 8)
						a, b := part(at.pieces, piece.offset, size), part(want.pieces, piece.offset, size)
						if compared++; a != b && (a.Reason == "" || b.Reason == "") {
							t.Errorf("%s: %s: %v by DWARF, %v by the convention", s.Name, p.Name, a, b)
						}
					}
				}
				return nil
			})
			if err != nil || compared < 40 {
				t.Errorf("%d places compared: %v", compared, err)
			}
		})
	}
}
