package main

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/stack"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no core file given"},
		{[]string{"/nonexistent"}, "no such file"},
		{[]string{"run_test.go"}, "run_test.go"},
		{[]string{"-bad"}, "-bad"},
	} {
		if err := run(c.args, cli.NewOutput(io.Discard), cli.NewOutput(io.Discard)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v", c.args, err)
		}
	}
}

// TestSleep prints the stack of a program that sleeps, whole and named.
func TestSleep(t *testing.T) {
	testenv.Need(t, testenv.Root)
	testenv.Need(t, testenv.Tool("gcore"))
	cmd := testenv.Command(t, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	time.Sleep(100 * time.Millisecond)
	prefix := filepath.Join(t.TempDir(), "core")
	pid := strconv.Itoa(cmd.Process.Pid)
	if out, err := testenv.Command(t, "gcore", "-o", prefix, pid).CombinedOutput(); err != nil {
		t.Fatalf("gcore: %v: %s", err, out)
	}
	var text, lines, notes bytes.Buffer
	if err := run([]string{prefix + "." + pid}, cli.NewOutput(&text), cli.NewOutput(&notes)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PID " + pid, "TID " + pid + ":", "\n#0 ", "nanosleep", "libc.so.6"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "ends here") {
		t.Errorf("not whole:\n%s%s", text.String(), notes.String())
	}
	if err := run([]string{"-json", prefix + "." + pid}, cli.NewOutput(&lines), cli.NewOutput(io.Discard)); err != nil {
		t.Fatal(err)
	}
	var got thread
	if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, lines.String())
	}
	if strconv.Itoa(got.TID) != pid || got.Reason != stack.StopBottom || len(got.Frames) < 4 || got.Frames[0].How != stack.SourceRegs {
		t.Errorf("%+v", got)
	}
	if n := strings.Count(text.String(), "\n#"); n != len(got.Frames) {
		t.Errorf("%d frames as text, %d as JSON", n, len(got.Frames))
	}
}

// TestPython shows interpreted frames inside the loop that ran them, with
// -python only.
func TestPython(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("gcore"), testenv.File("/usr/bin/python3.11"))
	cmd := testenv.Command(t, "/usr/bin/python3.11", "-c", `
def inner(v):
    print("here", flush=True)
    input()
def outer(): sorted([1], key=inner)
outer()`)
	in, out := testenv.Piped(t, cmd)
	defer in.Close()
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(t.TempDir(), "core")
	pid := strconv.Itoa(cmd.Process.Pid)
	if out, err := testenv.Command(t, "gcore", "-o", prefix, pid).CombinedOutput(); err != nil {
		t.Fatalf("gcore: %v: %s", err, out)
	}

	var with, without bytes.Buffer
	if err := run([]string{"-python", prefix + "." + pid}, cli.NewOutput(&with), cli.NewOutput(io.Discard)); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{prefix + "." + pid}, cli.NewOutput(&without), cli.NewOutput(io.Discard)); err != nil {
		t.Fatal(err)
	}
	rest := with.String()
	for _, want := range []string{
		" inner <string>:", " _PyEval_EvalFrameDefault - ", " outer <string>:5\n", " <module> <string>:6\n", " _PyEval_EvalFrameDefault - ", " _start - ",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("no %q in this order in\n%s", want, with.String())
		}
		rest = after
	}
	if strings.Contains(without.String(), "<string>") || strings.Count(with.String(), "\n#") != strings.Count(without.String(), "\n#")+3 {
		t.Errorf("without -python:\n%s", without.String())
	}
}
