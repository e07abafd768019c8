package flow_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/internal/flow"
	"github.com/borescope/borescope/probe/script/syntax"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestJumps: the messages about jumps, and the returns that are added to functions.
func TestJumps(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"break", `begin { break; }`, "ERROR 'break' statement is not allowed in a probe"},
		{"loop", `begin { while (1) { break; } }`, ""},
		{"function", `fn f(): void { continue; }`, "ERROR 'continue' statement is not allowed in a function"},
		{"behind", `begin { return; print(1); }`, "WARNING Unreachable statement."},
		{"value", `begin { print({ return; 1 }); }`, "WARNING Unreachable expression; block type is implicitly none."},
		{"both", `begin { if (pid) { return; } else { exit(); } print(1); }`, "WARNING Unreachable statement."},
		{
			"loops", `begin { while (pid) { if (tid) { return 1; } return; } }`,
			"ERROR Return value used in loop is inconsistent",
		},
		{"undeclared", `begin { print($x); }`, "ERROR Undefined or undeclared variable: $x"},
		{"again", `begin { let $x = 1; let $x = 2; }`, "ERROR Variable $x was already declared. Variable shadowing is not allowed."},
		{"early", `begin { let $x; print($x); $x = 1; }`, "WARNING Variable used before it was assigned: $x"},
		{"never", `begin { let $x; }`, "WARNING Variable $x was never assigned to."},
		{"loopVariable", `begin { $i = 1; for ($i : 0..2) { } }`, "ERROR Loop declaration shadows existing variable: $i"},
		{"block", `begin { if (pid) { $x = 1; } print($x); }`, "ERROR Undefined or undeclared variable: $x"},
		{"loopsAlike", `begin { while (pid) { return 1; } for ($i : 0..2) { return 2; } }`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, _ := check(t, test.script); got != test.want {
				t.Errorf("said is %q, want %q", got, test.want)
			}
		})
	}
	for script, returns := range map[string]int{
		`fn f(): void { print(1); }`:                                          1,
		`fn f(): void { return; }`:                                            1,
		`fn f($x : int64): void { if ($x) { return; } else { print(1); } }`:   2,
		`fn f($x : int64): void { if ($x) { print(2); } else { print(1); } }`: 2,
	} {
		if _, f := check(t, script); strings.Count(string(syntax.Dump(f)), "return") != returns {
			t.Errorf("%s: not %d returns in\n%s", script, returns, syntax.Dump(f))
		}
	}
}

// check returns the messages about a script, and the script.
func check(t *testing.T, script string) (string, *syntax.File) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(script), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	var said []string
	report := func(_ syntax.Node, s syntax.Severity, msg string) *syntax.Error {
		said = append(said, s.String()+" "+msg)
		return &syntax.Error{}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *syntax.Probe:
			flow.Probe(d, report)
			flow.Variables(d, report)
		case *syntax.Func:
			flow.Func(d, report)
			flow.Variables(d, report)
		}
	}
	return strings.Join(said, "\n"), f
}

// TestManyScopes: before, each variable was looked for in all scopes around it, and each of the
// declared ones in all scopes: 10,000 of them took a second. What each of them is stays so.
func TestManyScopes(t *testing.T) {
	many := strings.Repeat
	for script, want := range map[string]string{
		"begin { " + many("{ let $a; $a = 1; } ", 3) + "}":                         "",
		"begin { $a = 1; { $b = 1; { $a = 2; } print($a); } print($b); }":          "ERROR Undefined or undeclared variable: $b",
		"begin { { let $a; } { let $a; $a = 1; } { $a = 1; print($a); } }":         "WARNING Variable $a was never assigned to.",
		"begin { { $a = 1; } let $a; $a = 2; print($a); }":                         "",
		"begin { { let $a; let $b; $b = 1; } }":                                    "WARNING Variable $a was never assigned to.",
		"begin { for ($i : 0..2) { $a = $i; } for ($i : 0..2) { print($a); } }":    "ERROR Undefined or undeclared variable: $a",
		"begin { " + many("if (pid) { ", 200) + "return; " + many("} ", 200) + "}": "",
	} {
		if got, _ := check(t, script); got != want {
			t.Errorf("%.70s: said is %q, want %q", script, got, want)
		}
	}
}
