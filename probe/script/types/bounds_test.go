package types_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

// numbered repeats a text, in which %d is 0, 1 and so on.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

// hostile are scripts that cost much if their nodes, the sizes of their types or their nesting
// are multiplied. Most of them took from 100 ms to 14 s, or up to 2.7 GiB.
func hostile() map[string]string {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	in := func(n int, open, inner, end string) string { return many(n, open) + inner + many(n, end) }
	wide := "(" + many(9_000, "1, ") + "1)"
	return map[string]string{
		"variables":   "begin { $a = 1; " + many(4_000, "$a = $a + 1; ") + "}",
		"maps":        "begin { " + many(1_400, "@a[1] = @b[2]; @b[1] = @a[2]; ") + "}",
		"mapNames":    "begin { " + numbered(4_000, "@m%d = 1; ") + "}",
		"mapChain":    "begin { @m0 = 1; " + numbered(3_000, "@m%d = @n%d; @n%d = @m%d; ") + "}",
		"open":        "begin { " + numbered(4_000, "@m%d++; ") + "}",
		"tooMany":     "begin { " + many(10_000, "$a = $a + 1; ") + "}",
		"tuples":      "begin { @ = " + in(150, "(1, ", "1", ")") + " }",
		"deepTuples":  "begin { @ = " + in(900, "(1, ", "1", ")") + " }",
		"leftTuples":  "begin { @ = " + in(900, "(", "1", ", 1)") + " }",
		"records":     "begin { @ = " + in(450, "(a = 1, b = ", "1", ")") + " }",
		"wideTuple":   "begin { @ = " + wide + " }",
		"wideRecord":  "begin { @ = (" + numbered(8_000, "f%d = 1, ") + "g = 1) }",
		"wideInDeep":  "begin { @ = " + in(300, "(1, ", wide, ")") + " }",
		"wideAgain":   "begin { $a = " + wide + "; $b = (" + many(9_000, "300, ") + "1); " + many(300, "$b = $a; ") + "}",
		"deepAgain":   "begin { $a = " + in(300, "(1, ", "1", ")") + "; $b = " + in(300, "(300, ", "1", ")") + "; " + many(100, "$b = $a; ") + "}",
		"recordAgain": "begin { $a = (" + numbered(2_000, "f%d = 1, ") + "g = 1); $b = (g = 1" + numbered(2_000, ", f%d = 1") + "); " + many(300, "$b = $a; ") + "}",
		"wideText":    "begin { $a = " + wide + "; " + many(1_000, "print($a + 1); ") + "}",
		"printed":     "begin { $v0 = (1, 1); " + numbered(400, "$w%d = ($v0, %d); print($w%d); ") + "}",
		"doubling":    "begin { $a = (1, 1); " + many(40, "$a = ($a, $a); ") + "}",
		"growing":     growing(60),
		"chained":     "begin { $v0 = (1, 1); " + numbered(800, "$v0 = ($v0, 1); ") + "}",
		"same":        "begin { $a = " + in(300, "(1, ", "pid", ")") + "; " + many(1_500, "@ = $a == $a; ") + "}",
		"literals":    "begin { @ = " + in(400, "(1, ", "1", ")") + " == " + in(400, "(1, ", "1", ")") + "; }",
		"structs":     nested(25) + "begin { @ = ((struct s24 *)0, *(struct s24 *)0) }",
		"members":     "struct s { " + numbered(6_000, "int a%d; ") + "};\nbegin { " + many(2_000, "@ = ((struct s *)0).a5999; ") + "}",
		"unnamed":     "struct s { " + numbered(3_000, "struct { int a%d; }; ") + "};\nbegin { " + many(2_000, "@ = ((struct s *)0).a2999; ") + "}",
		"enumerators": "enum e { " + numbered(9_000, "E%d, ") + "L };\nbegin { " + many(2_000, "@ = (enum e)8999; ") + "}",
		"pointers":    "begin { let $x : int8" + many(99, "*") + "; " + many(2_500, "$x = $x; ") + "}",
		"sums":        "begin { " + many(5, "@ = 1"+many(900, " + pid")+"; ") + "}",
		"texts":       "begin { @ = \"" + many(250, "x") + "\"" + many(900, " + \""+many(250, "x")+"\"") + "; }",
		"ternaries":   "begin { @ = " + many(900, "pid ? 1 : ") + "1; }",
		"fields":      "struct s { struct s *p; };\nbegin { $x = (struct s *)0; @ = $x" + many(900, "->p") + "; }",
		"keys":        "begin { @ = " + in(900, "@[", "1", "]") + "; }",
		"assignments": "begin { " + many(40, "@["+in(200, "@[", "1", "]")+"] += 1; ") + "}",
		"tower":       "begin { " + in(60, "@[{ ", "@[1]", " += 1; 1 }]") + " += 1; }",
		"unrolled":    "begin { " + in(300, "unroll(100) { ", many(2_000, "@++; "), "} ") + "}",
		"loops":       "begin { " + in(250, "for ($i : 0..10) { ", many(2_000, "@++; "), "} ") + "}",
		"scopes":      "begin { " + in(300, "if (pid) { ", many(3_000, "$z = 2; "), "} ") + "}",
		"undeclared":  "begin { " + numbered(4_000, "let $a%d; ") + "}",
		"functions":   numbered(90, "fn f%d($x : int64): int64 { return $x; }\n") + "begin { " + many(3_000, "@ = f1(1); ") + "}",
		"parameters":  "fn f(" + numbered(2_500, "$x%d : int64, ") + "$y : int64): int64 { return 1; }\nbegin { " + many(2_500, "@ = f(1); ") + "}",
		"comptime":    "begin { $a0 = 1; " + numbered(49, "if comptime (sizeof($a0) == %d) { $b%d = 1; ") + many(2_000, "@++; ") + many(49, "}") + " }",
		"rounds":      "begin { $a0 = 1; " + numbered(48, "$c%d = comptime (sizeof($a0)); ") + many(2_000, "@++; ") + "}",
		"sizeofs":     "begin { @ = " + in(240, "sizeof((1, ", wide, "))") + "; }",
		"typeinfos":   "config = { unstable_typeinfo = enable }\nbegin { $t = " + in(400, "(1, ", "1", ")") + "; " + many(500, "@ = typeinfo($t).full_type; ") + "}",
		"points":      many(2_000, "kprobe:f, ") + "kprobe:f { " + many(200, "print(arg0); ") + "}",
		"clones":      many(12_000, "kprobe:f, ") + "kprobe:f { print(probe); }",
		"cloned":      many(1_000, "kprobe:f, ") + "kprobe:f { " + many(40, "print(probe); ") + "}",
		"allowed":     "config = { max_probes = 999999; max_bpf_progs = 999999 }\n" + many(12_000, "kprobe:f, ") + "kprobe:f { print(probe); }",
		"errors":      "begin { " + many(10_000, "nosuch(); ") + "}",
		"warnings":    "begin { " + many(10_000, "1; ") + "}",
		"longError":   "begin { " + many(50, "@ = \""+many(5_000, "x")+"\"; ") + "}",
		"shadow":      "begin { " + many(100, "{ $a = 1; ") + many(100, "}") + " }",
	}
}

