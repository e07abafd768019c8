package fold_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// folded returns the folded expression and the messages about it.
func folded(t *testing.T, x string) (text, said string) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte("begin { $r = "+x+"; }"), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	fold.File(f, func(_ syntax.Node, _ syntax.Severity, msg string) { said += msg })
	_, text, _ = strings.Cut(string(syntax.Dump(f)), "$r = ")
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(text, ";"), said
}

func TestFold(t *testing.T) {
	for _, test := range []struct{ x, want string }{
		{"1 + 2 * 3", "7"},
		{"2 - 5", "-3"},
		{"-9223372036854775807 - 1", "-9223372036854775808"},
		{"9223372036854775807 + 1", "9223372036854775808"},
		{"-2 * -3", "6"},
		{"-7 / 2", "-3"},
		{"-7 % 4", "-3"},
		{"~0", "18446744073709551615"},
		{"~(-1)", "0"},
		{"!5", "false"},
		{"1 << 63", "9223372036854775808"},
		{"-8 >> 1", "-4"},
		{"-1 < 1", "true"},
		{"1 == 1 && 2 > 1", "true"},
		{`"abc" + 1`, `"bc"`},
		{`"ab" + "cd"`, `"abcd"`},
		{`"a" < "b"`, "true"},
		{`"abc"[1]`, "98"},
		{`str(12)`, `"12"`},
		{`str("hello", 2)`, `"he"`},
		{`(1, "a") == (1, "a")`, "true"},
		{`(1, (2, 3)) != (1, (2, 4))`, "true"},
		{`(a = 1, b = 2) == (b = 2, a = 1)`, "true"},
		{"(1, 2).1", "2"},
		{"true ? 1 : 2", "1"},
		{"comptime (1 + 1)", "2"},
		{"true ^ true", "false"},
		{"$x + 1", "$x + 1"},
	} {
		if got, said := folded(t, test.x); got != test.want || said != "" {
			t.Errorf("%s is %s, want %s %s", test.x, got, test.want, said)
		}
	}
}

func TestErrors(t *testing.T) {
	const overflow = "unable to fold literals due to overflow or underflow"
	for _, test := range []struct{ x, want string }{
		{"0xffffffffffffffff + 1", overflow},
		{"0xffffffffffffffff * 2", overflow},
		{"0 - 0xffffffffffffffff", overflow},
		{"-9223372036854775807 - 2", overflow},
		{"1 / 0", overflow},
		{"1 % 0", overflow},
		{"1 << 64", overflow},
		{"-1 + 0xffffffffffffffff", overflow},
		{"-0xffffffffffffffff", "negative value will underflow"},
		{`"a" * "b"`, "illegal literal operation with strings"},
		{`"abc" + 5`, "literal string will always be empty"},
		{"true / false", overflow},
	} {
		if _, said := folded(t, test.x); said != test.want {
			t.Errorf("%s: %q, want %q", test.x, said, test.want)
		}
	}
}
