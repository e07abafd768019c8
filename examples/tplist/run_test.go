package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool/cli"
)

// image is a program with three sites of two probes.
func image(t *testing.T) string {
	f := &elfbuild.File{Machine: elf.EM_X86_64}
	var notes []byte
	for _, n := range []struct {
		pc, sem uint64
		text    string
	}{
		{0x1000, 0x3000, "app\x00request\x008@%rdi -4@-20(%rbp)\x00"},
		{0x1001, 0x3000, "app\x00request\x008@%rbx 8f@%xmm0\x00"},
		{0x1002, 0, "app\x00done\x00-8@counter(%rip) 8@%rqx\x00"},
	} {
		desc := bytes.Join([][]byte{f.Word(n.pc), f.Word(0), f.Word(n.sem), []byte(n.text)}, nil)
		notes = elfnotes.Append(notes, elfnotes.Note{Owner: "stapsdt", Type: 3, Desc: desc}, 4)
	}
	f.Sections = []elfbuild.Section{
		{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Data: []byte("\x90\x90\x90\xc3")},
		{Name: ".probes", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_WRITE, Addr: 0x3000, Data: make([]byte, 2)},
		{Name: ".note.stapsdt", Type: elf.SHT_NOTE, Data: notes, Align: 4},
	}
	path := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(path, f.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFiles(t *testing.T) {
	path := image(t)
	for name, args := range map[string][]string{
		"plain.txt":   {path},
		"verbose.txt": {"-v", path},
		"sites.json":  {"-json", path},
		"pattern.txt": {path, "app:d*"},
		"dir.txt":     {filepath.Dir(path) + "/", "request"},
		"target.txt":  {"-vv", "usdt:" + path + ":app:d*"},
		"library.txt": {"-vv", "-l", path, "app:d*"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, cli.NewOutput(&out)); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		golden.Compare(t, "testdata/"+name, strings.ReplaceAll(out.String(), path, "/bin/app"))
	}
	for _, args := range [][]string{{"/nonexistent"}, {"-l", "nonexistent"}, {"-l", "["}, {"./run.go"}, {"-x"}, {path, "["}, {"usdt:*"}} {
		if err := run(t.Context(), args, cli.NewOutput(&bytes.Buffer{})); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// A library is found by its name, before a program of that name; a program is, too.
func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	app, err := os.ReadFile(image(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"libone.so": "/* GNU ld script", "libone.so.1": string(app), "two": string(app), "libtwo.so.2": string(app), "three": "#!/bin/sh",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"one": "libone.so.1", "libone.so.1": "libone.so.1", "two": "two", "three": "three",
	} {
		if got, err := lookUp(name, []string{dir}); got != filepath.Join(dir, want) || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}

// A pattern may be spelled as the target that it stands for.
func TestTargets(t *testing.T) {
	for word, want := range map[string][2]string{
		"t:sched:sched_wakeup": {"sched:sched_wakeup", ""},
		"tracepoint:sched:*":   {"sched:*", ""},
		"u:libc:*":             {"*", "libc"},
		"usdt:/bin/x:p:n*":     {"p:n*", "/bin/x"},
		"usdt:libc":            {"*", "libc"},
		"usdt:*":               {"*", "*"},
		"sched:*":              {},
		"/usr/bin/t:u":         {},
		"usdt:":                {},
	} {
		pattern, place, ok := cutTarget(word)
		if [2]string{pattern, place} != want && ok || ok != (want != [2]string{}) {
			t.Errorf("%s: %q of %q, %v", word, pattern, place, ok)
		}
	}
}

func TestKernel(t *testing.T) {
	const dir = "sys/kernel/tracing/"
	machine := probe.NewEnv(&probe.EnvOptions{Root: fstest.MapFS{
		dir + "events/sched/sched_switch/format": {Data: []byte("name: sched_switch\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n" +
			"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n" +
			"\tfield:__data_loc char[] name;\toffset:28;\tsize:4;\tsigned:0;\n")},
		dir + "events/sched/enable":             {Data: []byte("0")},
		dir + "events/enable":                   {Data: []byte("0")},
		dir + "events/irq/softirq_entry/format": {Data: []byte("")},
	}})
	var out bytes.Buffer
	l := &lister{w: cli.NewOutput(&out).Buffered(), pattern: "sched*", verbose: true}
	l.kernel(machine)
	l.json, l.pattern, l.verbose = true, "irq:*", false
	l.kernel(machine)
	l.w.Flush()
	want := "sched:sched_switch\n    char prev_comm[16];\n    pid_t prev_pid;\n    __data_loc char[] name;\n{\"category\":\"irq\",\"name\":\"softirq_entry\"}\n"
	if len(l.errs) > 0 || out.String() != want {
		t.Errorf("%v\n%s", l.errs, out.String())
	}
}

// TestAgainstBpftrace compares the kernel's tracepoints, and the USDT probes of
// this machine's files, with what bpftrace lists.
func TestAgainstBpftrace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.Mounts, testenv.Tool("bpftrace"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.MountTracefs(t)
	count := func(target string) int {
		b, err := testenv.Command(t, "bpftrace", "-l", target).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "\n")
	}
	var out bytes.Buffer
	if err := run(t.Context(), nil, cli.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	// bpftrace leaves out the events of tracefs itself.
	got := 0
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "ftrace:") {
			got++
		}
	}
	if want := count("tracepoint:*:*"); got != want {
		t.Errorf("%d tracepoints, bpftrace has %d", got, want)
	}
	for _, pattern := range []string{"/usr/bin/python3.*", "/usr/lib/postgresql/*/bin/postgres", "/usr/lib/jvm/*/lib/server/libjvm.so"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			out.Reset()
			if err := run(t.Context(), []string{path}, cli.NewOutput(&out)); err != nil {
				continue // a script
			}
			probes := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				probes[strings.Fields(line)[1]] = true
			}
			if want := count(fmt.Sprintf("usdt:%s:*", path)); len(probes) != want {
				t.Errorf("%s: %d probes, bpftrace has %d", path, len(probes), want)
			}
		}
	}
}

// TestAgainstBCC compares the USDT probes of this machine's files, their
// semaphores, sites and numbers of arguments with what BCC's tplist -v prints,
// and the kernel's tracepoints with its list.
func TestAgainstBCC(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.Tool("tplist-bpfcc"), testenv.Tool("unshare"))
	compared := 0
	for _, pattern := range []string{
		"/usr/lib/*/libruby-*.so.*.*.*", "/usr/bin/python3.*[0-9]", "/usr/lib/postgresql/*/bin/postgres",
		"/usr/lib/jvm/*/lib/server/libjvm.so", "/usr/lib/*/libstdc++.so.6",
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			theirs, err := testenv.Command(t, "tplist-bpfcc", "-v", "-l", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			want, got := bccProbes(string(theirs)), ourProbes(t, path)
			for name, w := range want {
				if g := got[name]; !slices.Equal(g, w) {
					t.Errorf("%s %s: %v, BCC has %v", path, name, g, w)
				}
				delete(got, name)
				compared++
			}
			for name := range got {
				t.Errorf("%s %s: BCC has none", path, name)
			}
		}
	}
	if compared == 0 {
		testenv.Need(t, testenv.Missing("files with probes", "none on this machine"))
	}
	t.Logf("%d probes alike", compared)
	theirs, err := testenv.Command(t, "unshare", "-m", "sh", "-c", "mount -t debugfs none /sys/kernel/debug && tplist-bpfcc").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer
	if err := run(t.Context(), nil, cli.NewOutput(&ours)); err != nil {
		t.Fatal(err)
	}
	want, got := slices.Sorted(strings.Lines(string(theirs))), slices.Sorted(strings.Lines(ours.String()))
	if len(want) < 100 || !slices.Equal(got, want) {
		t.Errorf("%d tracepoints, BCC has %d", len(got), len(want))
	}
}

