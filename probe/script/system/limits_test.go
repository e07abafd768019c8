package system_test

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// counted is a tree of files that counts how often each is opened.
type counted struct {
	files  fstest.MapFS
	opened map[string]int
}

func (c counted) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.files.Open(name)
}

// most returns the name that was opened most often, of those with an ending.
func (c counted) most(ending string) (name string, n int) {
	for k, v := range c.opened {
		if v > n && strings.HasSuffix(k, ending) {
			name, n = k, v
		}
	}
	return name, n
}

// machine is a recorded machine with n tracepoints in each of n groups, and n raw tracepoints.
func machine(t *testing.T, n int) (*system.System, counted) {
	t.Helper()
	root := counted{probetest.Root(t), map[string]int{}}
	format := &fstest.MapFile{Data: []byte(probetest.Format)}
	var list []btf.Type
	for i := range n {
		for j := range n {
			root.files[fmt.Sprintf("sys/kernel/tracing/events/group%d/event%d/format", i, j)] = format
		}
		list = append(list, &btf.Typedef{Name: fmt.Sprintf("btf_trace_raw%d", i), Type: &btf.Int{Name: "int", Size: 4}})
	}
	root.files["sys/kernel/btf/vmlinux"] = &fstest.MapFile{Data: probetest.RawBTF(t, list)}
	return system.New(probe.NewEnv(&probe.EnvOptions{
		Root: root, Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features(),
	}), &system.Options{DWARF: true}), root
}

// run checks a script, and returns the points in it.
func run(t *testing.T, s *system.System, text string) (points []*syntax.AttachPoint, err error) {
	t.Helper()
	c, err := script.Check("stdin", text, &script.Options{System: s, Arch: "amd64"})
	for _, d := range c.File.Decls {
		if p, ok := d.(*syntax.Probe); ok {
			points = append(points, p.Points...)
		}
	}
	return points, err
}

// TestLimits: before, all matches of a thousand wildcards were listed, copied, and then refused:
// 4 s and 1.4 GiB.
func TestLimits(t *testing.T) {
	s, root := machine(t, 40)
	many := strings.Repeat
	for _, test := range []struct{ name, script, want string }{
		{"thousand", many("tracepoint:*:* { print(args) }\n", 1000), "more than 1024 BPF programs"},
		{"one", `tracepoint:*:* { @ = 1; }`, "more than 1024 BPF programs"},
		{"most", `config = { max_probes = 1700; max_bpf_progs = 1700 } tracepoint:*:* { @ = 1; }`, ""},
		{"probes", `config = { max_probes = 30 } tracepoint:group1:* { @ = 1; }`, "attach to 31 probes"},
		{"programs", `config = { max_bpf_progs = 30 } tracepoint:group1:* { @ = 1; }`, "more than 30 BPF"},
		{"raw", `config = { max_probes = 30 } rawtracepoint:* { @ = 1; }`, "attach to 31 probes"},
		{"fentry", `config = { max_probes = 2 } fentry:* { @ = 1; }`, ""},
		{"several", `config = { max_probes = 80 } tracepoint:group1:* { @ = 1; } tracepoint:group2:*, begin { @ = 1; }`, "attach to 81 probes"},
		{"kprobes", many("kprobe:* { @ = 1; }\n", 200), ""},
		{"kprobesNamed", many("kprobe:f, ", 1024) + "kprobe:f { print(probe); }", "more than 1024 BPF programs"},
		{"ours", `config = { max_probes = 1000000; max_bpf_progs = 1000000 } ` + many("tracepoint:*:* { @ = 1; } ", 100), "more than 25000 probes"},
		{"nothing", many("tracepoint:nosuch*:* { @ = 1; }\n", 1000), "Probe has no valid attach points."},
	} {
		t.Run(test.name, func(t *testing.T) {
			points, err := run(t, s, test.script)
			if text := ""; err != nil {
				text = syntax.ErrorText(err)
				if test.want == "" || !strings.Contains(text, test.want) {
					t.Errorf("error is\n%s\nwant %q", text, test.want)
				}
			} else if test.want != "" {
				t.Errorf("accepted with %d points, want %q", len(points), test.want)
			}
		})
	}
	if name, n := root.most("events/group1"); n != 1 {
		t.Errorf("%s is read %d times", name, n)
	}
}

