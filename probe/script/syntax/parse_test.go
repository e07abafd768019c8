package syntax

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// shape is a tree as one line: types, their texts, and children in parentheses.
func shape(n Node) string {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax."))
	switch n := n.(type) {
	case *Integer:
		fmt.Fprintf(&b, " %d", n.Value)
	case *Boolean:
		fmt.Fprintf(&b, " %v", n.Value)
	case *Param:
		fmt.Fprintf(&b, " %d", n.N)
	case *Element:
		fmt.Fprintf(&b, " %d", n.N)
	case *Type:
		b.WriteString(" " + n.Kind)
	case *Offsetof:
		fmt.Fprintf(&b, " %q", n.Fields)
	}
	if name := nameOf(n); name != "" {
		fmt.Fprintf(&b, " %s", name)
	}
	var parts []string
	n.children(func(n Node) Node {
		parts = append(parts, shape(n))
		return nil
	})
	if len(parts) > 0 {
		b.WriteString("(" + strings.Join(parts, ", ") + ")")
	}
	return b.String()
}

func TestParseExpressions(t *testing.T) {
	for in, want := range map[string]string{
		"1 + 2 * 3": "Binary +(Integer 1, Binary *(Integer 2, Integer 3))",
		"1 - 2 - 3": "Binary -(Binary -(Integer 1, Integer 2), Integer 3)",
		"1 | 2 ^ 3 & 4": "Binary |(Integer 1, Binary ^(Integer 2, Binary &(Integer 3, " +
			"Integer 4)))",
		"1 << 2 < 3 == true": "Binary ==(Binary <(Binary <<(Integer 1, Integer 2), Integer 3), " +
			"Boolean true)",
		"pid || tid && cpu": "Binary ||(Builtin pid, Binary &&(Builtin tid, Identifier cpu))",
		"(uint8)-1 + 2":     "Binary +(Cast(TypeOf(Type  uint8), Unary -(Integer 1)), Integer 2)",
		"(struct a **)arg0": "Cast(TypeOf(Type *(Type *(Type struct a))), Builtin arg0)",
		"(int8[4])$x":       "Cast(TypeOf(Type [](Type  int8)), Variable $x)",
		"(pid) + 1":         "Binary +(Builtin pid, Integer 1)",
		"a->b.c[1].0":       "Element 0(Index(Field c(Field b(Identifier a)), Integer 1))",
		"&$x & &@m":         "Binary &(Addr(Variable $x), Addr(Map @m))",
		"*$p++":             "Unary *(Unary ++(Variable $p))",
		"@[1,2]":            "MapAccess(Map @, Tuple(Integer 1, Integer 2))",
		"(1,)":              "Tuple(Integer 1)",
		"(a=1, b=(2,3))": "Record(NamedArg a(Integer 1), NamedArg b(Tuple(Integer 2, " +
			"Integer 3)))",
		"()":                      "Tuple",
		"1 ? 2 : 3 ? 4 : 5":       "If(Integer 1, Integer 2, If(Integer 3, Integer 4, Integer 5))",
		"1 ?: 2":                  "If(Integer 1, Integer 2)",
		"if pid { 1 } else { 2 }": "If(Builtin pid, Block(Integer 1), Block(Integer 2))",
		"{ $a = 1; $a }":          "Block(Assign(Variable $a, Integer 1), Variable $a)",
		"sizeof(struct a)":        "Sizeof(Type struct a)",
		"sizeof(uint64)":          "Sizeof(Type  uint64)",
		"sizeof(name)":            "Sizeof(Identifier name)",
		"sizeof($x + 1)":          "Sizeof(Binary +(Variable $x, Integer 1))",
		"offsetof(struct a, b.c)": `Offsetof ["b" "c"](Type struct a)`,
		"typeinfo(@m)":            "TypeInfo(TypeOf(Map @m))",
		"comptime f(1)":           "Comptime(Call f(Integer 1))",
		`"a\x41\101\n" "`:         "",
		"$1 + $#":                 "Binary +(Param 1, ParamCount)",
		"f({ 1 }, arg12)":         "Call f(Block(Integer 1), Builtin arg12)",
		"argument":                "Identifier argument",
		"1e3 + 0x1_0 + 5ms + 010": "Binary +(Binary +(Binary +(Integer 1000, Integer 16), Integer " +
			"5000000), Integer 8)",
		"(typeof($x))1": "Cast(TypeOf(Variable $x), Integer 1)",
	} {
		f, err := Parse("stdin", []byte("begin { _ = "+in+"; }"), nil)
		if want == "" {
			if err == nil {
				t.Errorf("%s is accepted", in)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %s", in, ErrorText(err))
			continue
		}
		want = "File(Probe(AttachPoint begin, Block(Discard(" + want + "), None)))"
		if got := shape(f); got != want {
			t.Errorf("%s is\n%s, want\n%s", in, got, want)
		}
	}
}

func TestParseStatements(t *testing.T) {
	for in, want := range map[string]string{
		"$x += 1;":     "Assign +(Variable $x, Integer 1)",
		"$x = $x + 1;": "Assign +(Variable $x, Integer 1)",
		"$x = 1 + $x;": "Assign(Variable $x, Binary +(Integer 1, Variable $x))",
		"@m[1] <<= 2;": "Assign <<(MapAccess(Map @m, Integer 1), Integer 2)",
		"@m[1] = @m[2] - 1;": "Assign(MapAccess(Map @m, Integer 1), Binary " +
			"-(MapAccess(Map @m, Integer 2), Integer 1))",
		"$x++;":   "ExprStmt(Unary ++(Variable $x))",
		"let $x;": "VarDecl(Variable $x)",
		"let $x : uint8 = 1;": "Assign(VarDecl(Variable $x, TypeOf(Type  uint8)), " +
			"Integer 1)",
		"let $x : typeof(@m);":    "VarDecl(Variable $x, TypeOf(Map @m))",
		"while ($x) { break; }":   "While(Variable $x, Block(Jump break, None))",
		"while $x { continue }":   "While(Variable $x, Block(Jump continue, None))",
		"unroll(3) { return 1; }": "Unroll(Integer 3, Block(Jump return(Integer 1), None))",
		"for ($k : @m) { }":       "For(Variable $k, Map @m, Block(None))",
		"for $i : 0..$n { $i }": "For(Variable $i, Range(Integer 0, Variable $n), " +
			"Block(ExprStmt(Variable $i), None))",
		"if 1 { 2 } 3;": "ExprStmt(If(Integer 1, Block(Integer 2), None)), " +
			"ExprStmt(Integer 3)",
		"if 1 { 2 }": "ExprStmt(If(Integer 1, Block(ExprStmt(Integer 2), " +
			"None), None))",
		"if (1) { } else if (2) {} else {}": "ExprStmt(If(Integer 1, Block(None), If(Integer 2, " +
			"Block(None), Block(None))))",
		`import "x";`: "Import x",
		"1":           "ExprStmt(Integer 1)",
		"$x.a == 1":   "ExprStmt(Binary ==(Field a(Variable $x), Integer 1))",
	} {
		f, err := Parse("stdin", []byte("begin { "+in+" }"), nil)
		if err != nil {
			t.Errorf("%s: %s", in, ErrorText(err))
			continue
		}
		want = "File(Probe(AttachPoint begin, Block(" + want + ", None)))"
		if got := shape(f); got != want {
			t.Errorf("%s is\n%s, want\n%s", in, got, want)
		}
	}
}

func TestParseDeclarations(t *testing.T) {
	const none = ", Block(None))"
	for in, want := range map[string]string{
		"k:a, k:b{}":       "Probe(AttachPoint k:a, AttachPoint k:b" + none,
		"u:/a/b:c /1/ {}":  "Probe(AttachPoint u:/a/b:c, Integer 1" + none,
		`usdt:"a b,{":c{}`: `Probe(AttachPoint usdt:"a b,{":c` + none,
		"k:f/*c*/{}":       "Probe(AttachPoint k:f/*c*/" + none,
		"k:f /* c */ {}":   "Probe(AttachPoint k:f" + none,
		"u:a@b.c:1:2 / 6 / 2 == 3 / {}": "Probe(AttachPoint u:a@b.c:1:2, Binary ==(Binary /(Integer " +
			"6, Integer 2), Integer 3)" + none,
		"struct:x {}":               "Probe(AttachPoint struct:x" + none,
		"struct a { int b; };":      "C struct a { int b; };",
		"enum a { A /* } */ } // c": "C enum a { A /* } */ };",
		"#define A 1":               "C #define A 1",
		"config = { a = b; c = 1 }": "Config(ConfigVar a(String b), ConfigVar c(Integer 1))",
		`import "a";`:               "Import a",
		"let @a = hash(1_0);":       "MapDecl @a",
		"macro a($b, @c, d) { 1 }":  "Macro a(Variable $b, Map @c, Identifier d, Block(Integer 1))",
		"fn a($b : struct c) : void { 1 }": "Func a(FuncArg(Variable $b, TypeOf(Type struct c)), " +
			"TypeOf(Type  void), " +
			"Block(ExprStmt(Integer 1), None))",
		"#!/usr/bin/bt\nbegin{}": "Probe(AttachPoint begin" + none,
	} {
		f, err := Parse("stdin", []byte(in), nil)
		if err != nil {
			t.Errorf("%s: %s", in, ErrorText(err))
			continue
		}
		if got := shape(f); !strings.HasSuffix(got, "("+want+")") {
			t.Errorf("%s is\n%s, want\n%s", in, got, want)
		}
	}
}

// TestErrors: what a drop-in has to print. The places are as important as the words.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"begin { 1 2 }", "stdin:1:11-12: ERROR: syntax: expected ';'\nbegin { 1 2 }\n          ~\n"},
		{"begin {", "stdin:1:8-8: ERROR: syntax: expected '}'\nbegin {\n       \n"},
		{"", ""},
		{
			"begin\n\t{ $x = ; }",
			"stdin:2:9-10: ERROR: syntax: expected expression\n    { $x = ; }\n           ~\n",
		},
		{`begin { "a` + "\n" + `" }`, "stdin:2:1-2: ERROR: syntax: unterminated string"},
		{`begin { "\q" }`, "stdin:1:11-12: ERROR: syntax: invalid escape character '\\q'"},
		{`begin { "\400" }`, "stdin:1:10-14: ERROR: syntax: octal escape sequence out of range '\\400'"},
		{"begin { 1_ }", "stdin:1:10-11: ERROR: syntax: trailing underscore in integer literal"},
		{"begin { 1x }", "stdin:1:10-11: ERROR: syntax: invalid integer suffix 'x'"},
		{"begin { 1 = 2; }", "stdin:1:11-12: ERROR: syntax: expected ';'"},
		{
			"begin { $x.a = 2; }",
			"stdin:1:9-17: ERROR: syntax: Tuples and records are immutable once created.",
		},
		{
			"begin { 5++; }",
			"stdin:1:10-12: ERROR: syntax: increment/decrement requires a variable or map",
		},
		{
			"begin { &1; }",
			"stdin:1:10-11: ERROR: syntax: address-of operator (&) can only be used on a map or variable",
		},
		{
			"begin { $0; }",
			"stdin:1:9-11: ERROR: syntax: param $0 is out of integer range [1, 9223372036854775807]",
		},
		{
			"begin { (a=1, a=2); }",
			"stdin:1:15-18: ERROR: syntax: Named argument list already contains name: a",
		},
		{
			"begin {} #define A",
			"stdin:1:10-19: ERROR: syntax: C definitions must appear before probes and functions",
		},
		{
			"begin {} config = { }",
			"stdin:1:10-16: ERROR: syntax: config must appear before probes and functions",
		},
		{"config = {} config = {}", "stdin:1:13-19: ERROR: syntax: duplicate config block"},
		{"config = { a = 1 b = 2 }", "stdin:1:18-19: ERROR: syntax: expected ';'"},
		{
			"macro m(pid) {}",
			"stdin:1:9-12: ERROR: syntax: builtin 'pid' can't be used as a macro argument",
		},
		{"let $x;", "stdin:1:1-4: ERROR: syntax: root-level let statements need to be map declarations"},
		{"k:f / 1 {}", "stdin:1:9-10: ERROR: syntax: expected '/' to close predicate"},
		{"fn f($a) : int8 {}", "stdin:1:8-9: ERROR: syntax: expected ':'"},
		{"begin { for ($i : 1) {} }", "stdin:1:22-23: ERROR: syntax: expected map or range in for loop"},
		{
			"begin { 99999999999999999999; }",
			"stdin:1:9-29: ERROR: syntax: overflow error, maximum value is 18446744073709551615: " +
				"99999999999999999999",
		},
		{
			"struct a { int b; } __attribute__(packed);",
			"stdin:1:34-35: ERROR: syntax: __attribute__ syntax error, expected '(('",
		},
		{`import "x"`, "stdin:1:11-11: ERROR: syntax: expected ';' after import"},
		{"begin { 1; \x00 }", "stdin:1:12-13: ERROR: syntax: expected expression"},
	} {
		_, err := Parse("stdin", []byte(c.in), nil)
		switch {
		case c.want == "":
			if err != nil {
				t.Errorf("%q: %s", c.in, ErrorText(err))
			}
		case err == nil:
			t.Errorf("%q is accepted, want\n%s", c.in, c.want)
		case !strings.HasPrefix(ErrorText(err), c.want):
			t.Errorf("%q:\n%swant\n%s", c.in, ErrorText(err), c.want)
		}
	}
}

