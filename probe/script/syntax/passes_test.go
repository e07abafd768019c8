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
		t.Fatal(Text(err))
	}
	return f
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"hygiene", "macro add($x, y) { $t = y; $x += $t; $x } begin { $t = 1; add($t, 2); }",
			"begin\n{\n  $t = 1;\n  {\n    $$add_$t = 2;\n    $t += $$add_$t;\n    $t\n  }\n}\n"},
		{"nested", "macro a(x) { $i = x; $i } macro b(x) { $i = a(x); $i } begin { _ = b(1); }",
			"begin\n{\n  _ = {\n        $$b_$i = {\n                   $$a_2_$i = 1;\n                   $$a_2_$i\n                 };\n        $$b_$i\n      };\n}\n"},
		{"map", "macro put(@m, k) { @m[k] = 1; } begin { put(@a, pid); }",
			"begin\n{\n  { @a[pid] = 1; }\n}\n"},
		{"name", "macro one() { 1 } begin { _ = one + one(); }",
			"begin\n{\n  _ = ({ 1 }) + ({ 1 });\n}\n"},
		{"copy", "macro two(x) { x } begin { two($a); }", "begin\n{\n  { { $a } }\n}\n"},
		{"overload", "macro f($x) { 1 } macro f(@x) { 2 } macro f(x) { 3 } begin { f($a); f(@b); f(4); }",
			"begin\n{\n  { 1 }\n  { 2 }\n  { 3 }\n}\n"},
		{"type", "macro uint8() { 1 } macro n(x) { sizeof(x) } begin { _ = sizeof(uint8) + n(5); }",
			"begin\n{\n  _ = sizeof(uint8) + ({ sizeof(5) });\n}\n"},
		{"define", "#define A (B + 1)\n#define B 2\n#define F(x) x\nbegin { _ = A; F(1); }",
			"#define A (B + 1)\n#define B 2\n#define F(x) x\nbegin\n{\n  _ = 2 + 1;\n  F(1);\n}\n"},
		{"other", "begin { f(g); }", "begin\n{\n  f(g);\n}\n"},
		{"function", "macro one() { 1 } fn f() : int8 { return one; }", "fn f() : int8\n{\n  return ({ 1 });\n}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parsed(t, c.in)
			if err := Expand(f, nil); err != nil {
				t.Fatal(Text(err))
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
		{"recursion", "macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }",
			"stdin:1:34-38: ERROR: Recursive macro call detected. Call chain: a > b > a\n" +
				"macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }\n" +
				"                                 ~~~~\n" +
				"stdin:1:14-18: ERROR: expanded from\n" +
				"macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }\n" +
				"             ~~~~\n" +
				"stdin:1:49-53: ERROR: expanded from\n" +
				"macro a(x) { b(x) } macro b(x) { a(x) } begin { a(1); }\n" +
				"                                                ~~~~\n"},
		{"twice", "macro a() { 1 } macro a() { 2 } begin { }",
			"stdin:1:17-24: ERROR: Redefinition of macro: a\n" +
				"macro a() { 1 } macro a() { 2 } begin { }\n" +
				"                ~~~~~~~\n" +
				"stdin:1:1-8: ERROR: This is the original definition.\n" +
				"macro a() { 1 } macro a() { 2 } begin { }\n" +
				"~~~~~~~\n"},
		{"kind", "macro a($x) { 1 } begin { a(@m); }", "stdin:1:29-31: ERROR: Mismatched arg. a() expects a variable " +
			"for arg $x but got a map."},
		{"map", "macro a(@x) { 1 } begin { a($m); }", "expects a map for arg @x but got a variable."},
		{"expression", "macro a(@x) { 1 } begin { a(1); }", "expects a map for arg @x but got an expression."},
		{"number", "macro a(x) { 1 } begin { a(1, 2); }", "The closest definition of a() has a different number of " +
			"arguments. Expected: 1 but got 2"},
		{"same", "macro a($x, $x) { 1 } begin { }", "Variable for macro argument has already been used: $x"},
		{"hygiene", "macro a() { @x = 1; } begin { a(); }", "Unhygienic access to map: @x. Maps must be passed into the " +
			"macro as arguments."},
		{"shadow", "macro a($x) { let $x; } begin { a($y); }", "Variable declaration shadows macro arg $x"},
		{"define", "#define A B\n#define B A + 1\nbegin { A; }",
			"B:1:1-2: ERROR: Macro recursion: A->B\nA + 1\n~\nA:1:1-2: ERROR: expanded from\nB\n~\n" +
				"stdin:3:9-10: ERROR: expanded from\nbegin { A; }\n        ~\n"},
		{"statement", "#define A { x\nbegin { A; }", "stdin:2:9-10: ERROR: unable to expand macro as an expression: {x\n"},
		{"deep", deepMacros(), "more than 100 macros call each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Expand(parsed(t, c.in), nil)
			if err == nil || !strings.Contains(Text(err), c.want) {
				t.Errorf("got\n%swant\n%s", Text(fmt.Errorf("%w", err)), c.want)
			}
		})
	}
	f := parsed(t, "macro cpu(x) { x } begin { cpu(1); cpu(); }")
	if err := Expand(f, &ExpandOptions{Builtin: func(n string) bool { return n == "cpu" }}); err != nil {
		t.Error(Text(err))
	}
}