// TestFunctionLimits: functions are listed up to the one that exceeds the limit.
func TestFunctionLimits(t *testing.T) {
	s := system.New(probetest.Env(t), nil)
	for script, want := range map[string]string{
		`config = { max_probes = 2 } fentry:vfs_* { @ = 1; }`:               "",
		`config = { max_probes = 1 } fentry:vfs_* { @ = 1; }`:               "attach to 2 probes",
		`config = { max_bpf_progs = 1 } fexit:vfs_* { @ = retval; }`:        "more than 1 BPF programs",
		`config = { max_probes = 2 } fentry:vfs_* { } end { }`:              "attach to 3 probes",
		`config = { max_probes = 3 } fentry:vfs_* { } fexit:vfs_* { }`:      "attach to 4 probes",
		`config = { max_bpf_progs = 2 } fentry:vfs_* { } begin, end { }`:    "",
		`config = { max_probes = 4 } fentry:vfs_* { } fentry:vfs_*, end {}`: "attach to 5 probes",
	} {
		points, err := run(t, s, script)
		if text := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %d points, error is %v, want %q", script, len(points), err, want)
		}
	}
}

// TestWildcardsOnce: before, each wildcard read tracefs again, and each raw one decoded all of
// the kernel's types: 3 s and 20 s for a thousand.
func TestWildcardsOnce(t *testing.T) {
	for _, kind := range []string{"tracepoint:*:event1%d*", "tracepoint:group%d:*2", "rawtracepoint:raw1%d*"} {
		s, root := machine(t, 20)
		var b strings.Builder
		for i := range 30 {
			fmt.Fprintf(&b, kind+", begin { @ = 1; }\n", i)
		}
		if _, err := run(t, s, b.String()); err != nil {
			t.Fatal(syntax.ErrorText(err))
		}
		for _, place := range []string{"events/group1", "kernel/btf/vmlinux"} {
			if name, n := root.most(place); n > 1 {
				t.Errorf("%s: %s is read %d times", kind, name, n)
			}
		}
	}
}

// TestFormatsOnce: before, tracefs was looked for before each format was read, and near names
// for each tracepoint that does not exist.
func TestFormatsOnce(t *testing.T) {
	s, root := machine(t, 20)
	if _, err := run(t, s, `tracepoint:group*:* { @ = args.prev_pid; }`); err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	if _, n := root.most("proc/self/mounts"); n > 3 {
		t.Errorf("the table of mounts is read %d times", n)
	}
	s, root = machine(t, 20)
	var b strings.Builder
	for i := range 90 {
		fmt.Fprintf(&b, "tracepoint:group1:nosuch%d { @ = args.prev_pid; }\n", i)
	}
	if _, err := run(t, s, b.String()); err == nil || !strings.Contains(syntax.ErrorText(err), "nosuch89") {
		t.Errorf("error is %v", err)
	}
	if name, n := root.most("events/group1"); n > 3 {
		t.Errorf("%s is read %d times", name, n)
	}
}

// TestUserFunctionsOnce: before, the file was opened for each function, and the debug
// information read again: 30 ms each.
func TestUserFunctionsOnce(t *testing.T) {
	for _, script := range []string{
		`uprobe:/bin/target:add { @ = args.a; } uprobe:/bin/target:helper_one { @ = 1; print(args); }`,
		`uprobe:/bin/target:add { @ = args.a; } uprobe:/bin/target:add { @b = args.b; }`,
	} {
		s, root := machine(t, 1)
		if _, err := run(t, s, script); err != nil && strings.Contains(syntax.ErrorText(err), "args.a") {
			t.Error(syntax.ErrorText(err))
		}
		// It is looked up and then opened, for its functions and for their arguments.
		if _, n := root.most("bin/target"); n > 6 {
			t.Errorf("%s: the file is opened %d times", script, n)
		}
	}
	s, root := machine(t, 1)
	var b strings.Builder
	for i := range 90 {
		fmt.Fprintf(&b, "uprobe:/bin/nosuch%d:f { @ = args.a; }\n", i)
	}
	if _, err := run(t, s, b.String()); err == nil || !strings.Contains(syntax.ErrorText(err), "nosuch89") {
		t.Errorf("error is %v", err)
	}
	if name, n := root.most("bin"); n > 40 {
		t.Errorf("%s is read %d times", name, n)
	}
}

