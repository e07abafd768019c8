package cdecl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
)

var seeds = []string{
	"typedef int (*f)(const char *, ...), *g[2][3];\nstruct a { f f; g *g; struct a *next; };",
	"#define N 3\n#if defined(N) && N > 2\nstruct b { char c[N][sizeof(long)]; };\n#else\n#error no\n#endif",
	"enum { A, B = 1 << 3, C = -1 }; enum e { D = A + B } __attribute__((packed));\ntypedef enum e E;",
	"static inline int f(int a) { return a + (1); }\nstruct c { volatile int * const x; unsigned : 3; unsigned y : 3; };",
	"typedef struct { union { __u8 a; u64 b; }; bool c : 1; } __attribute__((aligned(32))) d; struct { d e[2]; } x;",
	"struct f { struct g { int h; } g, *i; }; union j { struct f k; char l[]; };",
}

// members lists what a struct or union has: OFFSET[:BITS] NAME TYPE.
func members(t btf.Type) string {
	var b strings.Builder
	var ms []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		fmt.Fprintf(&b, "%d", t.Size)
		ms = t.Members
	case *btf.Union:
		fmt.Fprintf(&b, "%d", t.Size)
		ms = t.Members
	default:
		return fmt.Sprint(t)
	}
	for _, m := range ms {
		fmt.Fprintf(&b, "; %d", m.Offset)
		if m.BitfieldSize > 0 {
			fmt.Fprintf(&b, ":%d", m.BitfieldSize)
		}
		p := printer{done: map[btf.Type]bool{}}
		fmt.Fprintf(&b, " %s", strings.TrimSpace(p.declare(m.Type, m.Name)))
	}
	return b.String()
}

func parse(t *testing.T, text string, o *cdecl.Options) *cdecl.Decls {
	t.Helper()
	if o == nil {
		o = &cdecl.Options{}
	}
	if o.Arch == "" {
		o.Arch = "amd64"
	}
	d, err := cdecl.Parse("x.h", []byte(text), o)
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	roundTrip(t, d, o)
	return d
}

