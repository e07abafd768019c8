package cdecl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/cdecl"
)

// TestDefines: what macros stand for.
func TestDefines(t *testing.T) {
	for text, want := range map[string]string{
		"#define A 1":                                 "A=1",
		"#define A (1 << 4) | 0x10UL":                 "A=16ul",
		"#define A":                                   "A:",
		"#define A \"x\" \"y\\n\\101\\x42\"":          `A="xy\nAB"`,
		"#define A B\n#define B 2":                    "A=2 B=2",
		"#define A B\n#define B A":                    "A:B B:A",
		"#define A A":                                 "A:A",
		"#define A 1\n#undef A\n#define B A":          "B:A",
		"#define A 1\n#define A 2":                    "A=2",
		"#define A 1\n#undef A\n#define A 3":          "A=3",
		"#define A 1 + \\\n 2 // c\n#define B A*2":    "A=3 B=5",
		"#define A struct x *":                        "A:struct x *",
		"#define A 1 +":                               "A:1 +",
		"#define A 1/0":                               "A:1/0",
		"#define A 0 && 1/0":                          "A=0",
		"#define A 1 ? 2 : 1/0":                       "A=2",
		"#define A 0 ?: 7":                            "A=7",
		"#define A 'a'":                               "A=97",
		"#define A '\\377'":                           "A=-1",
		"#define A 'ab'":                              "A=24930",
		"#define A '\\n' + '\\0' + '\\''":             "A=49",
		"#define A -1":                                "A=-1",
		"#define A ~0U":                               "A=4294967295u",
		"#define A -1 > 0U":                           "A=1",
		"#define A -1L > 0U":                          "A=0",
		"#define A 2147483647 + 1":                    "A=-2147483648",
		"#define A 2147483648":                        "A=2147483648l",
		"#define A 0x80000000":                        "A=2147483648u",
		"#define A 0xffffffffffffffff":                "A=18446744073709551615ul",
		"#define A 18446744073709551616":              "A:18446744073709551616",
		"#define A 010 + 0b11 + 0XfLLu":               "A=26ul",
		"#define A 09":                                "A:09",
		"#define A 1.5":                               "A:1.5",
		"#define A 1e3":                               "A:1e3",
		"#define A 1ulu":                              "A:1ulu",
		"#define A (unsigned char)300 + (int)-1":      "A=43",
		"#define A (u64)-1":                           "A=18446744073709551615ul",
		"#define A (_Bool)4 + !5 + !0":                "A=2",
		"#define A sizeof(struct { char a; int b; })": "A=8ul",
		"#define A _Alignof(long double)":             "A=16ul",
		"#define A 7 - 2 - 1 == 4 && 3 < 2 < 1":       "A=1",
		"#define A 1 | 6 ^ 2 & 3":                     "A=5",
		"#define A -7 / 2 * 10 + -7 % 3":              "A=-31",
		"#define A -8 >> 1":                           "A=-4",
		"#define A 1 << 32":                           "A:1 << 32",
		"#define A (-2147483647-1)/-1":                "A=-2147483648",
		"enum { E = 5 };\n#define A (E + 1)":          "A=6",
		"#define A L\"x\"":                            "A:L\"x\"",
		"#define A don't":                             "A:don' begins what does not end on its line: write another ' where it ends",
		"#ifndef A\n#define A 1\n#endif\n#pragma x\n": "A=1",
	} {
		d, err := cdecl.Parse("x.h", []byte(text), &cdecl.Options{Arch: "amd64"})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []string
		for _, m := range d.Defines {
			switch {
			case m.String:
				got = append(got, fmt.Sprintf("%s=%q", m.Name, m.Str))
			case m.Integer:
				v := m.Value
				got = append(got, fmt.Sprintf("%s=%v%s%s", m.Name, v, map[bool]string{true: "u"}[v.Unsigned], map[int]string{8: "l"}[v.Size]))
			default:
				got = append(got, m.Name+":"+m.Text)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: got %s, want %s", text, s, want)
		}
	}
}

// TestConditions checks that the conditions of each text leave only the word yes.
func TestConditions(t *testing.T) {
	for _, text := range []string{
		"#if 1\nyes\n#endif",
		"#if 0\n'no\n#else\nyes\n#endif",
		"#if 0\n#if 1\nno\n#else\nno\n#endif\n#elif 1\nyes\n#elif 1\nno\n#else\nno\n#endif",
		"#if 1\nyes\n#elif 1/0\nno\n#else\n#unknown\n#endif",
		"#ifdef A\nno\n#elif !defined A && !defined(A)\nyes\n#endif",
		"#define A B\n#ifdef A\n#ifndef B\nyes\n#endif\n#endif",
		"#define A 2\n#define B A\n#if B == 2 && A > 1 && C == 0\nyes\n#endif",
		"#if -1 < 0u\n#else\nyes\n#endif",
		"#if (2 << 40) / 2 == 0x10000000000\nyes\n#endif",
		"#if 'a' == 97 && __LP64__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__\nyes\n#endif",
		"#ifdef GIVEN\n#if GIVEN == 4\nyes\n#endif\n#endif",
		"#undef GIVEN\n#ifndef GIVEN\nyes\n#endif",
		"#define GIVEN 5\n#if GIVEN == 5\nyes\n#endif",
		"# /* c */ if 1 /* c\n */ // c\nyes\n#\n#endif extra",
		"#i\\\nf 0\nno\n#el\\\r\nse\nyes\n#endif",
		"#if 0\n/* #endif */\n\"#endif\"\n#else\nyes\n#endif",
		"#elif_is_no_directive_in_skipped" + "\n", // see below
	} {
		if strings.HasPrefix(text, "#elif_") {
			text = "#if 0\n" + text + "#endif\nyes"
		}
		text = strings.NewReplacer("yes", "enum { YES };", "no\n", "enum { NO };\n").Replace(text)
		d, err := cdecl.Parse("x.h", []byte(text), &cdecl.Options{
			Arch:  "amd64",
			Macro: func(name string) (string, bool) { return "4", name == "GIVEN" },
		})
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if len(d.Constants) != 1 || d.Constants[0].Name != "YES" {
			t.Errorf("%q: %v", text, d.Constants)
		}
	}
}

// TestInclude: texts of the caller, in which positions are their own.
func TestInclude(t *testing.T) {
	files := map[string]string{
		"a.h": "#pragma once\n#include \"b.h\"\nstruct a { struct b b; };\n",
		"b.h": "#ifndef B\n#define B\nstruct b { int x; };\n#endif",
		"c.h": "#include \"c.h\"\n",
		"d.h": "struct d {\n int;;\n oops; };",
		"e.h": "#if 1\n",
	}
	include := func(i *cdecl.Include) ([]byte, error) {
		text, ok := files[i.Name]
		if i.Name == "locked.h" {
			return nil, errors.ErrUnsupported
		}
		if !ok {
			return nil, nil
		}
		i.File = "dir/" + i.Name
		return []byte(text), nil
	}
	o := &cdecl.Options{Include: include, Line: 10, Column: 5}
	d, err := cdecl.Parse("x.bt", []byte("#define H <a.h>\n#include H\n#include \"a.h\"\n#include \"b.h\" // again\n#include <sys/x-y.h>\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range d.Includes {
		got = append(got, fmt.Sprintf("%v %s %v %v", i.Pos, i.Name, i.System, i.Read))
	}
	for _, typ := range d.Types {
		got = append(got, fmt.Sprintf("%v %s", typ.Pos, typ.Name))
	}
	want := "x.bt:11:2 a.h true true, dir/a.h:2:2 b.h false true, x.bt:12:2 a.h false true, x.bt:13:2 b.h false true, " +
		"x.bt:14:2 sys/x-y.h true false, dir/b.h:3:8 b, dir/a.h:3:8 a"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	for text, want := range map[string]string{
		`#include "c.h"`:      "dir/c.h:1:2: more than 64 files include one another: have one include itself no more",
		`#include "d.h"`:      `dir/d.h:3:2: unknown type "oops": declare it before`,
		`#include "e.h"`:      "dir/e.h:1:1: this has no #endif: write one where it ends",
		`#include "locked.h"`: `x.bt:10:6: "locked.h" can't be included: unsupported operation`,
		`#include`:            `x.bt:10:6: #include wants a file: write <name.h> or "name.h"`,
		`struct`:              "x.bt:10:11: after struct comes the end of the text, neither a name nor members: write one of them",
	} {
		if _, err := cdecl.Parse("x.bt", []byte(text), o); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestSkipCode: a header with code in it.
func TestSkipCode(t *testing.T) {
	const text = `
#define swap(a, b) do { } while (0)
static inline int f(int a)
{
	swap(a, 3); // not expanded
	if (a) { return '}'; }
	return "}"[0];
}
static const int table[] = { 1, swap(2, 3), (4) }, other = 3, last;
#define N 4
int g(void) { return N; } struct x { char a[N]; };
`
	d, err := cdecl.Parse("x.h", []byte(text), &cdecl.Options{SkipCode: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range d.Skipped {
		got = append(got, fmt.Sprintf("%v %s %s", s.Pos, s.What, s.Name))
	}
	want := "x.h:2:9 macro swap, x.h:3:19 function f, x.h:9:18 variable table, x.h:9:52 variable other, x.h:11:5 function g"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if s := members(d.Type(cdecl.Struct, "x")); s != "4; 0 char a[4]" {
		t.Error(s)
	}
}

// TestErrors: what can't be read, where, and what to do.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"struct x { int a }; struct y":                    "1:29: a name is wanted here, not the end of the text", // members may end so
		"struct x { int a; ":                              "1:8: this struct has no end: write a } after its members",
		"struct x { foo a; };":                            `1:12: unknown type "foo": declare it before`,
		"struct x { int a; int a; };":                     `1:23: there are two members "a"`,
		"struct x { int a; struct { int a; }; };":         `1:19: there are two members "a"`,
		"struct x { struct x a; };":                       `1:21: struct "x" is in itself: make it a pointer there`,
		"struct x { struct y a; };":                       `1:21: struct "y" is not defined: define it before`,
		"struct x { int a; }; struct x { int b; };":       `1:29: struct "x" is defined twice, first at x.h:1:8`,
		"struct x *a; union x *b;":                        `1:20: "x" is a union here, and a struct at x.h:1:8`,
		"struct x { int a[]; int b; };":                   `1:16: array "a" has no size, and more members after it`,
		"struct x { int a[2][]; };":                       "1:20: an array without a size can't be the element",
		"struct x { int a[-1]; };":                        "1:18: an array can't have -1 elements",
		"struct x { int a[N]; };":                         `1:18: unknown constant "N"`,
		"struct x { int a[1 / (2 - 2)]; };":               "1:20: this divides by 0",
		"struct x { int a[1 << 99]; };":                   "1:20: this shifts 32 bits by 99",
		"struct x { int a : 33; };":                       "1:16: a bit field of 33 bits has a type of 32",
		"struct x { int a : 0; };":                        `1:16: bit field "a" has no bits`,
		"struct x { float a : 3; };":                      "1:18: a bit field's type is not an integer",
		"struct x { void a; };":                           "1:17: void has no size",
		"struct x { int a(void); };":                      "1:16: a function has no size",
		"struct x { long long long a; };":                 "1:12: these words make no type",
		"struct x { unsigned struct y a; };":              `1:21: a name is wanted here, not "struct"`,
		"struct x { int int a; };":                        "1:12: these words make no type",
		"struct x { int a; } __attribute__((aligned(3)))": "1:44: an alignment can't be 3",
		"typedef int x __attribute__((mode(DI)));":        "1:30: attribute \"mode\" changes how a type is laid out",
		"typedef int x; typedef long x;":                  `1:29: typedef "x" is defined twice`,
		"typedef int;":                                    "1:1: this typedef has no name",
		"int f(void) { return 1; }":                       `1:5: function "f" has a body`,
		"int a = 3;":                                      `1:5: variable "a" has an initial value`,
		"int a int b;":                                    `1:7: after the declaration of "a" comes "int": end it by a semicolon`,
		"BEGIN { exit(); }":                               `1:1: unknown type "BEGIN"`,
		"if (a) { }":                                      `1:1: unknown type "if"`,
		"1":                                               "1:1: a declaration begins here with \"1\", which is not a type",
		"enum x { A, A };":                                `1:13: "A" is enumerated before`,
		"enum x { A = -1, B = 0xffffffffffffffff };":      "1:6: no integer holds the negative values of this enum",
		"enum x { A = 0xffffffffffffffff, B };":           `1:34: the value before "B" is the largest there is`,
		"enum x y;":                                       `1:6: enum "x" is not defined`,
		"enum { 3 };":                                     `1:8: the name of a value is wanted here, not "3"`,
		"int (*a[2)(int);":                                `1:10: after an array's size comes ")", not "]"`,
		"int f(int)[2];":                                  "1:6: a function can't return an array",
		"/* x":                                            "1:1: a comment begins here that has no end",
		"\n  struct x { char a['a]; };":                   "2:21: ' begins what does not end on its line",
		"#define f(x) x":                                  `1:9: "f" is a macro with parameters, which are not expanded`,
		"#if\n#endif":                                     "1:2: #if wants a condition",
		"#if 1 2\n#endif":                                 `1:7: after the condition comes "2"`,
		"#if 1 +\n#endif":                                 "1:7: a number is wanted here, before the end of the line",
		"#if f(1)\n#endif":                                `1:6: after the condition comes "("`,
		"#if defined(1)\n#endif":                          "1:5: \"defined\" wants a name",
		"#if 1":                                           "1:1: this has no #endif",
		"#if 0":                                           "1:1: this has no #endif",
		"#endif":                                          "1:2: #endif has no #if before it",
		"#if 0\n#else\n#else\n#endif":                     "3:2: #else comes after #else",
		"#if 1\n#else\n#elif 1\n#endif":                   "3:2: #elif comes after #else",
		"#define":                                         "1:2: #define wants a name",
		"#frobnicate":                                     `1:2: #"frobnicate" is not a known directive`,
		"#error go away":                                  `1:1: the text refuses itself: #error "go away"`,
		"#pragma pack(1)":                                 "1:2: #pragma pack changes how structs are laid out",
		"_Static_assert(0, \"x\");":                       "1:1: what is asserted here is false",
		"struct x { int a; } @":                           `1:21: a name is wanted here, not "@"`,
		"#define a b b\n#define b c c\nint a;":            `3:5: after the declaration of "c" comes "c"`,
		"struct x { char a[1 << 28]; char b; };":          "1:34: the struct is larger than 268435456 bytes here",
		"struct x { char a[1 << 20][1 << 20]; };":         "1:18: an array of 1048576 elements of 1048576 bytes is larger",
		"struct x { char a['abcde']; };":                  "1:19: \"'abcde'\" has 5 characters",
		"struct x { char a['\\q']; };":                    "1:19: \"'\\\\q'\" has an escape that is not known",
		"struct x { char a[sizeof 1]; };":                 "1:19: sizeof wants a type",
		"struct x { char a[(struct y *)1]; };":            "1:19: a constant is cast to a type that is not an integer",
		"typedef struct x y; struct z { y a; };":          `1:34: struct "x" is not defined`,
		"struct a { struct b *p; int x[sizeof(struct b)]; }; struct b { int c; };": `1:31: struct "b" is not defined`,
	} {
		_, err := cdecl.Parse("x.h", []byte(text), &cdecl.Options{Arch: "amd64"})
		var e *cdecl.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "x.h:"+want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// numbered repeats what has a number in it.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestBounds: what is too large is an error, soon.
func TestBounds(t *testing.T) {
	repeat := strings.Repeat
	bomb := "#define m0 1\n"
	for i := range 40 {
		bomb += fmt.Sprintf("#define m%d m%d + m%d\n", i+1, i, i)
	}
	chain := "typedef int t0;\n"
	for i := range 200 {
		chain += fmt.Sprintf("typedef t%d t%d;\n", i, i+1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"parentheses": {"#if " + repeat("(", 100000), "more than 64 things are in one another"},
		"negations":   {"#if " + repeat("!", 100000), "more than 64 things are in one another"},
		"conditions":  {"#if " + repeat("1 ? 1 : ", 100000), "more than 64 things are in one another"},
		"structs":     {repeat("struct {", 100000), "more than 64 things are in one another"},
		"pointers":    {"int " + repeat("*", 100000) + "x;", "more than 64 pointers and arrays"},
		"arrays":      {"int x" + repeat("[1]", 100000) + ";", "more than 64 pointers and arrays"},
		"declarators": {"int " + repeat("(", 100000) + "x;", "more than 64 things are in one another"},
		"parameters":  {"int f" + repeat("(int ", 100000) + ";", "more than 64 things are in one another"},
		"expansion":   {bomb + "enum { A = m40 };", "macros expand to more than 1048576 tokens"},
		"conditional": {bomb + "#if m40\n#endif", "macros expand to more than 1048576 tokens"},
		"typedefs":    {chain, "made of more than 128 others"},
		"size":        {repeat(" ", 16<<20+1), "have more than 16777216 bytes"},
		"members":     {"struct x { " + repeat("int : 1;", 70000) + " };", "more than 65535 members"},
		"values":      {"enum {" + numbered("a%d,", 70000) + "};", "more than 65535 values"},
		"parameters2": {"int f(" + repeat("int,", 70000) + "int);", "more than 65535 parameters"},
	} {
		_, err := cdecl.Parse("x.h", []byte(c.text), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, c.want)
		}
	}
	// A macro that is never used does no harm, however large.
	d, err := cdecl.Parse("x.h", []byte(bomb), nil)
	if err != nil || len(d.Defines) != 41 || d.Defines[8].Value.Bits != 256 || d.Defines[40].Integer {
		t.Errorf("%v", err)
	}
}
