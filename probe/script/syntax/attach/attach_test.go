package attach_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// parsed parses a script without mistakes.
func parsed(t *testing.T, src string) *syntax.File {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(src), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	return f
}

func TestParse(t *testing.T) {
	type ap = syntax.AttachPoint
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
		if err := attach.Parse(f, &attach.Options{Params: []string{"one"}}); err != nil {
			t.Errorf("%s: %s", in, syntax.ErrorText(err))
			continue
		}
		got := *f.Decls[0].(*syntax.Probe).Points[0]
		want.Loc, want.Text = got.Loc, got.Text
		if got != want {
			t.Errorf("%s is\n%+v, want\n%+v", in, got, want)
		}
		if err := attach.Check(f, &attach.Options{Arch: "amd64"}); err != nil && in != "p:*" {
			t.Errorf("%s: %s", in, syntax.ErrorText(err))
		}
	}
	f := parsed(t, "*:vfs_read, k:b, {}")
	if err := attach.Parse(f, nil); err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	var all []string
	for _, a := range f.Decls[0].(*syntax.Probe).Points {
		all = append(all, a.Text)
	}
	const want = "k:b fentry:vfs_read hardware:vfs_read iter:vfs_read kprobe:vfs_read " +
		"rawtracepoint:vfs_read software:vfs_read"
	if got := strings.Join(all, " "); got != want {
		t.Error(got)
	}
}

func TestErrors(t *testing.T) {
	for in, want := range map[string]string{
		"x:y":          "Invalid probe type: x",
		"x*:y":         "No probe type matched for x*",
		"k":            "kprobe probe type requires 1 or 2 arguments, found 0",
		"k:a:b:c":      "kprobe probe type requires 1 or 2 arguments, found 3",
		"k:a+1+2":      "Cannot take more than one offset",
		"k:a+x":        "Invalid offset: invalid integer: x",
		"k:a+":         "Invalid offset",
		"kr:a+1":       "Offset not allowed",
		"k:0x12":       "Probing by address requires --unsafe",
		"u:f":          "uprobe probe type requires 2 or 3 arguments, found 1",
		"ur:/a@b.c:1":  "Source code location not allowed",
		"u:/a*@b.c:1":  "Cannot use wildcards with source code location",
		"u:/a@b.c":     "Invalid uprobe arguments, expected format: uprobe:TARGET@FILE:LINE[:COL]",
		"u:/a@b.c:x":   "Invalid line number: invalid integer: x",
		"u:/a@b.c:1:x": "Invalid column number: invalid integer: x",
		"u:/a*:1":      "Cannot use wildcards with absolute address",
		"U:p":          "usdt probe type requires 2 or 3 arguments, found 1",
		"t:a":          "tracepoint probe type requires 2 arguments, found 1",
		"rt":           "rawtracepoint probe type requires 2 or 1 arguments, found 0",
		"i:1": "Invalid rate of interval probe. Minimum is 1000 or 1us. Found: 1 " +
			"nanoseconds",
		"i:s:x":   "Invalid rate of interval probe: invalid integer: x",
		"i":       "interval probe type requires 1 or 2 arguments, found 0",
		"s":       "software probe type requires 1 or 2 arguments, found 0",
		"h:a:x":   "Invalid count for hardware probe: invalid integer: x",
		"w:1:2":   "watchpoint probe type requires 3 arguments, found 2",
		"w:x:8:w": "Invalid function/address argument: invalid integer: x",
		"w:1:x:w": "Invalid length argument: invalid integer: x",
		"f":       "fentry probe type requires 1 or 3 arguments, found 0",
		"f:bpf": "the 'bpf' variant of this probe requires a bpf program name and " +
			"optional bpf program id",
		"f:bpf:x:y": "bpf program id must be a number or '*'",
		"f:a:b:c":   "Only the 'bpf' variant of this probe supports 4 arguments",
		"it":        "iter probe type takes 2 arguments (1 optional)",
		"it:a*":     "iter probe type does not support wildcards",
		"it:a,it:b": "iter probe only supports one attach point.",
		"begin:x":   "begin probe type requires 0 arguments, found 1",
		"self:x":    "self probe type requires 2 arguments, found 1",
		"bench":     "bench probe type requires 1 arguments, found 0",
		":a":        "No attach points for probe",
		"k:$x": "invalid trailing character for positional param: x. Try quoting this " +
			"entire part",
		"k:$":            "positional parameter is not valid: invalid integer: ",
		"k:$1":           "too many positional parameters",
		"k:":             "kprobes should be attached to a function or an address",
		"ur:a:b,u:a:x:b": "unsupported language type: x",
		"usdt:a:":        "usdt probe must have a target function or wildcard",
		"t:a:":           "tracepoint probe must have a target",
		"rt:":            "rawtracepoint should be attached to a function",
		"f:":             "fentry/fexit should specify a function",
		"it:":            "iter should specify a iterator's name",
		"p:x:1":          "x is not an accepted unit of time",
		"p:s:0":          "profile frequency should be a positive integer",
		"p::1":           "profile probe must have unit of time",
		"s:":             "software probe must have a software event name",
		"s:x":            "x is not a software probe",
		"h:*":            "wildcards are not allowed for hardware probe type",
		"w:0:3:rr":       "watchpoint must be attached to a non-zero address",
		"w:1:3:rr":       "watchpoint length must be one of (1,2,4,8)",
		"w:1:8:ww":       "watchpoint modes may not be duplicated",
		"w:1:8:r": "invalid watchpoint mode: r\nw:1:8:r {}\n~~~~~~~\nHINT: supported " +
			"modes: rw,w,x\n",
		"w:1:8:q":            "watchpoint mode must be combination of (r,w,x)",
		"self:x:y":           "x is not a supported trigger",
		"self:signal:SIGHUP": "SIGHUP is not a supported signal",
		"test:":              "test probes must have a name",
		"test:a {} test:a":   "\"a\" was used as the name for more than one TEST probe",
	} {
		f := parsed(t, in+" {}")
		err := attach.Parse(f, &attach.Options{Params: []string{"$1"}})
		if err == nil {
			err = attach.Check(f, &attach.Options{Arch: "amd64"})
		}
		if err == nil || !strings.Contains(syntax.ErrorText(err), "ERROR: "+want) {
			t.Errorf("%s: want %q, got\n%s", in, want, syntax.ErrorText(fmt.Errorf("%w", err)))
		}
	}
	f := parsed(t, ":a {} u:f {} U:p {} u:cpp:f {} k:0x10 {}")
	o := &attach.Options{MayMiss: true, Process: true, Unsafe: true}
	if err := attach.Parse(f, o); err != nil {
		t.Error(syntax.ErrorText(err))
	}
}