// TestStruct reads "struct x".
func TestStruct(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"several-in-one", "struct x { int a, *b, c[3]; }", "32; 0 int a; 64 int *b; 128 int c[3]"},
		{"no-semicolons", "struct y { int a; } struct x { struct y y; }", "4; 0 struct y y"},
		{"itself", "struct x { struct x *next, **prev; };", "16; 0 struct x *next; 64 struct x **prev"},
		{"later", "struct x { struct y *y; }; struct y { int a; };", "8; 0 struct y *y"},
		{"never", "struct x { union y *y; };", "8; 0 union y *y"},
		{
			"spellings", "struct x { long unsigned int long a; short signed b; unsigned c; char signed d; long double e; };",
			"48; 0 long long unsigned int a; 64 short int b; 96 unsigned int c; 128 signed char d; 256 long double e",
		},
		{
			"qualifiers", "struct x { int const a; const int *volatile b; int *const *c; char const *const d; };",
			"32; 0 const int a; 64 const int *b; 128 int *const *c; 192 const char *const d",
		},
		{
			"functions", "struct x { int (*f)(int, char b[4], int g(void)); void (*(*h)(void))(...); };",
			"16; 0 int (*f)(int , char *b, int (*g)()); 64 void (*(*h)())(...)",
		},
		{
			"arrays", "struct x { int (*a)[3]; int *b[3]; int c[2][3]; int (*d[2])[3]; };",
			"72; 0 int (*a)[3]; 64 int *b[3]; 256 int c[2][3]; 448 int (*d[2])[3]",
		},
		{
			"without-name", "struct x { int a; union { char b; struct { short c; }; }; struct { int d; } e; };",
			"12; 0 int a; 32 union {\nchar b;\nstruct {\nshort int c;\n} __attribute__((packed, aligned(2))) ;\nunsigned long : 16;\n} " +
				"__attribute__((packed, aligned(2))); 64 struct {\nint d;\n} __attribute__((packed, aligned(4))) e",
		},
		{"declares-only", "struct x { struct y { int a; }; struct z *z; struct y b; };", "16; 0 struct z *z; 64 struct y b"},
		{"flexible", "struct x { int n; char data[]; };", "4; 0 int n; 32 char data[0]"},
		{
			"bits", "struct x { int a : 3, : 2, b : 4; unsigned long c : 60; _Bool d : 1; };",
			"16; 0:3 int a; 5:4 int b; 64:60 long unsigned int c; 124:1 _Bool d",
		},
		{
			"packed", "struct __attribute__((__packed__)) x { char a; int b; short c : 9; long d; };",
			"15; 0 char a; 8 int b; 40:9 short int c; 56 long int d",
		},
		{
			"aligned", "struct x { char a; int b __attribute__((aligned(16))); } __attribute__((aligned(64), unused));",
			"64; 0 char a; 128 int b",
		},
		{
			"kernel-words", "struct x { char __user *a; struct y __rcu *b; __be16 c; } __packed __aligned(8);",
			"24; 0 char *a; 64 struct y *b; 128 __be16 c",
		},
		{
			"sizes", "enum { N = 2 }; struct x { char a[N << 1][sizeof(struct y *)]; char b['\\x02']; };",
			"34; 0 char a[4][8]; 256 char b[2]",
		},
		{
			"typedefs", "typedef unsigned u32; typedef u32 pair[2], *ptr; struct x { pair a; ptr b; u32 c; };",
			"24; 0 pair a; 64 ptr b; 128 u32 c",
		},
		{"alike-typedefs", "typedef int a; typedef int a; typedef struct y *b; typedef struct y *b; struct x { a a; };", "4; 0 a a"},
		{"typeof", "struct x { typeof(int *) a[2]; __typeof__(struct x *) b; };", "24; 0 int *a[2]; 128 struct x *b"},
		{"enum-of-64", "enum e { A = 1UL << 40 }; struct x { enum e e; enum { B } f; };", ""},
		{"alignas", "struct x { _Alignas(16) char a; alignas(long) char b; };", "16; 0 char a; 64 char b"},
		{"comments", "struct/* */x{int/**/a;// int b;\nint c/*;\n*/;};", "8; 0 int a; 32 int c"},
		{"assertion", "struct x { int a; _Static_assert(sizeof(int) == 4, \"no\"); }; _Static_assert(sizeof(struct x) == 4);", "4; 0 int a"},
		{"other-things", "extern int v; int f(int a); static struct x *p; struct x { int a; } y, *z; ; int g(void) __asm__(\"h\");", "4; 0 int a"},
		{"int128", "struct x { char a; __int128 b; unsigned __int128 c; };", "48; 0 char a; 128 __int128 b; 256 __int128 unsigned c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, c.text, nil)
			if got := members(d.Type(cdecl.Struct, "x")); c.want != "" && got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestScripts reads what scripts declare for themselves: caches, run queues and shells
// in the shape that the kernel and bash have them.
func TestScripts(t *testing.T) {
	d := parse(t, `
#include <linux/fs.h>
struct lookup_state {
	const char *name;
	struct { struct dentry *dentry; struct inode *inode; } where;
	/* changed in 4.19 */
	unsigned int flags : 4, seq : 28;
	int last_type;
};

struct queue_tail {
	struct cfs {
		unsigned long weight;
		u64 runnable, pad[2];
		unsigned int nr;
	} cfs;
};

struct shell_variable {
	char *name;
	char *value;
	struct shell_variable *(*dynamic)(struct shell_variable *);
	int attributes, context;
};
`, nil)
	for name, want := range map[string]string{
		"lookup_state": "32; 0 const char *name; 64 struct {\nstruct dentry *dentry;\nstruct inode *inode;\n} " +
			"__attribute__((packed, aligned(16))) where; 192:4 unsigned int flags; 196:28 unsigned int seq; 224 int last_type",
		"queue_tail":     "40; 0 struct cfs cfs",
		"cfs":            "40; 0 long unsigned int weight; 64 u64 runnable; 128 u64 pad[2]; 256 unsigned int nr",
		"shell_variable": "32; 0 char *name; 64 char *value; 128 struct shell_variable *(*dynamic)(struct shell_variable *); 192 int attributes; 224 int context",
	} {
		if got := members(d.Type(cdecl.Struct, name)); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	if len(d.Includes) != 1 || d.Includes[0].Name != "linux/fs.h" || !d.Includes[0].System || d.Includes[0].Read {
		t.Errorf("%+v", d.Includes)
	}
}

// TestEnum: values, and the integers that hold them.
func TestEnum(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "enum x { A, B, C = 10, D }", "4 unsigned A=0 B=1 C=10 D=11"},
		{"negative", "enum x { A = -1, B };", "4 signed A=-1 B=0"},
		{"unsigned", "enum x { A = 0xffffffff };", "4 unsigned A=4294967295"},
		{"long", "enum x { A = 0x7fffffff, B, C = 0xffffffffUL, D };", "8 unsigned A=2147483647 B=2147483648 C=4294967295 D=4294967296"},
		{"signed-long", "enum x { A = 1UL << 40, B = -A };", "8 unsigned A=1099511627776 B=18446742974197923840"},
		{"negative-long", "enum x { A = -1L << 40 };", "8 signed A=-1099511627776"},
		{"packed", "enum x { A = 255 } __attribute__((packed));", "1 unsigned A=255"},
		{"packed-signed", "enum x { A = 128, B = -1 } __attribute__((packed));", "2 signed A=128 B=-1"},
		{"fixed", "enum x : u16 { A };", "2 unsigned A=0"},
		{"of-itself", "enum x { A = 3, B = A * 2, C = sizeof(int) };", "4 unsigned A=3 B=6 C=4"},
		{"macro", "#define A 3\nenum x { B = A,\n#define B B\nC = B };", "4 unsigned B=3 C=3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, c.text, nil)
			e := d.Type(cdecl.Enum, "x").(*btf.Enum)
			got := fmt.Sprintf("%d %s", e.Size, map[bool]string{true: "signed", false: "unsigned"}[e.Signed])
			for _, v := range e.Values {
				if e.Signed {
					got += fmt.Sprintf(" %s=%d", v.Name, int64(v.Value))
				} else {
					got += fmt.Sprintf(" %s=%d", v.Name, v.Value)
				}
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if len(d.Constants) != len(e.Values) || d.Constants[0].Enum != e {
				t.Errorf("%+v", d.Constants)
			}
		})
	}
}

