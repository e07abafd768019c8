//go:build linux

package action_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// built compiles a C program with its DWARF and returns its path.
func built(t *testing.T, text string, flags ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Tool("gcc"))
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-g", "-w", "-o", bin, src}, flags...)
	if out, err := testenv.Command(t, "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestSignedChars: arguments and members of one byte, by DWARF: signed ones were read as
// unsigned, 253 for -3.
func TestSignedChars(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	bin := built(t, `
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