func TestErrorValues(t *testing.T) {
	_, err := Parse("a.bt", []byte("begin { f(1 2; 3 4 }"), nil)
	es, ok := errors.AsType[Errors](err)
	if !ok || len(es) < 2 {
		t.Fatalf("%v", err)
	}
	first, ok := errors.AsType[*Error](err)
	if !ok || first != es[0] || first.Severity != SeverityError {
		t.Error("the errors do not unwrap")
	}
	if want := fmt.Sprintf("%s (and %d more)", es[0], len(es)-1); !strings.HasPrefix(want,
		"a.bt:1:13-14") {
		t.Errorf("%q", want)
	}
	if got, want := err.Error(), "a.bt:1:13-14: syntax: expected ')' (and 1 more)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Errors{}).Error(); got != "no errors" {
		t.Error(got)
	}
	if got := ErrorText(os.ErrNotExist); got != "ERROR: file does not exist\n" {
		t.Errorf("%q", got)
	}
	if got := ErrorText(fmt.Errorf("open: %w", first)); got != first.String() {
		t.Errorf("%q", got)
	}
}

func TestLocations(t *testing.T) {
	for _, f := range scripts(t) {
		checkLocations(t, f, len(f.In.Content))
		for n := range All(f) {
			if v, ok := n.(*Variable); ok && v.At().Text() != v.Name {
				t.Errorf("%s is at %q", v.Name, v.At().Text())
			}
		}
	}
	s := NewText("a", "b\ncd\n")
	for offset, want := range map[int][2]int{0: {1, 1}, 1: {1, 2}, 2: {2, 1}, 4: {2, 3}, 5: {3, 1}} {
		if l, c := s.Position(offset); l != want[0] || c != want[1] {
			t.Errorf("%d is %d:%d, want %v", offset, l, c, want)
		}
	}
	l := Loc{In: s, Start: 0, End: 4}
	if got := l.String(); got != "a:1-2" {
		t.Error(got)
	}
	e := &Error{Loc: l, Msg: "x", Hints: []string{"y"}}
	if got, want := e.String(), "a:1-2: ERROR: x\nb\ncd\nHINT: y\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&Loc{}).String() + (&Loc{}).Text(); got != "-" {
		t.Error(got)
	}
}

