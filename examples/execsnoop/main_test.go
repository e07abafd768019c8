package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// argument of the commands that the child starts: the test itself, which then
// has nothing to do.
const nothing = "-test.run=^$"

// A test program with afterEnv ends the work of the program that has executed it.
const afterEnv = "EXECSNOOP_AFTER"

func TestMain(m *testing.M) {
	if os.Getenv(afterEnv) != "" {
		os.Stdout.Write([]byte{'\n'})
		os.Stdin.Read(make([]byte, 1))
		return
	}
	works := map[string]func(){"exec": func() {
		os.Unsetenv("TOOLTEST_WORK")
		for i := range 23 {
			testenv.Command(nil, "/proc/self/exe", nothing, fmt.Sprint("-test.count=", i+1), "two words").Run()
		}
		for range 7 {
			(&exec.Cmd{Path: "/nowhere/to/be/found", Args: []string{"found"}}).Run()
		}
	}}
	maps.Copy(works, execs)
	tooltest.Main(m, works)
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "execsnoop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/execs", "-Ut") }

// A child's 23 commands are 23 rows with their arguments, its 7 failures 7 with
// ENOENT.
func TestLive(t *testing.T) {
	type row struct {
		PCOMM          string
		PID, PPID, Ret int
		Args           string
	}
	child := tooltest.Start(t, "exec")
	out := tooltest.Live(t, run, []string{"-json", "-x", "-max-args", "3", "-P", strconv.Itoa(child.PID)}, child.Work)
	var worked, failed int
	for _, r := range tooltest.Objects[row](t, out) {
		switch {
		case r.PPID != child.PID:
			t.Errorf("of another's child: %+v", r)
		case r.Ret == -2 && r.Args == "/nowhere/to/be/found":
			failed++
		case r.Ret == 0 && r.Args == fmt.Sprintf("/proc/self/exe %s -test.count=%d ...", nothing, worked+1):
			worked++
		default:
			t.Errorf("unexpected: %+v", r)
		}
	}
	if worked != 23 || failed != 7 {
		t.Errorf("%d of 23 commands, %d of 7 failures:\n%s", worked, failed, out)
	}
}
