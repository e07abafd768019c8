package syntax

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestBounds: whatever the input is, it is refused soon and without much memory.
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
			start := time.Now()
			f, err := Parse("stdin", []byte(in), nil)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			for range 4 { // others use the machine too
				start = time.Now()
				_, _ = Parse("stdin", []byte(in), nil)
				took = min(took, time.Since(start))
			}
			if err == nil {
				t.Error("accepted")
			}
			text := ""
			if err != nil {
				text = Text(err)
			}
			if len(text) > 4<<20 || len(Format(f)) > 10<<20 {
				t.Errorf("the text has %d bytes", len(text))
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d bytes allocated", got)
			}
			if took > limit() {
				t.Errorf("%v, more than %v", took, limit())
			}
			t.Logf("%v, %d KiB: %.80q", took, (after.TotalAlloc-before.TotalAlloc)>>10, text)
		})
	}
}

// TestMostFormatted: the largest scripts that are accepted are printed too, soon.
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
				t.Fatalf("%.300s", Text(err))
			}
			start := time.Now()
			out := Format(f)
			if took := time.Since(start); took > 20*limit() {
				t.Errorf("%v for %d bytes", took, len(out))
			}
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

// TestMostExpanded: macros that double what they get, thirty times over, are refused.
func TestMostExpanded(t *testing.T) {
	in, calls := "macro m0(x) { x + x }\n", "1"
	for i := range 30 {
		in += fmt.Sprintf("macro m%d(x) { m%d(x) + m%d(x) }\n", i+1, i, i)
		calls = fmt.Sprintf("m%d(%s)", i, calls)
	}
	start := time.Now()
	f, err := Parse("stdin", []byte(in+"begin { _ = "+calls+"; }"), nil)
	if err != nil {
		t.Fatal(Text(err))
	}
	err = Expand(f, nil)
	if err == nil || !strings.Contains(Text(err), "macros expand to more than") {
		t.Errorf("%.300v", err)
	}
	if took := time.Since(start); took > 10*limit() {
		t.Errorf("%v", took)
	}
}
