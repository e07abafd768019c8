package cdecl_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/internal/testenv"
)

// expression makes a constant expression up. In the condition of an #if there are no
// types.
func (w *writer) expression(depth int, condition bool) string {
	inner := func() string { return w.expression(depth-1, condition) }
	if depth == 0 || w.chance(20) {
		literal := w.pick([]string{"%d", "%d", "0x%x", "%dU", "%dL", "0%oUL", "0x%xull", "'a'", "'\\377'", "0xfffffff%x", "214748364%d", "0b1%b"})
		if strings.Contains(literal, "%") {
			literal = fmt.Sprintf(literal, w.Intn(8))
		}
		return literal
	}
	switch n := w.Intn(12); {
	case n == 0:
		return fmt.Sprintf("%s%s", w.pick([]string{"-", "~", "!", "+"}), w.parenthesized(inner()))
	case n == 1:
		return fmt.Sprintf("%s ? %s : %s", w.parenthesized(inner()), inner(), w.parenthesized(inner()))
	case n == 2 && !condition:
		typ := w.pick([]string{"char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long", "_Bool", "enum small"})
		return fmt.Sprintf("(%s)%s", typ, w.parenthesized(inner()))
	case n == 3 && !condition:
		return w.pick([]string{"sizeof(int)", "sizeof(struct { char a; long b; })", "_Alignof(short)", "sizeof(char[3])"})
	case n == 4: // within what any type has
		return fmt.Sprintf("(%s %s %d)", w.parenthesized(inner()), w.pick([]string{"<<", ">>"}), w.Intn(31))
	case n == 5: // by no 0
		return fmt.Sprintf("%s %s %d", w.parenthesized(inner()), w.pick([]string{"/", "%"}), 1+w.Intn(9))
	}
	op := w.pick([]string{"+", "-", "*", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||"})
	return fmt.Sprintf("%s %s %s", inner(), op, inner())
}

func (w *writer) parenthesized(s string) string { return "(" + s + ")" }

// TestExpressionsGCC compares values, and their types, with those that GCC works out.
func TestExpressionsGCC(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Arch("amd64"))
	const n = 2000
	w := &writer{Rand: rand.New(rand.NewSource(1))}
	var defines, conditions strings.Builder
	fmt.Fprintf(&defines, "enum small { SMALL };\n")
	for i := range n {
		fmt.Fprintf(&defines, "#define D%d %s\n", i, w.expression(4, false))
		fmt.Fprintf(&conditions, "#if %s\nenum { Y%d };\n#endif\n", w.expression(4, true), i)
	}
	text := defines.String() + conditions.String()
	var c strings.Builder
	c.WriteString("int printf(const char *, ...);\n" + text + "int main(void) {\n")
	for i := range n {
		fmt.Fprintf(&c, "printf(\"D%d=%%llx %%d %%d\\n\", (unsigned long long)(D%[1]d), (int)sizeof(+(D%[1]d)), (__typeof__(+(D%[1]d)))-1 > 0);\n", i)
	}
	c.WriteString("}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
	if err := os.WriteFile(source, []byte(c.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "gcc", "-w", "-fwrapv", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	want, err := testenv.Command(t, program).Output()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cdecl.Parse("x.h", []byte(text), &cdecl.Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(want), "\n")
	for i, m := range d.Defines {
		got := fmt.Sprintf("%s=%x %d %d", m.Name, m.Value.Bits, m.Value.Size, map[bool]int{true: 1}[m.Value.Unsigned])
		if got != lines[i] || !m.Integer {
			t.Errorf("%s: got %s, %v, GCC says %s", m.Text, got, m.Integer, lines[i])
		}
	}
	// gcc's preprocessor shows the conditions' values by the text that it leaves.
	out, err := testenv.Command(t, "gcc", "-w", "-E", "-P", source).Output()
	if err != nil {
		t.Fatal(err)
	}
	held := strings.Count(string(out), "enum { Y")
	if len(d.Defines) != n || len(d.Constants) != held+1 || held < n/10 || held > n*9/10 {
		t.Errorf("%d defines; %d conditions hold, GCC says %d", len(d.Defines), len(d.Constants)-1, held)
	}
	for _, c := range d.Constants[1:] {
		if !strings.Contains(string(out), "{ "+c.Name+" }") {
			t.Errorf("GCC says that %s does not hold", c.Name)
		}
	}
}
