package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool/cli"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.bt")
	if err := os.WriteFile(file, []byte("begin{@=$1}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, stdin string
		args        []string
		want        string
		warning     string
	}{
		{"format", "", []string{"-fmt", "-e", "begin{@=1}"}, "begin\n{\n  @ = 1;\n}\n", ""},
		{"ast", "", []string{"-d", "ast", "-e", "macro m() { 2 } begin { @ = m }"}, "@ = { 2 }", ""},
		{"types", "", []string{"-d", "types", "-e", `begin { @ = (1, "a") }`}, "/* (int8,string[2]) */", ""},
		{"file", "", []string{"-d", "types", file, "300"}, "/* int16 */", ""},
		{"stdin", "begin { $x = 1 }", []string{"-fmt", "-"}, "$x = 1", ""},
		{"names", "", []string{"-names"}, "\nstrncmp()                   0.9.4  all\n", ""},
		{"check", "", []string{"-check", "-e", "begin { @ = 1 }"}, "", ""},
		{"warning", "", []string{"-check", "-e", "begin { 1; }"}, "", "WARNING: Return value discarded."},
		// With -d types, warnings were lost.
		{
			"both", "",
			[]string{"-d", "types", "-e", "#include \"no.h\"\nbegin { @ = 1; }"},
			"/* int8 */",
			"'no.h' file not found",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, said bytes.Buffer
			if _, err := run(t.Context(), test.args, strings.NewReader(test.stdin), cli.NewOutput(&out), cli.NewOutput(&said)); err != nil {
				t.Fatal(err, said.String())
			}
			if got := out.String(); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("printed\n%s\nwant %q", got, test.want)
			}
			if got := said.String(); !strings.Contains(got, test.warning) || test.warning == "" && got != "" {
				t.Errorf("warnings are\n%s\nwant %q", got, test.warning)
			}
		})
	}
}

// TestImport: a script imports what lies beside it.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.bt": `import "b.bt"; begin { @ = one; }`, "b.bt": `macro one() { (int16)1 }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out, said bytes.Buffer
	if _, err := run(t.Context(), []string{"-d", "types", filepath.Join(dir, "a.bt")}, nil, cli.NewOutput(&out), cli.NewOutput(&said)); err != nil {
		t.Fatal(err, said.String())
	}
	if !strings.Contains(out.String(), "/* int16 */") {
		t.Errorf("printed\n%s", out.String())
	}
}

// TestInclude: headers are read before the script, from its folder, folders that are given, or a path.
func TestInclude(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		dir + "/a.bt":      `begin { @ = ((struct one *)0).two; }`,
		dir + "/one.h":     "#include \"two.h\"\nstruct one { TWO two; };",
		other + "/two.h":   "typedef short TWO;",
		other + "/three.h": "struct one { char two; };",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"int16", []string{"--include", "one.h", "-I", other}},
		{"int8", []string{"--include", other + "/three.h", "--include", "errno.h"}},
	} {
		var out, said bytes.Buffer
		args := append(c.args, "-d", "types", dir+"/a.bt")
		if _, err := run(t.Context(), args, nil, cli.NewOutput(&out), cli.NewOutput(&said)); err != nil {
			t.Fatal(err, said.String())
		}
		if !strings.Contains(out.String(), "/* "+c.want+" */") || said.Len() > 0 {
			t.Errorf("%q printed\n%s%s", args, &out, &said)
		}
	}
}