// TestClone: a copy is the same, and shares no node.
func TestClone(t *testing.T) {
	for file, f := range scripts(t) {
		c := Clone(f)
		if !Equal(f, c) || !bytes.Equal(Format(f), Format(c)) {
			t.Errorf("%s: the copy is another one", file)
		}
		mine := map[Node]bool{}
		for n := range All(f) {
			if mine[n] {
				t.Errorf("%s: %T is in the tree twice", file, n)
			}
			mine[n] = true
		}
		for n := range All(c) {
			if mine[n] {
				t.Errorf("%s: %T is shared", file, n)
			}
		}
	}
}

func TestParseInteger(t *testing.T) {
	for in, want := range map[string]uint64{
		"0": 0, "1_000": 1000, "0x1F": 31, "0b101": 5, "0B1": 1, "017": 15, "1e6": 1e6,
		"5e1_0": 5e10,
		"3us":   3000, "2ms": 2e6, "1s": 1e9, "1m": 60e9, "1h": 3600e9, "1d": 86400e9, "7ns": 7, "1u": 1,
		"1ull": 1, "9223372036854775807l": 1<<63 - 1, "18446744073709551615": 1<<64 - 1,
		"0xffffffffffffffff": 1<<64 - 1,
	} {
		if got, err := ParseInteger(in); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":     "invalid integer: ",
		"x":    "invalid integer: x",
		"12e3": "coefficient part of scientific literal must be 1-9: 12e3",
		"1e99": "overflow error, maximum value is 18446744073709551615: 1e99",
		"18446744073709551616": "overflow error, maximum value is 18446744073709551615: " +
			"18446744073709551616",
		"5000000000u": "overflow error, maximum value is 4294967295: 5000000000u",
		"1e0":         "invalid trailing bytes: 1e0",
		"5x":          "invalid trailing bytes: 5x",
		"0999":        "invalid trailing bytes: 0999", // an octal 0, as for strtoull
		"300000d":     "overflow error, maximum value is 18446744073709551615: 300000d",
	} {
		if got, err := ParseInteger(in); err == nil || err.Error() != want {
			t.Errorf("%s is %d, %v, want %s", in, got, err, want)
		}
	}
}
