package syntax

import (
	"fmt"
	"strings"
	"testing"
)

// parsed parses a script that is right.
func parsed(t *testing.T, src string) *File {
	t.Helper()
	f, err := Parse("stdin", []byte(src), nil)
	if err != nil {
		t.Fatal(ErrorText(err))
	}
	return f
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{
			"hygiene", "macro add($x, y) { $t = y; $x += $t; $x } begin { $t = 1; add($t, 2); }",
			"begin\n{\n  $t = 1;\n  {\n    $$add_$t = 2;\n    $t += $$add_$t;\n    $t\n  }\n}\n",
		},
		{
			"nested", "macro a(x) { $i = x; $i } macro b(x) { $i = a(x); $i } begin { _ = b(1); }",
			"begin\n{\n  _ = {\n        $$b_$i = {\n                   $$a_2_$i = 1;\n                   " +
				"$$a_2_$i\n                 };\n        $$b_$i\n      };\n}\n",
		},
		{
			"map", "macro put(@m, k) { @m[k] = 1; } begin { put(@a, pid); }",
			"begin\n{\n  { @a[pid] = 1; }\n}\n",
		},
		{
			"name", "macro one() { 1 } begin { _ = one + one(); }",
			"begin\n{\n  _ = ({ 1 }) + ({ 1 });\n}\n",
		},
		{"copy", "macro two(x) { x } begin { two($a); }", "begin\n{\n  { { $a } }\n}\n"},
		{
			"overload", "macro f($x) { 1 } macro f(@x) { 2 } macro f(x) { 3 } begin { f($a); f(@b); f(4); }",
			"begin\n{\n  { 1 }\n  { 2 }\n  { 3 }\n}\n",
		},
		{
			"type", "macro uint8() { 1 } macro n(x) { sizeof(x) } begin { _ = sizeof(uint8) + n(5); }",
			"begin\n{\n  _ = sizeof(uint8) + ({ sizeof(5) });\n}\n",
		},
		{
			"define", "#define A (B + 1)\n#define B 2\n#define F(x) x\nbegin { _ = A; F(1); }",
			"#define A (B + 1)\n#define B 2\n#define F(x) x\nbegin\n{\n  _ = 2 + 1;\n  F(1);\n}\n",
		},
		{"other", "begin { f(g); }", "begin\n{\n  f(g);\n}\n"},
		{
			"function", "macro one() { 1 } fn f() : int8 { return one; }",
			"fn f() : int8\n{\n  return ({ 1 });\n}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parsed(t, c.in)
			if err := Expand(f, nil); err != nil {
				t.Fatal(ErrorText(err))
			}
			if got := string(Dump(f)); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			checkLocations(t, f, -1)
		})
	}
}

func TestExpandErrors(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{
			"recursion", "macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }",
			"stdin:1:34-38: ERROR: Recursive macro call detected. Call chain: a > b > a\n" +
				"macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }\n" +
				"                                 ~~~~\n" +
				"stdin:1:14-18: ERROR: expanded from\n" +
				"macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }\n" +
				"             ~~~~\n" +
				"stdin:1:49-53: ERROR: expanded from\n" +
				"macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }\n" +
				"                                                ~~~~\n",
		},
		{
			"twice", "macro a() { 1 } macro a() { 2 } begin { }",
			"stdin:1:17-24: ERROR: Redefinition of macro: a\n" +
				"macro a() { 1 } macro a() { 2 } begin { }\n" +
				"                ~~~~~~~\n" +
				"stdin:1:1-8: ERROR: This is the original definition.\n" +
				"macro a() { 1 } macro a() { 2 } begin { }\n" +
				"~~~~~~~\n",
		},
		{
			"kind", "macro a($x) { 1 } begin { a(@m); }",
			"stdin:1:29-31: ERROR: Mismatched arg. a() expects a variable " +
				"for arg $x but got a map.",
		},
		{"map", "macro a(@x) { 1 } begin { a($m); }", "expects a map for arg @x but got a variable."},
		{
			"expression", "macro a(@x) { 1 } begin { a(1); }",
			"expects a map for arg @x but got an expression.",
		},
		{
			"number", "macro a(x) { 1 } begin { a(1, 2); }",
			"The closest definition of a() has a different number of " +
				"arguments. Expected: 1 but got 2",
		},
		{
			"same", "macro a($x, $x) { 1 } begin { }",
			"Variable for macro argument has already been used: $x",
		},
		{
			"hygiene", "macro a() { @x = 1; } begin { a(); }",
			"Unhygienic access to map: @x. Maps must be passed into the " +
				"macro as arguments.",
		},
		{
			"shadow", "macro a($x) { let $x; } begin { a($y); }",
			"Variable declaration shadows macro arg $x",
		},
		{
			"define", "#define A B\n#define B A + 1\nbegin { A; }",
			"B:1:1-2: ERROR: Macro recursion: A->B\nA + 1\n~\nA:1:1-2: ERROR: expanded from\nB\n~\n" +
				"stdin:3:9-10: ERROR: expanded from\nbegin { A; }\n        ~\n",
		},
		{
			"statement", "#define A { x\nbegin { A; }",
			"stdin:2:9-10: ERROR: unable to expand macro as an expression: {x\n",
		},
		{"deep", deepMacros(), "more than 100 macros call each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Expand(parsed(t, c.in), nil)
			if err == nil || !strings.Contains(ErrorText(err), c.want) {
				t.Errorf("got\n%swant\n%s", ErrorText(fmt.Errorf("%w", err)), c.want)
			}
		})
	}
	f := parsed(t, "macro cpu(x) { x } begin { cpu(1); cpu(); }")
	library := func(n string) bool { return n == "cpu" }
	if err := Expand(f, &ExpandOptions{Builtin: library}); err != nil {
		t.Error(ErrorText(err))
	}
}