// TestHostile: whatever a script is, it is answered with little work, which is measured in
// allocations and steps, and within little memory. What takes neither has a test of its own.
func TestHostile(t *testing.T) {
	for name, src := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := check(src, nil)
			text := ""
			if err != nil {
				text = syntax.ErrorText(err)
			} else {
				text = string(syntax.DumpNotes(p.File, func(x syntax.Expr) string { return p.Type(x).String() }))
			}
			runtime.ReadMemStats(&after)
			bytes, count := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
			t.Logf("%d KiB, %d allocations, %d bytes of text: %.60v", bytes>>10, count, len(text), err)
			if bytes > 64<<20 || count > 700_000 {
				t.Errorf("%d KiB in %d allocations", bytes>>10, count)
			}
			if err != nil && len(text) > 1<<20 {
				t.Errorf("the errors have %d bytes", len(text))
			}
		})
	}
}

// TestPointsAreNotCopied: before, each copy of an action had copies of all attach points.
func TestPointsAreNotCopied(t *testing.T) {
	f, err := syntax.Parse("stdin", []byte(`kprobe:a, kprobe:b { print(probe); } end { }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	points := func(f *syntax.File) (list []*syntax.AttachPoint) {
		for _, d := range f.Decls {
			list = append(list, d.(*syntax.Probe).Points...)
		}
		return list
	}
	p, err := types.Check(f, nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	if len(p.File.Decls) != 3 || !slices.Equal(points(f), points(p.File)) {
		t.Errorf("%d probes with the points %v, not %v", len(p.File.Decls), points(p.File), points(f))
	}
}

// TestProbeLimits: Check itself counts the points, for callers that list no wildcards.
func TestProbeLimits(t *testing.T) {
	for script, want := range map[string]string{
		`config = { max_probes = 2 } begin, end, kprobe:f { }`:                  "Can't attach to 3 probes",
		`config = { max_bpf_progs = 2 } begin, end, kprobe:f { print(probe); }`: "more than 2 BPF programs",
		`config = { max_probes = 3 } begin, end, kprobe:f { }`:                  "",
	} {
		f, c := configured(t, script)
		_, err := types.Check(f, &types.Options{Config: c})
		if text := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: error is %v, want %q", script, err, want)
		}
	}
}

// TestErrorBehindWarnings: before, an error behind a hundred warnings was not returned.
func TestErrorBehindWarnings(t *testing.T) {
	_, err := check("begin { "+strings.Repeat("{ return; 1; } ", 200)+`@ = 1; @ = "a"; }`, nil)
	if err == nil || !strings.Contains(syntax.ErrorText(err), "ERROR: Type mismatch for @") {
		t.Errorf("error is %v", err)
	}
}

// TestLongTypes: the text of a type is cut, and typeinfo, which scripts compare, refuses one
// that would be.
func TestLongTypes(t *testing.T) {
	wide := "(" + strings.Repeat("1,", 2_000) + "1)"
	p, err := check("begin { @ = "+wide+" }", nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	_, v := p.Map("@")
	if text := v.String(); len(text) != 4096+len("...") || !strings.HasSuffix(text, "...") {
		t.Errorf("the text has %d bytes", len(text))
	}
	_, err = check("begin { $a = "+wide+"; @ = typeinfo($a).full_type; }", nil)
	if err == nil || !strings.Contains(err.Error(), "more than 4096 bytes") {
		t.Errorf("error is %v", err)
	}
}

// TestSharedNames: variables of one name in two blocks are two, and one in a block is that of
// the block around it.
func TestSharedNames(t *testing.T) {
	p, err := check(`begin { if (pid) { $a = 1; @a = $a; } else { $a = "text"; @b = $a; }
		$c = 1; if (tid) { $c = 70000; } @c = $c; }`, nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	for name, want := range map[string]string{"@a": "int8", "@b": "string[5]", "@c": "int32"} {
		if _, v := p.Map(name); v.String() != want {
			t.Errorf("%s is %v, want %s", name, v, want)
		}
	}
}
