package main

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/stack"
)

// TestSleep prints the stack of a program that sleeps, whole and named.
func TestSleep(t *testing.T) {
	testenv.Need(t, testenv.Root)
	testenv.Need(t, testenv.Tool("gcore"))
	cmd := testenv.Command(t, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	testenv.WaitBlocked(t, cmd.Process.Pid, unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_REALTIME)
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