// TestResolve: what the text does not define is the caller's.
func TestResolve(t *testing.T) {
	task := &btf.Struct{Name: "task_struct", Size: 24, Members: []btf.Member{{Name: "pid", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Offset: 64}}}
	packed := &btf.Struct{Name: "tight", Size: 5, Members: []btf.Member{
		{Name: "a", Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}}, {Name: "b", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Offset: 8},
	}}
	known := map[string]btf.Type{
		"struct task_struct": task, "struct tight": packed, "typedef cycles": &btf.Typedef{Name: "cycles", Type: &btf.Int{Name: "long unsigned int", Size: 8}},
		"enum state": &btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: "RUNS"}}},
	}
	asked := map[string]int{}
	resolve := func(kind cdecl.Kind, name string) (btf.Type, error) {
		key := kind.String() + " " + name
		asked[key]++
		if key == "struct broken" {
			return nil, errors.ErrUnsupported
		}
		return known[key], nil
	}
	o := &cdecl.Options{Resolve: resolve, Constant: func(name string) (int64, bool) { return 16, name == "TASK_COMM_LEN" }}
	d, err := cdecl.Parse("x.h", []byte(`struct x {
		char a; struct tight t; struct task_struct *p, s; cycles c; enum state e; struct nowhere *n; struct mine *m;
		char comm[TASK_COMM_LEN];
	};
	struct mine { const struct task_struct *q; };`), o)
	if err != nil {
		t.Fatal(err)
	}
	want := "88; 0 char a; 8 struct tight t; 64 struct task_struct *p; 128 struct task_struct s; 320 cycles c; " +
		"384 enum state e; 448 struct nowhere *n; 512 struct mine *m; 576 char comm[16]"
	x := d.Type(cdecl.Struct, "x").(*btf.Struct)
	if got := members(x); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if x.Members[2].Type.(*btf.Pointer).Target != btf.Type(task) || x.Members[3].Type != btf.Type(task) {
		t.Error("a pointer or a member is of another struct task_struct than the caller's")
	}
	mine := d.Type(cdecl.Struct, "mine").(*btf.Struct)
	if mine.Members[0].Type.(*btf.Pointer).Target.(*btf.Const).Type != btf.Type(task) {
		t.Error("a pointer to const is not to the caller's struct")
	}
	if _, ok := x.Members[6].Type.(*btf.Pointer).Target.(*btf.Fwd); !ok {
		t.Errorf("what nobody knows is %v", x.Members[6].Type)
	}
	for key, n := range asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", key, n)
		}
	}
	roundTrip(t, d, o)
	if _, err = cdecl.Parse("x.h", []byte("struct x { struct broken b; };"), o); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte("#define N 4\nstruct queue { unsigned long load; u64 nr[N], expires; unsigned int running : 4, seq : 28; struct task *curr; };\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cdecl.Parse("x.bt", text, nil); err != nil {
			b.Fatal(err)
		}
	}
}
