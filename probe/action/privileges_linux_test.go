package action_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// TestLacksPrivileges: who may do nothing is told all that is needed. It was one thing at a time,
// tracefs first, as "not supported".
func TestLacksPrivileges(t *testing.T) {
	const role = "ACTION_NOBODY"
	if os.Getenv(role) != "" {
		n := action.NewCounter[action.Comm]("n", 1)
		p := action.NewProgram("nothing")
		p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) { n.Inc(c, c.Comm()) })
		s, err := action.Attach(p, nil)
		fmt.Println(errors.Is(err, os.ErrPermission), err)
		s.Close()
		return
	}
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.WriteFile(self, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, self, "-test.run=^TestLacksPrivileges$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), role+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	for _, want := range []string{"true needs root, or ", "CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH"} {
		if before, _, _ := strings.Cut(line, ": "); !strings.Contains(before, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
}
