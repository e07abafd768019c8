package action_test

import (
	"maps"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
)

// In a container programs know processes by its numbers, whatever they are used
// for: keys, comparisons, and leaving the own process out.
func TestPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	inPIDNamespace(t, "TestInPIDNamespace")
}

// inPIDNamespace runs a test as the first process of a container.
func inPIDNamespace(t *testing.T, test string) {
	t.Helper()
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
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
		// Which of them counter is, is not asked: Go 1.26 compares the addresses of what it
		// keeps on a stack wrongly where the stack has moved in between.
		program := func(counter *action.Counter[key], includeSelf bool, build func(c *action.Ctx)) *action.Session {
			p := marked("pidns", func(c *action.Ctx) {
				build(c)
				counter.Inc(c, c.PID(), c.TID())
			})
			p.License, p.IncludeSelf = license, includeSelf
			s := attachOrSkip(t, p, nil)
			t.Cleanup(func() { s.Close() })
			return s
		}
		sessions := []*action.Session{
			program(all, true, func(c *action.Ctx) {}),
			program(own, true, func(c *action.Ctx) { c.ReturnUnless(c.PID().Eq(1)) }),
			program(others, false, func(c *action.Ctx) {}),
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
			if strangers := i == 2; strangers && len(got) != 0 || !strangers && (len(got) != 1 || got[me] != 23) {
				t.Errorf("licence %q, %s: %v, this is %v", license, counter.Map().Name, got, me)
			}
		}
	}
}

// TestTasksInPIDNamespace: other tasks than the current one, which programs find
// through the kernel's pointers, have a container's numbers too: a process of its
// own, one in a container inside, and its first process, whose parent is a stranger.
func TestTasksInPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	inPIDNamespace(t, "TestTasksInContainer")
}

// TestTasksInContainer is the first process of a container.
func TestTasksInContainer(t *testing.T) {
	if os.Getenv("ACTION_WORKLOAD") != "pidns" {
		return
	}
	type key struct{ PID, PPID, TaskPID, TaskTID uint32 }
	tasks := action.NewCounter[key]("tasks", 0)
	const outside, me = 0, 1
	p := marked("tasks", func(c *action.Ctx) {
		task := c.CurTask()
		ppid, tid := c.PPID(), task.TaskTID()
		ppid = c.Let(action.Select(ppid.And(kernel.Stranger).Ne(0), c.Const(outside), ppid))
		tid = c.Let(action.Select(tid.Eq(c.TID()), c.Const(me), tid)) // it is the current one
		tasks.Inc(c, c.PID(), ppid, task.TaskPID(), tid)
	})
	s := attachOrSkip(t, p, nil)
	want := map[key]uint64{{me, outside, me, me}: 23}
	marks(23)
	for _, flags := range []uintptr{0, syscall.CLONE_NEWPID} {
		cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestMarks$")
		cmd.Env = append(os.Environ(), "ACTION_WORKLOAD=marks")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		pid := uint32(cmd.Process.Pid)
		want[key{pid, me, pid, me}] = 23
	}
	tab, err := tasks.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := mapx.Values(snap); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if st, err := s.Stats(); err != nil || st.Faults != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestMarks is a process that makes this test's marks.
func TestMarks(t *testing.T) {
	if os.Getenv("ACTION_WORKLOAD") == "marks" {
		marks(23)
	}
}
