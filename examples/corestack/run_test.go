package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
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