func deepMacros() string {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "macro m%d() { m%d() }\n", i, i+1)
	}
	return b.String() + "macro m150() { 1 } begin { m0(); }"
}

func TestAttachPoints(t *testing.T) {
	type ap = AttachPoint
	for in, want := range map[string]ap{
		"k:f":             {Provider: "kprobe", Func: "f"},
		"kretprobe:mod:f": {Provider: "kretprobe", Target: "mod", Func: "f"},
		"k:f+0x10":        {Provider: "kprobe", Func: "f", Offset: 16},
		"u:/bin/a:f":      {Provider: "uprobe", Target: "/bin/a", Func: "f"},
		"u:/bin/a:cpp:\"f(int)\"": {
			Provider: "uprobe", Target: "/bin/a", Lang: "cpp", Func: "f(int)",
		},
		"u:/bin/a:0x1f":       {Provider: "uprobe", Target: "/bin/a", Address: 31},
		"u:/bin/a@b.c:7:3":    {Provider: "uprobe", Target: "/bin/a", File: "b.c", Line: 7, Column: 3},
		"U:/bin/a:ns:p":       {Provider: "usdt", Target: "/bin/a", Namespace: "ns", Func: "p"},
		"usdt:/bin/a:p":       {Provider: "usdt", Target: "/bin/a", Func: "p"},
		"t:sched:switch":      {Provider: "tracepoint", Target: "sched", Func: "switch"},
		"t:*open*":            {Provider: "tracepoint", Target: "*", Func: "*open*"},
		"rt:switch":           {Provider: "rawtracepoint", Target: "*", Func: "switch"},
		"rt:vmlinux:switch":   {Provider: "rawtracepoint", Target: "vmlinux", Func: "switch"},
		"i:5ms":               {Provider: "interval", Target: "us", Freq: 5000},
		"profile:hz:99":       {Provider: "profile", Target: "hz", Freq: 99},
		"p:*":                 {Provider: "profile", Target: "*"},
		"s:cpu:1e6":           {Provider: "software", Target: "cpu", Freq: 1e6},
		"h:cycles":            {Provider: "hardware", Target: "cycles"},
		"w:0x1000:8:rw":       {Provider: "watchpoint", Address: 0x1000, Len: 8, Mode: "rw"},
		"kfunc:f":             {Provider: "fentry", Func: "f"},
		"fexit:m:f":           {Provider: "fexit", Target: "m", Func: "f"},
		"f:vfs_*":             {Provider: "fentry", Target: "*", Func: "vfs_*"},
		"f:bpf:12:p":          {Provider: "fentry", Target: "bpf", Func: "p", ProgID: 12},
		"f:bpf:p":             {Provider: "fentry", Target: "bpf", Func: "p"},
		"it:task:pin":         {Provider: "iter", Func: "task", Pin: "pin"},
		"BEGIN":               {Provider: "begin"},
		"end":                 {Provider: "end"},
		"self:signal:SIGUSR1": {Provider: "self", Target: "signal", Func: "SIGUSR1"},
		"test:x":              {Provider: "test", Target: "x"},
		"slow=k:f":            {Provider: "kprobe", Label: "slow", Func: "f"},
		"k:$1":                {Provider: "kprobe", Func: "one"},
		"k:\"$1\"x$2":         {Provider: "kprobe", Func: "$1x"},
		"kprobe*:f":           {Provider: "kprobe", Func: "f"},
		"uprob*:/a:f":         {Provider: "uprobe", Target: "/a", Func: "f"},
	} {
		f := parsed(t, in+" {}")
		if err := AttachPoints(f, &AttachOptions{Params: []string{"one"}}); err != nil {
			t.Errorf("%s: %s", in, Text(err))
			continue
		}
		got := *f.Decls[0].(*Probe).Points[0]
		want.Loc, want.Text = got.Loc, got.Text
		if got != want {
			t.Errorf("%s is\n%+v, want\n%+v", in, got, want)
		}
		if err := CheckAttachPoints(f); err != nil && in != "p:*" {
			t.Errorf("%s: %s", in, Text(err))
		}
	}
	f := parsed(t, "*:vfs_read, k:b, {}")
	if err := AttachPoints(f, nil); err != nil {
		t.Fatal(Text(err))
	}
	var all []string
	for _, a := range f.Decls[0].(*Probe).Points {
		all = append(all, a.Text)
	}
	if got := strings.Join(all, " "); got != "k:b fentry:vfs_read hardware:vfs_read iter:vfs_read kprobe:vfs_read "+
		"rawtracepoint:vfs_read software:vfs_read" {
		t.Error(got)
	}
}