// TestMatching: before, nothing bounded the work of matching wildcards. It is bounded by the
// lengths of names and patterns, which no allocation shows.
func TestMatching(t *testing.T) {
	s, _ := machine(t, 40)
	var b strings.Builder
	for i := range 900 {
		fmt.Fprintf(&b, "tracepoint:*:*%s%dx* { @ = 1; }\n", strings.Repeat("?", 100), i)
	}
	_, err := run(t, s, b.String())
	if err == nil || !strings.Contains(err.Error(), "make them more specific, or fewer than") {
		t.Errorf("error is %v", err)
	}
	b.Reset()
	b.WriteString(`config = { missing_probes = "ignore" }`)
	for i := range 900 {
		fmt.Fprintf(&b, "tracepoint:gr*:nosuch%d* { @ = 1; }\n", i)
	}
	if _, err := run(t, s, b.String()); err != nil {
		t.Errorf("refused: %s", syntax.ErrorText(err))
	}
}

// TestListing: each pattern of uprobes lists the symbols of files, if the script asks for the
// name of each match. Their number is bounded.
func TestListing(t *testing.T) {
	for n, want := range map[int]string{40: "", 41: "too many names to match"} {
		s, _ := machine(t, 1)
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "uprobe:/bin/target:nosuch%d* { print(probe); }\n", i)
		}
		_, err := run(t, s, b.String())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: error is %v, want %q", n, err, want)
		}
	}
}

// TestBombs: a script with a wildcard in any part of its attach points allocates little.
func TestBombs(t *testing.T) {
	s, _ := machine(t, 40)
	many := strings.Repeat
	if _, err := run(t, s, `tracepoint:group1:* { print(args) } rawtracepoint:raw0* { }`); err != nil {
		t.Fatal(syntax.ErrorText(err)) // what is read once is read
	}
	for name, script := range map[string]string{
		"tracepoints":     many("tracepoint:*:* { print(args) }\n", 1000),
		"groups":          many("tracepoint:group*:event1 { print(args) }\n", 1000),
		"arguments":       many("tracepoint:group1:* { print(args) }\n", 25),
		"both":            many("kprobe:*{} tracepoint:*:*{}\n", 200),
		"raw":             many("rawtracepoint:* { print(args) }\n", 1000),
		"functions":       many("fentry:*:* { print(args) }\n", 1000),
		"results":         many("fexit:* { print(retval) }\n", 1000),
		"libraries":       many("uprobe:/lib/*:* { print(args) }\n", 1000),
		"notes":           many("usdt:*:*:* { print(1) }\n", 1000),
		"named":           many("kprobe:f, ", 12_000) + "kprobe:f { print(probe); }",
		"written":         many("kprobe:f, ", 12_000) + "kprobe:f { print(1); }",
		"ours":            "config = { max_probes = 9999999; max_bpf_progs = 9999999 }\n" + many("tracepoint:*:* { print(probe) }\n", 100),
		"argumentsOfOurs": "config = { max_probes = 9999999; max_bpf_progs = 9999999 }\n" + many("tracepoint:*:* { print(args) }\n", 2),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := run(t, s, script)
			runtime.ReadMemStats(&after)
			bytes, count := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
			t.Logf("%d KiB, %d allocations: %.100v", bytes>>10, count, err)
			if bytes > 48<<20 || count > 400_000 {
				t.Errorf("%d KiB in %d allocations", bytes>>10, count)
			}
			if errs, ok := errors.AsType[syntax.Errors](err); ok && len(errs.String()) > 1<<20 {
				t.Errorf("the error has %d bytes", len(errs.String()))
			}
		})
	}
}
