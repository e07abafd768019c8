package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	profilepkg "github.com/borescope/borescope/stack/profile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain lets the test binary be the tool: child processes that must be
// killed, or that run as another user, need one.
func TestMain(m *testing.M) {
	if os.Getenv("PROFILE_MAIN") == "1" {
		os.Unsetenv("PROFILE_MAIN")
		if dir := os.Getenv("PROFILE_HIDE"); dir != "" {
			hide(dir)
		}
		main()
	}
	testenv.Main(m)
}

// replayed runs the tool on the built-in recording.
func replayed(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if err := run(context.Background(), append([]string{"-replay", "demo"}, args...), &out, &errs); err != nil {
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
		if *update {
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
	if want := fmt.Sprintf("samples %d, lost 0, ", total); !strings.HasPrefix(note, want) {
		t.Errorf("summary %q, want it to begin with %q", note, want)
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
		{"-d 0", 2, "it has to be positive"},
		{"-d soon", 2, `invalid value "soon" for flag -d`},
		{"-p x", 2, `"x" is not a process id`},
		{"-p 1,-2", 2, `"-2" is not a process id`},
		{"-U -K", 2, "-U and -K exclude each other"},
		{"-f -json", 2, "-f and -json exclude each other"},
		{"-record a -replay b", 2, "-record and -replay exclude each other"},
		{"-e no-such-event", 2, "no-such-event"},
		{"extra", 2, `unexpected argument "extra"`},
		{"-p 2147483646", 1, "-p 2147483646: no such process"},
		{"-replay no-such-dir", 1, "-replay no-such-dir: "},
		{"-replay testdata", 1, "-replay testdata: "},
	} {
		var out, errs bytes.Buffer
		err := run(context.Background(), strings.Fields(c.args), &out, &errs)
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

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	err := run(context.Background(), []string{"-h"}, &out, &errs)
	if !errors.Is(err, flag.ErrHelp) || cli.Status("profile", err, &errs) != 0 {
		t.Errorf("-h: %v", err)
	}
	if !strings.Contains(out.String(), "Examples:") {
		t.Errorf("-h prints %q", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 80 {
			t.Errorf("longer than 79 columns: %q", line)
		}
	}
}

// An output that can't be written is an error, not a broken file.
func TestFullDisk(t *testing.T) {
	testenv.Need(t, testenv.File("/dev/full"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	ctx := context.Background()
	for _, args := range []string{"-svg /dev/full", "-pprof /dev/full", "-svg no/such/dir.svg"} {
		err := run(ctx, strings.Fields("-replay demo "+args), new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", args, err)
		}
	}
	for _, args := range []string{"", "-f", "-json"} {
		if err := run(ctx, strings.Fields("-replay demo "+args), full, new(bytes.Buffer)); err == nil {
			t.Errorf("no error for %q to a full disk", args)
		}
	}
}

// The time may stand behind the flags, as in BCC's, whose -I is -idle.
func TestDuration(t *testing.T) {
	for args, want := range map[string]time.Duration{"": 10 * time.Second, "-d 2m": 2 * time.Minute, "-I 5": 5 * time.Second} {
		c, err := parseFlags(strings.Fields(args))
		if err != nil || c.duration != want || c.idle != (args == "-I 5") {
			t.Errorf("%q: %+v, %v", args, c, err)
		}
	}
}

// TestRequires: -requires says what sampling needs, also to those who lack it.
func TestRequires(t *testing.T) {
	for _, flags := range [][]string{{"-requires"}, {"-requires", "-json"}} {
		var out strings.Builder
		if err := run(t.Context(), flags, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		if s := out.String(); !strings.Contains(s, "CAP_BPF") || !strings.Contains(s, "CAP_PERFMON") {
			t.Errorf("%v: %s", flags, s)
		}
	}
}
