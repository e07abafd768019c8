package tool

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/sysnames"
)

// The calls that a plan's tracepoints leave out are found by their names, which are not always
// those of the tracepoints.
func TestUnseenCalls(t *testing.T) {
	plan := &probe.Plan{Programs: []probe.ProgramPlan{{}, {}}}
	add := func(p int, group, name string) {
		sites := &plan.Programs[p].Sites
		*sites = append(*sites, probe.Site{Target: probe.Tracepoint{Group: group, Name: name}})
	}
	add(0, "syscalls", "sys_enter_openat")
	add(0, "syscalls", "sys_enter_newfstatat")
	add(1, "syscalls", "sys_exit_openat")
	add(1, "syscalls", "sys_exit_ppoll")
	add(1, "sched", "sched_switch")
	for _, test := range []struct{ decoded, want []string }{
		{nil, []string{"fstatat64", "openat", "ppoll", "ppoll_time64"}},
		{[]string{"openat", "ppoll"}, []string{"fstatat64"}},
	} {
		if got := unseenCalls("amd64", plan, test.decoded); !slices.Equal(got, test.want) {
			t.Errorf("without %v: %v, want %v", test.decoded, got, test.want)
		}
	}
}

// CallName takes a key apart: the bit of 32-bit programs, and the number -1, which has that
// bit, too.
func TestCallName(t *testing.T) {
	testenv.Need(t, testenv.Arch("amd64", "arm64"))
	r := &Run{live: &programRun{}}
	native, _ := sysnames.SyscallNumber(runtime.GOARCH, sysnames.Native, "getpid")
	compat, _ := sysnames.SyscallNumber(runtime.GOARCH, sysnames.Compat, "getpid")
	for key, want := range map[uint32]string{
		uint32(native):             "getpid",
		uint32(compat) | compatBit: "getpid",
		compatBit | 9999:           "[compat 9999]",
		1<<32 - 1:                  "[-1]",
	} {
		if got := r.CallName(key); got != want {
			t.Errorf("%#x is %s, want %s", key, got, want)
		}
	}
}

// Without the kernel's types a program is the same as before, and the run says what is missing.
func TestWithoutBTF(t *testing.T) {
	testenv.Need(t, testenv.OS("linux"))
	tool := New("demo", "", "demo", "")
	tool.Options.Env = probe.NewEnv(&probe.EnvOptions{Root: fstest.MapFS{}, Release: "5.10.0"})
	p := action.NewProgram("demo")
	tool.OnCompat(p, []string{"openat"}, func(*action.Ctx, CompatCall) { t.Error("an action") }, nil)
	var out strings.Builder
	r := newRun(tool, NewOutput(&out))
	r.noteCompat(nil)
	r.flush()
	const want = "System calls of 32-bit processes are not seen: "
	if len(p.Actions) > 0 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("%d actions, %q", len(p.Actions), out.String())
	}
}