func TestAttachPointErrors(t *testing.T) {
	for in, want := range map[string]string{
		"x:y":                "Invalid probe type: x",
		"x*:y":               "No probe type matched for x*",
		"k":                  "kprobe probe type requires 1 or 2 arguments, found 0",
		"k:a:b:c":            "kprobe probe type requires 1 or 2 arguments, found 3",
		"k:a+1+2":            "Cannot take more than one offset",
		"k:a+x":              "Invalid offset: invalid integer: x",
		"k:a+":               "Invalid offset",
		"kr:a+1":             "Offset not allowed",
		"k:0x12":             "Probing by address requires --unsafe",
		"u:f":                "uprobe probe type requires 2 or 3 arguments, found 1",
		"ur:/a@b.c:1":        "Source code location not allowed",
		"u:/a*@b.c:1":        "Cannot use wildcards with source code location",
		"u:/a@b.c":           "Invalid uprobe arguments, expected format: uprobe:TARGET@FILE:LINE[:COL]",
		"u:/a@b.c:x":         "Invalid line number: invalid integer: x",
		"u:/a@b.c:1:x":       "Invalid column number: invalid integer: x",
		"u:/a*:1":            "Cannot use wildcards with absolute address",
		"U:p":                "usdt probe type requires 2 or 3 arguments, found 1",
		"t:a":                "tracepoint probe type requires 2 arguments, found 1",
		"rt":                 "rawtracepoint probe type requires 2 or 1 arguments, found 0",
		"i:1":                "Invalid rate of interval probe. Minimum is 1000 or 1us. Found: 1 nanoseconds",
		"i:s:x":              "Invalid rate of interval probe: invalid integer: x",
		"i":                  "interval probe type requires 1 or 2 arguments, found 0",
		"s":                  "software probe type requires 1 or 2 arguments, found 0",
		"h:a:x":              "Invalid count for hardware probe: invalid integer: x",
		"w:1:2":              "watchpoint probe type requires 3 arguments, found 2",
		"w:x:8:w":            "Invalid function/address argument: invalid integer: x",
		"w:1:x:w":            "Invalid length argument: invalid integer: x",
		"f":                  "fentry probe type requires 1 or 3 arguments, found 0",
		"f:bpf":              "the 'bpf' variant of this probe requires a bpf program name and optional bpf program id",
		"f:bpf:x:y":          "bpf program id must be a number or '*'",
		"f:a:b:c":            "Only the 'bpf' variant of this probe supports 4 arguments",
		"it":                 "iter probe type takes 2 arguments (1 optional)",
		"it:a*":              "iter probe type does not support wildcards",
		"it:a,it:b":          "iter probe only supports one attach point.",
		"begin:x":            "begin probe type requires 0 arguments, found 1",
		"self:x":             "self probe type requires 2 arguments, found 1",
		"bench":              "bench probe type requires 1 arguments, found 0",
		":a":                 "No attach points for probe",
		"k:$x":               "invalid trailing character for positional param: x. Try quoting this entire part",
		"k:$":                "positional parameter is not valid: invalid integer: ",
		"k:$1":               "too many positional parameters",
		"k:":                 "kprobes should be attached to a function or an address",
		"ur:a:b,u:a:x:b":     "unsupported language type: x",
		"usdt:a:":            "usdt probe must have a target function or wildcard",
		"t:a:":               "tracepoint probe must have a target",
		"rt:":                "rawtracepoint should be attached to a function",
		"f:":                 "fentry/fexit should specify a function",
		"it:":                "iter should specify a iterator's name",
		"p:x:1":              "x is not an accepted unit of time",
		"p:s:0":              "profile frequency should be a positive integer",
		"p::1":               "profile probe must have unit of time",
		"s:":                 "software probe must have a software event name",
		"s:x":                "x is not a software probe",
		"h:*":                "wildcards are not allowed for hardware probe type",
		"w:0:3:rr":           "watchpoint must be attached to a non-zero address",
		"w:1:3:rr":           "watchpoint length must be one of (1,2,4,8)",
		"w:1:8:ww":           "watchpoint modes may not be duplicated",
		"w:1:8:r":            "invalid watchpoint mode: r\nw:1:8:r {}\n~~~~~~~\nHINT: supported modes: rw,w,x\n",
		"w:1:8:q":            "watchpoint mode must be combination of (r,w,x)",
		"self:x:y":           "x is not a supported trigger",
		"self:signal:SIGHUP": "SIGHUP is not a supported signal",
		"test:":              "test probes must have a name",
		"test:a {} test:a":   "\"a\" was used as the name for more than one TEST probe",
	} {
		f := parsed(t, in+" {}")
		err := AttachPoints(f, &AttachOptions{Params: []string{"$1"}})
		if err == nil {
			err = CheckAttachPoints(f)
		}
		if err == nil || !strings.Contains(Text(err), "ERROR: "+want) {
			t.Errorf("%s: want %q, got\n%s", in, want, Text(fmt.Errorf("%w", err)))
		}
	}
	f := parsed(t, ":a {} u:f {} U:p {} u:cpp:f {} k:0x10 {}")
	if err := AttachPoints(f, &AttachOptions{MayMiss: true, Process: true, Unsafe: true}); err != nil {
		t.Error(Text(err))
	}
}

