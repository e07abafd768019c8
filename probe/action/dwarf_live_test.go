//go:build linux

package action_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// built compiles a C or C++ program with its DWARF and returns its path.
func built(t *testing.T, compiler, text string, flags ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Tool(compiler))
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-g", "-w", "-o", bin}, flags...)
	if out, err := testenv.Command(t, compiler, append(args, src)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestSignedChars: arguments and members of one byte, by DWARF: signed ones were read as
// unsigned, 253 for -3.
func TestSignedChars(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	bin := built(t, "gcc", `
#include <stdint.h>
struct s { int8_t m; uint8_t u; signed char bits:4; };
__attribute__((noipa)) long f(signed char a, int8_t b, unsigned char c, struct s *p) { return a; }
int main(void) { struct s s = {-6, 249, -2}; return f(-3, -4, 251, &s) != -3; }
`, "-O1")
	type values struct{ A, B, C, M, U, Bits int64 }
	seen := action.NewCounter[values]("seen", 64)
	p := action.NewProgram("signs")
	p.On(probe.Uprobe{Path: bin, Symbol: "f"}, func(c *action.Ctx) {
		s := c.ArgNamed("p").Ptr()
		seen.Inc(c, action.Key(c.ArgNamed("a"), c.ArgNamed("b"), c.ArgNamed("c"),
			s.Member("m"), s.Member("u"), s.Member("bits")))
	})
	s := attachOrSkip(t, p, &action.Options{Resolve: &probe.Options{DWARF: true}})
	if out, err := testenv.Command(t, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tab, err := seen.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 {
		t.Fatalf("%v: %+v", err, snap)
	}
	if got, want := snap.Entries[0].Key, (values{-3, -4, 251, -6, 249, -2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// changedSource has functions whose parameters compilers change, and functions that print their
// own arguments: "FUNCTION ARGUMENT VALUE".
const changedSource = `
#include <stdio.h>
#define NO __attribute__((noinline))
struct req { long id; int len; char pad[200]; };
struct pair { int a; signed char b; };
struct wide { long a; int b; };
struct big { long v[3]; };
static NO void says(const char *f, const char *a, long v) { printf("%s %s %ld\n", f, a, v); }
static NO long scale(long mode, long v, long w) {
	says("scale", "mode", mode); says("scale", "v", v); says("scale", "w", w);
	return v * w + mode;
}
static NO long weigh(struct req *q, long w) { says("weigh", "w", w); return q->len + w; }
static NO long unused(long dead, long live) { says("unused", "live", live); return live; }
NO struct big hidden(int a, struct pair p, unsigned char c) {
	struct big b = {{a}};
	says("hidden", "a", a); says("hidden", "p.a", p.a); says("hidden", "p.b", p.b); says("hidden", "c", c);
	return b;
}
NO long many(short a, struct wide w, long double x, double y, long c, long d, long e, struct wide s, signed char z) {
	says("many", "a", a); says("many", "w.a", w.a); says("many", "w.b", w.b); says("many", "c", c);
	says("many", "d", d); says("many", "e", e); says("many", "s.a", s.a); says("many", "s.b", s.b);
	says("many", "z", z);
	return a + x + y + c + d + e + z;
}
NO int modified(int a, int b) {
	says("modified", "b", b); says("modified", "a", a);
	for (int i = 0; i < 3; i++) { a += b; __asm__ volatile("" :: "r"(&b) : "memory"); }
	return a;
}
int main(int c, char **v) {
	struct req q = {7, 555};
	struct pair p = {-c, -c - 1};
	struct wide w = {c * 3L << 33, -5};
	long r = 0;
	for (int i = 0; i < 23; i++) {
		r += scale(1, 10 + i, 20) + scale(1, 11, 21 + i) + weigh(&q, 3 - i) + unused(r, 42);
		r += hidden(-i, p, 200 + i).v[0] + modified(i, -i);
		r += many(-i, w, 1.5L, 2.5, i, 1L << i, -7, w, -i - 100);
	}
	return r == 7;
}
`

// TestArguments: what a program's functions say their arguments are is what DWARF finds of them,
// and what it cannot find is an error. Arguments of functions whose parameters the compiler had
// changed were those of other parameters: 20 for 10, 555 for 3.
func TestArguments(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	for _, compiler := range []string{"gcc", "clang"} {
		for _, level := range []string{"-O0", "-Og", "-O1", "-O2", "-O3"} {
			t.Run(compiler+level, func(t *testing.T) {
				if level != "-O2" {
					testenv.Need(t, testenv.Long)
				}
				bin := built(t, compiler, changedSource, level)
				readArguments(t, bin)
			})
		}
	}
}

func readArguments(t *testing.T, bin string) {
	t.Helper()
	f, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	type key struct{ Arg, Value int64 }
	seen := action.NewCounter[key]("seen", 4096)
	p := action.NewProgram("arguments")
	var names []string // of a key's Arg: "scale mode"
	for _, s := range symbols {
		function, _, _ := strings.Cut(s.Name, ".")
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !strings.Contains(changedSource, "\""+function+"\"") {
			continue
		}
		target := probe.Uprobe{Path: bin, Symbol: s.Name}
		plan, err := probe.Resolve(nil, []probe.Target{target}, &probe.Options{DWARF: true})
		if err != nil {
			t.Fatal(err)
		}
		of := plan.Programs[0]
		for _, a := range of.Args {
			if a.Name == "dead" && s.Name != "unused" && !strings.Contains(a.Loc.Reason, "optimized out") {
				t.Errorf("%s: %v", s.Name, a)
			}
		}
		p.On(target, func(c *action.Ctx) {
			for i, a := range append(slices.Clone(of.Args), of.Fields...) {
				if a.Loc.Reason != "" || a.Name == "q" || a.Name == "dead" {
					continue
				}
				read := c.Field
				if i < len(of.Args) {
					read = c.ArgNamed
				}
				seen.Inc(c, action.Key(len(names), read(a.Name)))
				names = append(names, function+" "+a.Name)
			}
		})
	}
	s := attachOrSkip(t, p, &action.Options{Resolve: &probe.Options{DWARF: true}})
	out, err := testenv.Command(t, bin).Output()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	want := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		want[strings.TrimSpace(line)]++
	}
	got := map[string]int64{}
	for k, n := range values(t, s, seen.Table) {
		got[fmt.Sprintf("%s %d", names[k.Arg], k.Value)] += int64(n)
	}
	for line, n := range got {
		if n != want[line] {
			t.Errorf("read %d times %q, which the program says %d times", n, line, want[line])
		}
	}
	t.Logf("%d arguments, %d different values of %d", len(names), len(got), len(want))
	if least := 16; len(names) < least {
		t.Errorf("only %d arguments could be read: %q", len(names), names)
	}
}
