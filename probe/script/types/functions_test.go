package types_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/syntax"
)

// TestFunctions: calls of the script's own functions.
func TestFunctions(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"result", `fn f($x : int64): int16 { return 1; } begin { @ = f(pid); }`, "int16"},
		{"before", `begin { @ = f("ab"); } fn f($s : string[10]): string[10] { return $s; }`, "string[10]"},
		{"chain", `fn g(): int64 { return 1; } fn f(): int64 { return g(); } begin { @ = f(); }`, "int64"},
		{"missing", `fn f($x : int64): int64 { return 1; } begin { @ = f(); }`, "Function `f` requires 1 arguments, got only 0"},
		{"kind", `fn f($x : int64): int64 { return 1; } begin { @ = f("a"); }`, "Expected int64 for argument `$x` got string[2]"},
		{"wide", `fn f($x : int8): int64 { return 1; } begin { @ = f(300); }`, "Function `f` requires arguments (int8)"},
		{"void", `fn f(): void { } begin { $x = f(); }`, "Value 'void' cannot be assigned to a scratch variable."},
		{"itself", `fn f(): int64 { return f(); }`, "Recursive function call detected. Call chain: f > f"},
		{"circle", `fn f(): int64 { return g(); } fn g(): int64 { return f(); }`, "Call chain: f > g > f"},
		{"twice", `fn f(): void { } fn f(): void { }`, "Redefinition of function: f"},
		{"unknown", `begin { g(); }`, "Unknown function: 'g'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := check(test.script, nil)
			if err != nil {
				if !strings.Contains(syntax.ErrorText(err), test.want) {
					t.Errorf("error is\n%s\nwant %q", syntax.ErrorText(err), test.want)
				}
				return
			}
			if _, v := p.Map("@"); v.String() != test.want {
				t.Errorf("@ is %v, want %q", v, test.want)
			}
		})
	}
}