func TestSetParams(t *testing.T) {
	f := parsed(t, "begin { f($1, $2, $3, $4, $5, $#, str($1), str($2 + 3), str($5), $6); }")
	warnings := SetParams(f, []string{"12", "word", "-5", "0x10", "", "-9223372036854775809"})
	want := "begin\n{\n  f(12, \"word\", -5, 16, 0, 6, str(\"12\"), str(\"word\" + 3), str(\"\"), \"-9223372036854775809\");\n}\n"
	if got := string(Dump(f)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(warnings) != 1 || warnings[0].Severity != SeverityWarning ||
		!strings.HasPrefix(warnings.String(), "stdin:1:27-29: WARNING: Positional parameter $5 is empty or not provided. \n") {
		t.Errorf("%s", warnings)
	}
	if warnings.err() != nil {
		t.Error("a warning is an error")
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"#ifdef A\n#define X 1\n#else\n#define X 2\n#endif", "X 1"},
		{"#ifndef A\n#define X 1\n#else\n#define X 2\n#endif", "X 2"},
		{"#if 0\n#define X 1\n#elif defined(B) || defined A\n#define X 2\n#else\n#define X 3\n#endif", "X 2"},
		{"#define V 5\n#if V * 2 >= 10 && !(V & 2) && -V < ~0\n#define X 1\n#endif", "V 5,X 1"},
		{"#define V 1\n#undef V\n#undef A\n#if defined(V) || defined(A)\n#define X 1\n#endif", "V 1"},
		{"#if 1\n# if 0\n#define X 1\n# else\n#define X 2\n# endif\n#define Y\n#endif", "X 2,Y "},
		{"#if 0\n#ifdef A\n#define X 1\n#else\n#define X 2\n#endif\n#endif", ""},
		{"#if 1 ? 0 : 1\n#define X 1\n#endif\n#if (2 - 1) == 1 | 0\n#define Y 1\n#endif", "Y 1"},
	} {
		f, err := Parse("stdin", []byte(c.in+"\nbegin {}"), &Options{Defined: func(n string) bool { return n == "A" }})
		if err != nil {
			t.Fatal(Text(err))
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
		_, err := Parse("stdin", []byte(in+"\nbegin {}"), &Options{Defined: func(string) bool { return false }})
		if err == nil || !strings.HasPrefix(Text(err), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
		if _, err := Parse("stdin", []byte(in+"\nbegin {}"), nil); err != nil {
			t.Errorf("%q is evaluated: %s", in, Text(err))
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
	if want := "File Probe AttachPoint Builtin Block Assign MapAccess Map Integer Binary Variable Integer ExprStmt If None"; strings.Join(got, " ") != want {
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
	if got, want := string(Dump(c)), "k:f\n/pid/\n{\n  @[10] = $x + 20;\n  if 30 {\n    f(40);\n  }\n}\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if Equal(f, c) || string(Dump(f)) == string(Dump(c)) {
		t.Error("the original is changed")
	}
	if !Equal(nil, nil) || Equal(f, nil) {
		t.Error("nil")
	}
}