// bccProbes are the probes that tplist -v prints, each as its semaphore, the
// number of sites and of arguments.
func bccProbes(text string) map[string][]uint64 {
	out := map[string][]uint64{}
	name := ""
	for line := range strings.Lines(text) {
		var n uint64
		switch f := strings.Fields(line); {
		case strings.HasSuffix(line, " location(s)\n") || strings.HasSuffix(line, " argument(s)\n"):
			fmt.Sscan(f[0], &n)
			out[name] = append(out[name], n)
		case line[0] != ' ' && len(f) == 3:
			name = f[0]
			fmt.Sscanf(f[2], "0x%x]", &n)
			out[name] = []uint64{n}
		}
	}
	return out
}

// ourProbes are the same, from the JSON lines.
func ourProbes(t *testing.T, path string) map[string][]uint64 {
	t.Helper()
	var b bytes.Buffer
	if err := run(t.Context(), []string{"-json", path}, cli.NewOutput(&b)); err != nil {
		t.Fatal(err)
	}
	out := map[string][]uint64{}
	for dec := json.NewDecoder(&b); dec.More(); {
		var s struct {
			Provider, Name string
			Semaphore      json.RawMessage
			Args           []struct{}
		}
		if err := dec.Decode(&s); err != nil {
			t.Fatal(err)
		}
		name := s.Provider + ":" + s.Name
		if out[name] == nil {
			var sem uint64
			fmt.Sscanf(strings.Trim(string(s.Semaphore), `"`), "%v", &sem)
			out[name] = []uint64{sem, 0, uint64(len(s.Args))}
		}
		out[name][1]++
	}
	return out
}