// FuzzParse: parsing sets only fields of the point's provider, and errors have a place.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"k:f+1", "kr:m:f", "u:/a@b.c:1:2", `usdt:"a\"b":p:q`, "i:5ms", "s:cpu:1e6", "w:1:8:rw",
		"f:bpf:1:p", "it:a:b", "*:$1", "a=k:$2x", "t:a:b", "self:signal:SIGUSR1", "BEGIN", "bench:x",
	} {
		f.Add(s, "p:q", true)
	}
	f.Fuzz(func(t *testing.T, point, param string, process bool) {
		file, err := syntax.Parse("fuzz", []byte(point+" {}"), nil)
		if err != nil {
			return
		}
		err = attach.Parse(file, &attach.Options{Params: []string{param, "$1"}, Process: process})
		if err != nil && !strings.Contains(syntax.ErrorText(err), "fuzz:") {
			t.Errorf("%v has no place", err)
		}
		_ = attach.Check(file, nil)
		for n := range syntax.All(file) {
			a, ok := n.(*syntax.AttachPoint)
			if !ok {
				continue
			}
			if a.Provider == "" {
				t.Error("an attach point without provider stays")
			}
			if a.Mode != "" && a.Provider != "watchpoint" || a.Pin != "" && a.Provider != "iter" ||
				a.Namespace != "" && a.Provider != "usdt" || a.File != "" && a.Provider != "uprobe" ||
				a.Offset != 0 && a.Provider != "kprobe" && a.Provider != "uprobe" {
				t.Errorf("%q is %+v", point, a)
			}
		}
	})
}

// TestWatchpointModes: the modes of watchpoints depend on the machine.
func TestWatchpointModes(t *testing.T) {
	for arch, want := range map[string]map[string]string{
		"amd64":   {"r": "supported modes: rw,w,x", "x": "", "wr": ""},
		"arm64":   {"r": "", "rx": "supported modes: r,rw,w,x"},
		"ppc64le": {"r": "", "x": "supported modes: r,rw,w"},
		"riscv64": {"w": "watchpoints not supported"},
	} {
		for mode, want := range want {
			f, err := syntax.Parse("stdin", []byte("watchpoint:0x1234:8:"+mode+" { }"), nil)
			if err == nil {
				err = attach.Parse(f, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := attach.Check(f, &attach.Options{Arch: arch}); err != nil {
				got = syntax.ErrorText(err)
			}
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s on %s: error is %q, want %q", mode, arch, got, want)
			}
		}
	}
}

// TestMost: before, each of many points with wildcards in the provider copied the list of those
// that were still to be parsed, and all their errors were kept.
func TestMost(t *testing.T) {
	f := parsed(t, strings.Repeat("[hs]*:a,", 13_000)+"k:f {}")
	err := attach.Parse(f, nil)
	if err == nil || !strings.Contains(syntax.ErrorText(err), "more than 25000 attach points") {
		t.Errorf("error is %.200v", err)
	}
	f = parsed(t, strings.Repeat("*:*,", 3_000)+"k:f {}")
	err = attach.Parse(f, nil)
	if errs, ok := errors.AsType[syntax.Errors](err); !ok || len(errs) != 100 {
		t.Errorf("%d errors, want 100", len(errs))
	}
	f = parsed(t, strings.Repeat("i:y:1,", 3_000)+"k:f {}")
	if err = attach.Parse(f, nil); err == nil {
		err = attach.Check(f, nil)
	}
	if errs, ok := errors.AsType[syntax.Errors](err); !ok || len(errs) != 100 {
		t.Errorf("%d errors, want 100", len(errs))
	}
}
