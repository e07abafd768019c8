package expr_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool/expr"
)

var (
	function   = probe.Kprobe{Symbol: "vfs_read"}
	tracepoint = probe.Tracepoint{Group: "sched", Name: "sched_switch"}
)

// Parsed expressions print as the same expressions of package action.
func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"1 + 2 * 3":                       "(1 + (2 * 3))",
		"(1 + 2) * 3":                     "((1 + 2) * 3)",
		"1 - 2 - 3":                       "((1 - 2) - 3)",
		"arg0 == 0x10 && pid != 7":        "((arg0 == 16) && (pid != 7))",
		"arg0 & 3":                        "(arg0 & 3)",
		"retval < 0 || !arg1":             "((retval < 0) || !(arg1 != 0))",
		`comm == "cat"`:                   `(comm == "cat")`,
		"-arg0 >> 3":                      "(-arg0 >> 3)",
		"arg0 > 1 ? 2 : 3":                "((arg0 > 1) ? 2 : 3)",
		"args.count":                      "args.count",
		"(struct sock *)arg0":             "(ptr(void))arg0", // the name is Expr.Str
		"((struct sock *)arg0)->a.b->c":   "(ptr(void))arg0->a.b->c",
		"(u16)arg0":                       "(u16)arg0",
		"(arg0)":                          "arg0",
		"args.file->f_path.dentry":        "args.file->f_path.dentry",
		"arg0[2]":                         "arg0[2]",
		"str(arg0)":                       "str(arg0, 64)",
		"str(arg0, 15)":                   "str(arg0, 16)",
		"str(arg0, arg1)":                 "str(arg0, arg1, 64)",
		"str(arg0, arg1 + 1, 127)":        "str(arg0, (arg1 + 1), 128)",
		`contains(comm, "x") && arg0 < 9`: `(contains(comm, "x") && (arg0 < 9))`,
		"1 < 2 == 3 > 4":                  "((1 < 2) == (3 > 4))",
		"arg0 & 1 == 1":                   "(arg0 & (1 == 1))", // C's own precedence
		"nsecs % 1000":                    "(nsecs % 1000)",
		"18446744073709551615 == arg0":    "(18446744073709551615 == arg0)",
		"\targ0\n+ arg1 ":                 "(arg0 + arg1)",
		"bswap(arg0)":                     "bswap(arg0)",
		strings.Repeat("(", 40) + "1" + strings.Repeat(")", 40): "1",
	} {
		e, err := expr.Parse(in, function)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := e.String(); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

// The errors for mistakes have their place.
func TestSyntaxError(t *testing.T) {
	for in, want := range map[string]int{
		"":                       0,
		"1 +":                    3,
		"arg0 ==":                7,
		"(arg0":                  5,
		"nothing > 1":            0,
		"1 > count":              4,
		"args":                   4,
		"frob(1)":                0,
		`"x`:                     0,
		"1 $ 2":                  2,
		"str(arg0, x)":           10,
		"str(arg0, 0)":           10,
		"str(arg0, 1024)":        10,
		"str(arg0, comm, 4)":     10,
		"str(arg0, 4, arg1)":     11,
		"str(arg0, arg1, arg2)":  16,
		"str(arg0, arg1, 2000)":  16,
		"contains(comm,1)":       14,
		"0x":                     0,
		"12ab":                   0,
		"1,2":                    3,
		"arg0->":                 6,
		strings.Repeat("(", 200): 50,
	} {
		_, err := expr.Parse(in, function)
		var se *expr.SyntaxError
		if !errors.As(err, &se) || se.Offset != want {
			t.Errorf("%q: %v, want a mistake at %d", in, err, want)
		}
	}
}

// Names are fields of a tracepoint, and arguments of a function.
func TestTarget(t *testing.T) {
	for target, want := range map[probe.Target]ir.Op{function: ir.OpArg, tracepoint: ir.OpField} {
		e, err := expr.Parse("args.prev_pid", target)
		if err != nil || e.Op != want {
			t.Errorf("%v: %v, %v", target, e, err)
		}
	}
}

// TestUserMemory: what a number is cast to in a user probe was memory of the kernel's.
func TestUserMemory(t *testing.T) {
	user := probe.Uprobe{Path: "/bin/sh", Symbol: "f"}
	for _, target := range []probe.Target{user, probe.Uretprobe{Path: "/bin/sh"}, probe.USDT{Path: "/bin/sh"}, probe.Set{user}, function, tracepoint} {
		e, err := expr.Parse("(struct sockaddr *)arg0", target)
		if want := target != function && target != tracepoint; err != nil || e.Type.User != want {
			t.Errorf("%v: %v, %v, want user memory: %t", target, e, err, want)
		}
	}
}

func TestParseSpec(t *testing.T) {
	for in, want := range map[string]string{
		"vfs_read":                          "kprobe:vfs_read||",
		"vfs_read /arg2 > 10/":              "kprobe:vfs_read|arg2 > 10|",
		`k:vfs_* /arg2 /2 > 9/ "%d", arg2`:  `kprobe:vfs_*|arg2 /2 > 9|"%d", arg2`,
		`uprobe:"/a b":f  args.x, arg1/2`:   `uprobe:"/a b":f||args.x, arg1/2`,
		`t:sched:sched_switch /pid == 1/ 5`: "tracepoint:sched:sched_switch|pid == 1|5",
	} {
		s, err := expr.ParseSpec(in, 0)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := fmt.Sprintf("%v|%s|%s", s.Target, s.FilterText, s.Rest); got != want || (s.Filter != nil) != (s.FilterText != "") {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"":                    "want a probe: TARGET [/FILTER/] [REST]",
		"no:such:kind":        "unknown kind",
		"vfs_read /arg2":      `"vfs_read /arg2": column 10: the filter that begins here has no end`,
		"vfs_read /arg2 >/ x": "a value is wanted here",
		"vfs_read /pid = 3/":  `column 5: unexpected "=": == compares`,
		"vfs_read /pid 3/":    "column 5: an operator, a comma or the end is wanted here",
	} {
		if _, err := expr.ParseSpec(in, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want … %s …", in, err, want)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]bool{"str(arg0)": true, "comm": true, `"x"`: true, "arg0": false, `arg0 ? comm : "x"`: true} {
		e, err := expr.Parse(in, function)
		if err != nil || expr.Text(e) != want {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// Every parsed expression is plain data that prints, and the place of every error is within
// the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"arg0 == 1 && comm == \"x\"", "((struct a *)arg0)->b[1]", "str(args.x, 3)", "1?2:3", "!-~*1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := expr.ParseList(s, function)
		var se *expr.SyntaxError
		if errors.As(err, &se) && (se.Offset < 0 || se.Offset > len(s)) {
			t.Errorf("%q: mistake at %d", s, se.Offset)
		}
		for _, e := range list {
			if e.String() == "" {
				t.Errorf("%q prints as nothing", s)
			}
		}
	})
}

func Example() {
	e, err := expr.Parse(`retval < 0 && comm == "cat"`, probe.Kretprobe{Symbol: "vfs_read"})
	fmt.Println(e, err)
	_, err = expr.Parse("count > 100", probe.Kprobe{Symbol: "vfs_read"})
	fmt.Println(err)
	// Output:
	// ((retval < 0) && (comm == "cat")) <nil>
	// "count > 100": column 1: count is nothing known; arguments are arg0 and args.count, builtins such as pid, comm, cpu and nsecs
}
