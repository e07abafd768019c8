package syntax

import (
	"bytes"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/golden"
)

// formatCase is a script, and how it is formatted.
type formatCase struct{ name, in, want string }

func formatCases() []formatCase {
	in := func(s string) string { return "begin\n{\n  " + s + "\n}\n" }
	return []formatCase{
		{"empty", "begin{}", "begin\n{}\n"},
		{"predicate", "k:f / pid/*x*/==1 /{1}", "k:f\n// x\n/pid == 1/\n{\n  1;\n}\n"},
		{"predicate_star", "k:f / *$x / {}", "k:f\n/ *$x/\n{}\n"},
		// The predicate's slash makes the one before it part of the attach point, comments or not.
		{"slashes", "a*//b/ {}", "a*//b/\n{}\n"},
		{"slashes_comment", "a//*b*/ 1/ {}", "a//*b*\n/1/\n{}\n"},
		{"slash_alone", "/ /b/ {}", "/\n/b/\n{}\n"},
		{"points", "k:a ,k:b, {}", "k:a,\nk:b\n{}\n"},
		{"compound", "begin { $x = $x + 1; @a[1,2] = @a[1,2] << 2; }", in("$x += 1;\n  @a[1,2] <<= 2;")},
		{"refused", "begin { 1 2 }", ""},
		{"precedence", "begin { $x = 1 + 2 * 3 == 4 && 5; }", in("$x = (1 + (2 * 3)) == 4 && 5;")},
		{"chain", "begin { $x = $a && ($b && $c) && $d; }", in("$x = $a && ($b && $c) && $d;")},
		{
			"comparison", "begin { $x = (1 == 2) + 3; $x = 1 < (2 == 3); }",
			in("$x = (1 == 2) + 3;\n  $x = 1 < (2 == 3);"),
		},
		{
			"ternary", "begin { a ? f() : g(); -1; ($a) ? 1 : 2; }",
			in("a ? f() : g();\n  -1;\n  ($a ? 1 : 2);"),
		},
		{
			"arrays", "begin { let $x : int8[0]; let $y : int8[ ]; _ = sizeof(a[0]); }",
			in("let $x : int8[0];\n  let $y : int8[];\n  _ = sizeof(a[0]);"),
		},
		{"elvis", "begin { $x = $a ?: 2; }", in("$x = $a ?: 2;")},
		{
			"else_if", "begin { if $a { 1 } else if ($b) { 2 } else { 3 } }",
			in("if $a {\n    1;\n  } else if $b {\n    2;\n  } else {\n    3;\n  }"),
		},
		{"if_value", "begin { $x = if ($a) { 1 } else { 2 }; }", in("$x = if $a { 1 } else { 2 };")},
		{"kept_semicolon", "begin { if 1 { 2 }; }", in("if 1 {\n    2\n  };")},
		{"before_minus", "begin { if 1 { }; -2; }", in("if 1 {};\n  -2;")},
		{"tuple_condition", "begin { if ((1,2)) { } }", in("if ((1,2)) {}")},
		{"cast_condition", "begin { while (((struct a*)$x).b) { } }", in("while (((struct a*)$x).b) {}")},
		{"index", "begin { $x = 1 + a[$i] * 2; }", in("$x = 1 + ((a)[$i] * 2);")},
		{
			"config", `config = { a = "b c"; d = true; e = "true"; f = 0x10 } begin {}`,
			"config = {\n  a = \"b c\";\n  d = true;\n  e = \"true\";\n  f = 16;\n}\nbegin\n{}\n",
		},
		{
			"comments", "// a\n\n/* b\n * c */\nbegin { 1; // d\n\n // e\n 2; /* f */ // g\n}",
			"// a\n\n// b\n// c\nbegin\n{\n  1;\n  // d\n\n  // e\n  2; /* f */ // g\n}\n",
		},
		{"lifted", "begin { f(1 /* a */, // b\n 2); }", in("// a\n  // b\n  f(1, 2);")},
		{
			"after_if", "begin { if 1 { 2; }\n\n// about 3\n3; }",
			in("if 1 {\n    2;\n  }\n\n  // about 3\n  3;"),
		},
		{
			"wide", `begin { printf("a long text with %s and %d", aaaaaaaaaaaaaaaaaaaaaaaaa,` +
				` bbbbbbbbbbbbbbbbbbbbbbbbbbb, c); }`,
			in("printf(\"a long text with %s and %d\", \n         " +
				"aaaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbb, c);"),
		},
	}
}

func TestFormat(t *testing.T) {
	for _, c := range formatCases() {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse("stdin", []byte(c.in), nil)
			if c.want == "" {
				if err == nil {
					t.Error("accepted")
				}
				if got := Format(f); got != nil {
					t.Errorf("what is refused is formatted as\n%s", got)
				}
				return
			}
			if err != nil {
				t.Fatal(ErrorText(err))
			}
			want := strings.ReplaceAll(c.want, " \n", "\n")
			if got := string(Format(f)); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			again, err := Parse("stdin", []byte(want), nil)
			if err != nil {
				t.Fatal(ErrorText(err))
			}
			if !Equal(f, again) {
				t.Error("it parses to another tree")
			}
			if got := string(Format(again)); got != want {
				t.Errorf("twice it is\n%s", got)
			}
		})
	}
}

// TestFormatFiles compares with files that were looked at, and does not lose a comment.
func TestFormatFiles(t *testing.T) {
	for file, f := range scripts(t) {
		got := Format(f)
		golden.Compare(t, strings.TrimSuffix(file, ".bt")+".fmt", got)
		for _, s := range f.space {
			if text := f.In.Content[s.start:s.end]; s.comment && !bytes.Contains(got,
				[]byte(strings.TrimSpace(text))) {
				t.Errorf("%s: lost %q", file, text)
			}
		}
	}
}
