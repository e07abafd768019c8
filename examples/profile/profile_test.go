package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/probe/tool/tooltest"
	profilepkg "github.com/borescope/borescope/stack/profile"
)

// TestMain lets the test binary be the tool: child processes that must be
// killed, or that run as another user, need one.
func TestMain(m *testing.M) {
	if os.Getenv("PROFILE_MAIN") == "1" {
		os.Unsetenv("PROFILE_MAIN")
		main()
	}
	testenv.Main(m)
}

// replayed runs the tool on the built-in recording.
func replayed(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	o := newOptions()
	o.Stderr = tool.NewOutput(&errs)
	if err := o.run(t.Context(), append([]string{"-replay", "demo"}, args...), tool.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

func TestReplayGolden(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "out.svg")
	for _, c := range []struct {
		name string
		args []string
		file string // instead of stdout
	}{
		{name: "table.txt"},
		{name: "folded.txt", args: []string{"-f"}},
		{name: "stacks.json", args: []string{"-json"}},
		{name: "flame.svg", args: []string{"-svg", svg}, file: svg},
	} {
		got, _ := replayed(t, c.args...)
		if c.file != "" {
			b, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		golden := filepath.Join("testdata", c.name)
		if flag.Lookup("update").Value.String() == "true" { // package tooltest's
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s; run with -update and look at the difference", c.name, golden)
		}
	}
}

// The pprof file must say what the folded stacks say.
func TestReplayPprof(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.pb.gz")
	text, note := replayed(t, "-f", "-pprof", file)
	folded, err := profilepkg.ParseFolded(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, s := range p.Sample {
		total += s.Value[0]
	}
	if total == 0 || total != folded.Total() {
		t.Errorf("pprof holds %d samples, the folded stacks %d", total, folded.Total())
	}
	if want := fmt.Sprintf("\nsamples %d, lost 0, ", total); !strings.Contains(note, want) {
		t.Errorf("notes %q, want a line that begins with %q", note, want)
	}
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"-x", 2, "flag provided but not defined: -x"},
		{"-F 0", 2, "-F 0: a frequency is at least 1"},
		{"-F many", 2, `invalid value "many" for flag -F`},
		{"-d 0", 2, `"0" is not a positive time`},
		{"-d soon", 2, `invalid value "soon" for flag -d`},
		{"-p x", 2, `"x" is not a process id`},
		{"-p 1,-2", 2, `"-2" is not a process id`},
		{"-U -K", 2, "-U and -K exclude each other"},
		{"-f -json", 2, "-f and -json exclude each other"},
		{"-record a -replay b", 2, "-record and -replay exclude each other"},
		{"-e no-such-event", 2, "no-such-event"},
		{"1 extra", 2, `unexpected argument "extra"`},
		{"-p 2147483646", 1, "no process or thread has the number 2147483646"},
		{"-replay no-such-dir", 1, "-replay no-such-dir: "},
		{"-replay testdata", 1, "-replay testdata: "},
	} {
		var errs bytes.Buffer
		err := run(t.Context(), strings.Fields(c.args), tool.NewOutput(io.Discard))
		if err == nil {
			t.Errorf("profile %s: no error", c.args)
			continue
		}
		got := cli.Status("profile", err, &errs)
		line := errs.String()
		if got != c.status || !strings.Contains(line, c.want) || strings.Count(line, "\n") != 1 {
			t.Errorf("profile %s: status %d and %q, want %d and one line with %q", c.args, got, line, c.status, c.want)
		}
	}
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "profile", run) }

// An output that can't be written is an error, not a broken file.
func TestFullDisk(t *testing.T) {
	testenv.Need(t, testenv.File("/dev/full"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range []string{"-svg /dev/full", "-html /dev/full", "-pprof /dev/full", "-svg no/such/dir.svg"} {
		err := run(t.Context(), strings.Fields("-replay demo "+args), tool.NewOutput(io.Discard))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", args, err)
		}
	}
	for _, args := range []string{"", "-f", "-json"} {
		if err := run(t.Context(), strings.Fields("-replay demo "+args), tool.NewOutput(full)); err == nil {
			t.Errorf("no error for %q to a full disk", args)
		}
	}
}

// The time may stand behind the flags, as in BCC's, whose -I is -idle; with -e, -c is
// perf's period.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                     "profile:hz:99",
		"-F 49 -p 1,2 -c sh 5": "profile:hz:49",
		"-I 5":                 "perf:cpu-clock:hz:99",
		"-e page-faults -c 23": "software:page-faults:23",
		"-e page-faults -c sh": "perf:page-faults:hz:99",
	} {
		o := newOptions()
		err := o.parse(strings.Fields(args), tool.NewOutput(io.Discard))
		if got := o.target().String(); err != nil || got != want || *o.idle != strings.Contains(args, "-I") ||
			(*o.comm == "sh") != strings.Contains(args, "sh") || len(*o.pids) == 2 != strings.Contains(args, "1,2") {
			t.Errorf("%q: %s, want %s; %+v, %v", args, got, want, o, err)
		}
	}
}

// -html writes the page that collecthttp serves of a running service.
func TestHTML(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.html")
	replayed(t, "-f", "-html", file)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!DOCTYPE html>", "<title>CPU flame graph</title>", "cpu-clock at 99 Hz on 2 CPUs", `"PyEval_EvalCode"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// The first output in the project's README is this tool's: it had a start line and columns of an
// earlier version.
func TestReadmeOutput(t *testing.T) {
	testenv.Need(t, testenv.File("../../README.md")) // guests have the tests alone
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(readme), "```console\n$ go run ./examples/profile\n")
	shown, _, closed := strings.Cut(shown, "\n```\n")
	begin, end, cut := strings.Cut(shown, "\n...\n")
	if !found || !closed || !cut {
		t.Fatal("README does not show the tool's output")
	}
	out, _ := replayed(t)
	if !strings.HasPrefix(out, begin+"\n") || !strings.HasSuffix(out, "\n"+end+"\n") {
		t.Errorf("README shows\n%s\nand the tool prints\n%s", shown, out)
	}
}