func deepMacros() string {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "macro m%d() { m%d() }\n", i, i+1)
	}
	return b.String() + "macro m150() { 1 } begin { m0(); }"
}

func TestSetParams(t *testing.T) {
	f := parsed(t, "begin { f($1, $2, $3, $4, $5, $#, str($1), str($2 + 3), str($5), $6); }")
	warnings := SetParams(f, []string{"12", "word", "-5", "0x10", "", "-9223372036854775809"})
	want := "begin\n{\n  f(12, \"word\", -5, 16, 0, 6, str(\"12\"), str(\"word\" + 3), str(\"\"), " +
		"\"-9223372036854775809\");\n}\n"
	if got := string(Dump(f)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(warnings) != 1 || warnings[0].Severity != SeverityWarning ||
		!strings.HasPrefix(warnings.String(),
			"stdin:1:27-29: WARNING: Positional parameter $5 is empty or not provided. \n") {
		t.Errorf("%s", warnings)
	}
	if warnings.Err() != nil {
		t.Error("a warning is an error")
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"#ifdef A\n#define X 1\n#else\n#define X 2\n#endif", "X 1"},
		{"#ifndef A\n#define X 1\n#else\n#define X 2\n#endif", "X 2"},
		{
			"#if 0\n#define X 1\n#elif defined(B) || defined A\n#define X 2\n#else\n#define X 3\n#endif",
			"X 2",
		},
		{"#define V 5\n#if V * 2 >= 10 && !(V & 2) && -V < ~0\n#define X 1\n#endif", "V 5,X 1"},
		{"#define V 1\n#undef V\n#undef A\n#if defined(V) || defined(A)\n#define X 1\n#endif", "V 1"},
		{"#if 1\n# if 0\n#define X 1\n# else\n#define X 2\n# endif\n#define Y\n#endif", "X 2,Y "},
		{"#if 0\n#ifdef A\n#define X 1\n#else\n#define X 2\n#endif\n#endif", ""},
		{"#if 1 ? 0 : 1\n#define X 1\n#endif\n#if (2 - 1) == 1 | 0\n#define Y 1\n#endif", "Y 1"},
	} {
		o := &Options{Defined: func(n string) bool { return n == "A" }}
		f, err := Parse("stdin", []byte(c.in+"\nbegin {}"), o)
		if err != nil {
			t.Fatal(ErrorText(err))
		}
		var got []string
		for _, d := range f.Decls {
			if d, ok := d.(*C); ok {
				if name, value, ok := objectMacro(d); ok {
					got = append(got, name+" "+value)
				}
			}
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s defines %q, want %q", c.in, got, c.want)
		}
	}
	for in, want := range map[string]string{
		"#endif":       "stdin:1:1-7: ERROR: syntax: #endif without #if",
		"#else":        "stdin:1:1-6: ERROR: syntax: #else without #if",
		"#if 1":        "stdin:1:1-6: ERROR: syntax: #if without #endif",
		"#if 1 +":      "stdin:1:1-8: ERROR: syntax: cannot evaluate #if 1 +",
		"#elif x\n#if": "stdin:1:1-8: ERROR: syntax: #else without #if",
	} {
		o := &Options{Defined: func(string) bool { return false }}
		_, err := Parse("stdin", []byte(in+"\nbegin {}"), o)
		if err == nil || !strings.HasPrefix(ErrorText(err), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
		if _, err := Parse("stdin", []byte(in+"\nbegin {}"), nil); err != nil {
			t.Errorf("%q is evaluated: %s", in, ErrorText(err))
		}
	}
}

func TestWalk(t *testing.T) {
	f := parsed(t, "k:f /pid/ { @[1] = $x + 2; if 3 { f(4) } }")
	var got []string
	Walk(f, func(n Node) bool {
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax."))
		_, isIf := n.(*If)
		return !isIf
	})
	if want := "File Probe AttachPoint Builtin Block Assign MapAccess Map Integer Binary Variable " +
		"Integer ExprStmt If None"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	n := 0
	for range All(f) {
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("%d nodes", n)
	}
	c := Clone(f)
	if !Equal(f, c) {
		t.Error("a copy is not equal")
	}
	Rewrite(c, func(n Node) Node {
		if i, ok := n.(*Integer); ok {
			return &Integer{Loc: i.Loc, Value: i.Value * 10}
		}
		if _, ok := n.(*AttachPoint); ok {
			return &None{} // which does not fit
		}
		return nil
	})
	if got, want := string(Dump(c)),
		"k:f\n/pid/\n{\n  @[10] = $x + 20;\n  if 30 {\n    f(40);\n  }\n}\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if Equal(f, c) || string(Dump(f)) == string(Dump(c)) {
		t.Error("the original is changed")
	}
	if !Equal(nil, nil) || Equal(f, nil) {
		t.Error("nil")
	}
}

// TestEnumeratorsOfDefines: a name of an enum is not what a #define of it says.
func TestEnumeratorsOfDefines(t *testing.T) {
	f, err := Parse("stdin", []byte("enum e { B, A = 1 };\n#define A A\n#define C 3\nbegin { print(A + C); }"), nil)
	if err == nil {
		err = Expand(f, nil)
	}
	if err != nil {
		t.Fatal(ErrorText(err))
	}
	if got := string(Dump(f)); !strings.Contains(got, "print(A + 3)") {
		t.Errorf("expanded is\n%s", got)
	}
}
