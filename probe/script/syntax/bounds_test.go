package syntax

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// TestBounds: whatever the input is, it is refused with little work and without much memory.
func TestBounds(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	const big = 200_000
	for name, in := range map[string]string{
		"million_brackets":  "begin { " + many("(", 1_000_000),
		"brackets":          "begin { " + many("(", big),
		"blocks":            "begin { " + many("{", big),
		"keys":              "begin { " + many("@[", big/2),
		"casts":             "begin { " + many("(uint8)", big/8),
		"typeof_casts":      "begin { " + many("(typeof(", big/8),
		"typeof_casts_shut": "begin { _ = " + many("(typeof(", 150) + "1" + many(")", 300) + "; }",
		"sizeofs":           "begin { " + many("sizeof(x[", big/9),
		"sizeofs_shut":      "begin { _ = " + many("sizeof((x[", 90) + "1" + many("]))", 90) + "; }",
		"unary":             "begin { _ = " + many("-", big),
		"steps":             "begin { _ = " + many("++", big/2),
		"sums":              "begin { _ = 1" + many("+1", big/2) + "; }",
		"fields":            "begin { _ = a" + many(".b", big/2) + "; }",
		"elses":             "begin { if 1 {} " + many("else if 1 {} ", big/13) + "}",
		"elvis": "begin { _ = " + many("(", 90) + "1" + many(" ?: 1)", 90) + many(" ?: 1",
			big/5) + "; }",
		"sigils":        "begin " + many("{ $a + ", big/7),
		"pointers":      "begin { let $x : a" + many("*", big) + "; }",
		"commas":        "begin { f(" + many(",", big) + "); }",
		"digits":        "begin { _ = " + many("9", big) + "; }",
		"points":        many("k:a,", big/4),
		"ten_megabytes": "begin { // " + many("x", 10_000_000),
		"comment":       "/*" + many("*\n", big/2) + "*/x",
		"lines":         many("\n", big) + "x",
		"slashes":       "k:f /" + many("/", big),
		"record":        "begin { _ = (" + many("a=1,", big/4) + "); }",
		"configs":       many("config = {} ", big/12),
		"quotes":        "begin { _ = " + many(`"\`, big/2),
		"attributes":    "struct a {} " + many("__attribute__((", big/15),
		"struct":        many("struct ", big/7),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := newScript("stdin", []byte(in))
			f := p.file()
			p.checkHeight(f)
			f, err := p.done(f, nil)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("accepted")
			}
			text := ""
			if err != nil {
				text = ErrorText(err)
			}
			if len(text) > 4<<20 || len(Format(f)) > 10<<20 {
				t.Errorf("the text has %d bytes", len(text))
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d bytes allocated", got)
			}
			// The work: the bytes that were looked at, and the expressions that were begun.
			allowed := newParser("", in[:min(len(in), mostBytes+1)]).work
			begun := allowed - p.work
			if most := 1<<17 + 6*len(p.text); p.looked > most || begun > allowed+mostDepth {
				t.Errorf("%d bytes were looked at, of %d, and %d expressions begun", p.looked, len(p.text), begun)
			}
			t.Logf("%d bytes, %d looked at, %d begun, %d KiB: %.80q", len(p.text), p.looked, begun,
				(after.TotalAlloc-before.TotalAlloc)>>10, text)
		})
	}
}

// TestMostFormatted: the largest scripts that are accepted are printed with little work, too.
func TestMostFormatted(t *testing.T) {
	many := strings.Repeat
	for name, in := range map[string]string{
		"statements": "begin { " + many("a;", 100_000) + "}",
		"arguments":  "begin { f(" + many("1,", 100_000) + "1); }",
		"deep":       "begin { " + many("f({ ", 90) + many("a;", 50_000) + many(" })", 90) + "}",
		"wide_deep": "begin { " + many(many("n", 1000)+"({ ", 90) + many("a;", 50_000) + many(" })",
			90) + "}",
		"chain":    "begin { _ = 1" + many(" && 1", 900) + "; }",
		"sum":      "begin { _ = 1" + many(" + 1", 900) + "; }",
		"minus":    "begin { _ = " + many("- ", 990) + "1; }",
		"blocks":   "begin " + many("{ $x = ", 300) + "1" + many("; }", 300),
		"brackets": "begin { _ = " + many("(", 2500) + "1" + many(")", 2500) + "; }",
		"ifs":      "begin { " + many("if ((1,)) {", 300) + many("}", 300) + "}",
		"tuples":   "begin { _ = " + many("(", 900) + "1" + many(",)", 900) + "; }",
		"elvis":    "begin { _ = " + many("(", 90) + "1" + many(" ?: 1)", 90) + "; }",
		"comments": "begin { " + many("/*c*/", 40_000) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("stdin", []byte(in), nil)
			if err != nil {
				t.Fatalf("%.300s", ErrorText(err))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out := Format(f)
			runtime.ReadMemStats(&after)
			bytes, count := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
			if bytes > 192<<20 || count > 3_000_000 {
				t.Errorf("%d KiB in %d allocations for %d bytes", bytes>>10, count, len(out))
			}
			t.Logf("%d KiB in %d allocations for %d bytes", bytes>>10, count, len(out))
			if len(out) > 64<<20 {
				t.Errorf("%d bytes", len(out))
			}
			again, err := Parse("stdin", out, nil)
			if len(out) <= mostBytes && (err != nil || !Equal(f, again)) {
				t.Errorf("another tree: %.300v", err)
			}
		})
	}
}

// TestMostExpanded: macros and #define lines that multiply are refused, with little work, as are
// those that are used often. Before, each took from 100 ms to 10 s.
func TestMostExpanded(t *testing.T) {
	many := strings.Repeat
	doubled, calls := "macro m0(x) { x + x }\n", "1"
	for i := range 30 {
		doubled += fmt.Sprintf("macro m%d(x) { m%d(x) + m%d(x) }\n", i+1, i, i)
		calls = fmt.Sprintf("m%d(%s)", i, calls)
	}
	tower := func(high, wide int) string {
		s := "#define A0 1\n"
		for i := range high {
			s += fmt.Sprintf("#define A%d %s1\n", i+1, many(fmt.Sprintf("A%d + ", i), wide))
		}
		return s + fmt.Sprintf("begin { @ = A%d; }", high)
	}
	for name, test := range map[string]struct{ in, want string }{
		"calls":     {doubled + "begin { _ = " + calls + "; }", "macros expand to more than"},
		"doubled":   {doubled + "begin { _ = m29(1); }", "macros expand to more than"},
		"tower":     {tower(40, 2), "macros expand to more than"},
		"wideTower": {tower(3, 200), "macros expand to more than"},
		"long":      {"#define A " + many("1 + ", 900) + "1\nbegin { " + many("@ = A; ", 300) + "}", "macros expand to more than"},
		"tooLong":   {"#define A " + many("1 + ", 50_000) + "1\nbegin { " + many("@ = A; ", 1000) + "}", "macros expand to more than"},
		"brackets":  {"#define A " + many("(", 2000) + "1" + many(")", 2000) + "\nbegin { " + many("@ = A; ", 4000) + "}", ""},
		"bad":       {"#define A " + many("( ", 50_000) + "\nbegin { " + many("@ = A; ", 3000) + "}", "unable to expand macro"},
		"deep":      {tower(2000, 1), "more than 100 #define lines use each other"},
		"itself":    {"#define A B\n#define B A\nbegin { " + many("@ = A; ", 5000) + "}", "Macro recursion"},
		"text":      {"#define A \"" + many("x", 200_000) + "\"\nbegin { " + many("@ = A; ", 1000) + "}", ""},
		"chain":     {strings.Join(uses(99), ""), "Unhygienic access to map"},
		"nodes":     {"begin { " + many("@ = 1; ", 10_000) + "}", "the script has more than 25000 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("stdin", []byte(test.in), nil)
			if err != nil {
				t.Fatal(ErrorText(err))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = Expand(f, nil)
			text := ""
			if err != nil {
				text = ErrorText(err)
			}
			runtime.ReadMemStats(&after)
			if !strings.Contains(text, test.want) || (test.want == "") != (err == nil) {
				t.Errorf("error is %.300q, want %q", text, test.want)
			}
			bytes, count := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
			if bytes > 40<<20 || count > 300_000 || len(text) > 2<<20 {
				t.Errorf("%d KiB in %d allocations, errors of %d bytes", bytes>>10, count, len(text))
			}
			t.Logf("%d KiB in %d allocations, errors of %d bytes", bytes>>10, count, len(text))
		})
	}
}

// uses has macros in one line of which each uses the one before it, and many uses of the last.
func uses(n int) []string {
	lines := []string{"macro m0() { @x = 1 } "}
	for i := range n - 1 {
		lines = append(lines, fmt.Sprintf("macro m%d() { m%d() } ", i+1, i))
	}
	return append(lines, "begin { ", strings.Repeat(fmt.Sprintf("m%d(); ", n-1), 150), "}")
}

// TestWidth: the width of a line, which is kept while it is composed, is that of its text.
func TestWidth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"", " ", "a", "  b", "*/", "*/ */", "a long text"}
	var compose func(depth int) *page
	compose = func(depth int) *page {
		p := newPage()
		for range random.IntN(6) {
			piece := pieces[random.IntN(len(pieces))]
			switch random.IntN(5) {
			case 0:
				p.comment(piece)
			case 1:
				p.text(piece)
			case 2:
				p.newLine()
			default:
				if depth > 0 {
					p.append(compose(depth - 1))
				}
			}
		}
		return p
	}
	for range 20_000 {
		for _, l := range compose(4).lines {
			w := l.indent
			text := ""
			l.each(func(s string) { w += len(s); text += s })
			if got := l.width(); got != w {
				t.Fatalf("%q: width is %d, want %d", text, got, w)
			}
		}
	}
}

// TestMostPoints: before, 130,000 attach points took 100 MiB, and more with their errors.
func TestMostPoints(t *testing.T) {
	_, err := Parse("stdin", []byte(strings.Repeat("k,", 130_000)+"k:f { }"), nil)
	if err == nil || !strings.Contains(ErrorText(err), "more than 25000 attach points") {
		t.Errorf("error is %v", err)
	}
	if _, err := Parse("stdin", []byte(strings.Repeat("k,", 24_999)+"k:f { }"), nil); err != nil {
		t.Error(err)
	}
}

// TestLongErrors: before, a hundred errors with the uses of macros that they are expanded from
// had up to 50 MiB. Their text is cut, and source lines are left out from 256 KiB on.
func TestLongErrors(t *testing.T) {
	long := &Error{Msg: strings.Repeat("x", 100_000)}
	if text := long.String(); len(text) != len("ERROR: ...\n")+4096 {
		t.Errorf("a long message has %d bytes", len(text))
	}
	line := strings.Repeat("a", 4000)
	src := NewText("stdin", line)
	var es Errors
	for range 100 {
		e := &Error{Loc: Loc{In: src, Start: 1, End: 3}, Msg: "wrong"}
		for range 100 {
			from := e.Loc
			e.Loc.From = &from
		}
		es = append(es, e)
	}
	text := es.String()
	if len(text) > 1<<20 || !strings.Contains(text, line) || !strings.HasSuffix(text, "expanded from\n") {
		t.Errorf("the text has %d bytes, and ends with %.100q", len(text), text[len(text)-100:])
	}
}
