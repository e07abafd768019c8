package action_test

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
)

// In a container programs know processes by its numbers, whatever they are used
// for: keys, comparisons, and leaving the own process out.
func TestPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestInPIDNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), "ACTION_WORKLOAD=pidns")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestInPIDNamespace is the first process of a container.
func TestInPIDNamespace(t *testing.T) {
	if os.Getenv("ACTION_WORKLOAD") != "pidns" {
		return
	}
	if os.Getpid() != 1 {
		t.Fatalf("process %d, want the first", os.Getpid())
	}
	runtime.LockOSThread()
	type key struct{ PID, TID uint32 }
	for _, license := range []string{"", "Apache-2.0"} {
		all, own, others := action.NewCounter[key]("all", 0), action.NewCounter[key]("own", 0), action.NewCounter[key]("others", 0)
		program := func(counter *action.Counter[key], build func(c *action.Ctx)) *action.Session {
			p := marked("pidns", func(c *action.Ctx) {
				build(c)
				counter.Inc(c, c.PID(), c.TID())
			})
			p.License, p.IncludeSelf = license, counter != others
			s := attachOrSkip(t, p, nil)
			t.Cleanup(func() { s.Close() })
			return s
		}
		sessions := []*action.Session{
			program(all, func(c *action.Ctx) {}),
			program(own, func(c *action.Ctx) { c.ReturnUnless(c.PID().Eq(1)) }),
			program(others, func(c *action.Ctx) {}),
		}
		marks(23)
		for i, counter := range []*action.Counter[key]{all, own, others} {
			tab, err := counter.Table(sessions[i])
			if err != nil {
				t.Fatal(err)
			}
			snap, err := tab.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			got, me := mapx.Values(snap), key{1, uint32(syscall.Gettid())}
			if counter == others && len(got) != 0 || counter != others && (len(got) != 1 || got[me] != 23) {
				t.Errorf("licence %q, %s: %v, this is %v", license, counter.Map().Name, got, me)
			}
		}
	}
}