// TestDebugInfo: the folders of debug files are those of the flags, in their order, and then the usual one.
func TestDebugInfo(t *testing.T) {
	o := options{}
	if err := o.flags().Parse([]string{"--debuginfo", "/a:./b", "-debuginfo=..", "-l"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.env().DebugDirs(), " "); got != "/a ./b .. /usr/lib/debug" {
		t.Errorf("folders are %s", got)
	}
}

// TestRoot: a script is typed and compiled for another machine, by its files.
func TestRoot(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "sys/kernel/tracing/events/sched/sched_wakeup")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const format = "name: sched_wakeup\nID: 5\nformat:\n\tfield:int prio;\toffset:8;\tsize:4;\tsigned:1;\n"
	if err := os.WriteFile(filepath.Join(dir, "format"), []byte(format), 0o644); err != nil {
		t.Fatal(err)
	}
	release := filepath.Join(root, "proc/sys/kernel/osrelease")
	if err := os.MkdirAll(filepath.Dir(release), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(release, []byte("6.12.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for stage, wants := range map[string][]string{
		"types": {"tracepoint:sched:sched_wakeup", ".prio /* int32 */"},
		"ir":    {"@AT_[$key] = (s32)args.prio"},
		"dis":   {"LdXMemW dst: ", "Call FnMapUpdateElem\n"},
	} {
		var out, said bytes.Buffer
		args := []string{"-root", root, "-d", stage, "-e", "tracepoint:sched:sched_w* { @ = args.prio; }"}
		if _, err := run(t.Context(), args, nil, cli.NewOutput(&out), cli.NewOutput(&said)); err != nil {
			t.Fatal(err, said.String())
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("printed\n%s\nwant %q in it", out.String(), want)
			}
		}
	}
}

// TestLimits: a script with too many probes is refused, by its own configuration, by
// bpftrace's, or by the environment, which precedes both.
func TestLimits(t *testing.T) {
	const points = "begin, end, interval:s:1"
	for _, test := range []struct{ name, env, script, want string }{
		{"fewer", "", points + " { }", ""},
		{"config", "", "config = { max_probes = 2 } " + points + " { }", "Can't attach to 3 probes because it exceeds the current limit of 2 probes."},
		{"environment", "BPFTRACE_MAX_PROBES=2", points + " { }", "HINT: 3 were found so far"},
		{"raised", "BPFTRACE_MAX_PROBES=3", "config = { max_probes = 2 } " + points + " { }", ""},
		{"programs", "BPFTRACE_MAX_BPF_PROGS=2", points + " { print(probe); }", "HINT: You can increase the limit through the BPFTRACE_MAX_BPF_PROGS environment variable."},
		{"default", "", strings.Repeat("kprobe:f, ", 12_000) + "kprobe:f { print(probe); }", "more than 1024 BPF programs"},
		{"wrong", "BPFTRACE_MAX_PROBES=x", points + " { }", "ERROR: max_probes: expecting a number, got x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(test.env, "="); ok {
				t.Setenv(name, value)
			}
			var out, said bytes.Buffer
			_, err := run(t.Context(), []string{"-check", "-e", test.script}, nil, cli.NewOutput(&out), cli.NewOutput(&said))
			if (err != nil) != (test.want != "") || !strings.Contains(said.String(), test.want) {
				t.Errorf("%v, printed\n%s\nwant %q", err, said.String(), test.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	var out, said bytes.Buffer
	_, err := run(t.Context(), []string{"-check", "-e", `begin { @ = 1; @ = "a" }`}, nil, cli.NewOutput(&out), cli.NewOutput(&said))
	if !errors.Is(err, errSaid) || out.Len() > 0 ||
		!strings.Contains(said.String(), "ERROR: Type mismatch for @") {
		t.Errorf("%v, printed\n%s%s", err, out.String(), said.String())
	}
	for _, args := range [][]string{{}, {"-d", "nosuch", "-e", "begin { }"}, {"-f", "xml", "-e", "begin { }"}, {"/nonexistent.bt"}} {
		if _, err := run(t.Context(), args, nil, cli.NewOutput(&out), cli.NewOutput(&said)); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	// With bpftrace's texts.
	for _, c := range []struct {
		want string
		args []string
	}{
		{"USAGE:\n", []string{"-idonotexist"}},
		{"USAGE:\n", nil},
		{"ERROR: failed to open file 'no.bt': No such file or directory\n", []string{"no.bt"}},
		{"ERROR: Failed to parse pid: invalid integer: a1\n", []string{"-p", "a1", "-e", "begin { }"}},
		{"ERROR: Failed to parse pid: invalid trailing bytes: 1a\n", []string{"-e", "begin { }", "--pid=1a"}},
		{"ERROR: Pid out of range: 5000000\n", []string{"-p", "5000000"}},
		{"ERROR: Pid out of range: 99999999999999999999\n", []string{"-p99999999999999999999"}},
		{"ERROR: Invalid output format \"xml\"", []string{"-f", "xml", "-e", "begin { }"}},
		{"ERROR: USAGE: -kk has been deprecated.", []string{"-kk", "-e", "begin { }"}},
		{"ERROR: USAGE: -k, --warnings conflicts with --no-warnings\n", []string{"--warnings", "--no-warnings", "-e", "begin { }"}},
		{"ERROR: Invalid --probe-filter regex: ", []string{"--probe-filter", "[a", "-e", "begin { }"}},
		{
			"stdin:1:36-45: WARNING: No matches for tracepoint no:such. Skipping.\n",
			[]string{"-d", "ir", "-e", "config = { missing_probes = warn } t:no:such { }"},
		},
		{"No probes to attach\n", []string{"--probe-filter", "x", "-e", "interval:s:1 { }", "-d", "ir"}},
		{
			"ERROR: unexpected program command line options: --bb\nHINT: expected program options: --cc\n",
			[]string{"-d", "ir", "-e", `begin { print(getopt("cc", 1)); }`, "--", "--bb"},
		},
		{
			"ERROR: unexpected program command line options: --help\nHINT: expected program options:\n--cc: what it is\n--dd\n",
			[]string{"-d", "ir", "-e", `begin { print((getopt("cc", 1, "what it is"), getopt("dd"))); }`, "--", "--help"},
		},
		{
			"ERROR: program command line option --cc invalid integer (value: False)\n",
			[]string{"-d", "ir", "-e", `begin { print(getopt("cc", 1)); }`, "--", "--cc=False"},
		},
		{
			"stdin:1:1-16: ERROR: No matches for kprobe vfs_read.\n",
			[]string{"--traceable-functions", "/dev/null", "-check", "-e", "kprobe:vfs_read { }"},
		},
		{"ERROR: Could not read functions from no/such.\n", []string{"--traceable-functions", "no/such", "-e", "begin { }"}},
		{"ERROR: Invalid output buffering mode", []string{"-B", "some", "-e", "begin { }"}},
	} {
		var out, said bytes.Buffer
		_, err := run(t.Context(), c.args, nil, cli.NewOutput(&out), cli.NewOutput(&said))
		if err == nil || !strings.HasPrefix(said.String(), c.want) || out.Len() > 0 {
			t.Errorf("%q: %v, printed\n%s%s\nwant %q", c.args, err, &out, &said, c.want)
		}
	}
}

// TestOutputFile: -o has what would be printed, also if it is written in large pieces.
func TestOutputFile(t *testing.T) {
	for _, args := range [][]string{{}, {"-B", "full"}} {
		name := filepath.Join(t.TempDir(), "out")
		var out, said bytes.Buffer
		args = append(args, "-fmt", "-e", "begin{@=1}", "-o", name)
		if _, err := run(t.Context(), args, nil, cli.NewOutput(&out), cli.NewOutput(&said)); err != nil {
			t.Fatal(err, said.String())
		}
		if b, err := os.ReadFile(name); string(b) != "begin\n{\n  @ = 1;\n}\n" || err != nil || out.Len() > 0 {
			t.Errorf("%q: %q, %v; printed %q", args, b, err, &out)
		}
	}
}

// TestDemo: the demo is printed as it was recorded, on any system.
func TestDemo(t *testing.T) {
	want, err := os.ReadFile("testdata/demo.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	status, err := run(t.Context(), []string{"-replay", "demo"}, nil, cli.NewOutput(&out), cli.NewOutput(&said))
	if err != nil || status != 0 || out.String() != string(want) || said.Len() > 0 {
		t.Errorf("status %d, %v; it printed\n%s%s\nwant\n%s", status, err, &out, &said, want)
	}
}

// TestReplayRefused: what is no recording of bt, and flags that exclude each other, are refused.
func TestReplayRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-replay testdata/none", "-replay testdata/none: "},
		{"-replay ../opensnoop/testdata/opens", "-replay ../opensnoop/testdata/opens: a recording of opensnoop"},
		{"-record a -test -e begin{}", "-record conflicts with --mode test"},
		{"-record a -replay demo", "-record and -replay exclude each other"},
	} {
		var out, said bytes.Buffer
		_, err := run(t.Context(), strings.Fields(c.args), nil, cli.NewOutput(&out), cli.NewOutput(&said))
		if err == nil || !strings.Contains(err.Error()+said.String(), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, &said)
		}
	}
}
