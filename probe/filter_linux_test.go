package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// startTargetIn starts a target in namespaces of its own.
func startTargetIn(t testing.TB, flags uintptr) *probetest.Workload {
	t.Helper()
	cmd := testenv.Command(t, probetest.TargetPath())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return probetest.StartCommand(t, cmd)
}

// loadFiltered loads counting programs with the plan's filter.
func loadFiltered(t testing.TB, plan *Plan, c probetest.Counting) *counter {
	t.Helper()
	m := probetest.NewTallies(t)
	t.Cleanup(func() { m.Close() })
	spec := c.Collection(plan, m)
	if err := plan.ApplyFilter(spec); err != nil {
		t.Fatal(err)
	}
	for _, p := range spec.Programs {
		p.Instructions = probetest.OwnIDs(p.Instructions)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(coll.Close)
	return &counter{progs: coll.Programs, m: m}
}

// expectFiltered runs both workloads, of which the filter lets one pass.
func expectFiltered(t *testing.T, f *Filter, in, out *probetest.Workload) {
	t.Helper()
	plan := mustResolve(t, &Options{Filter: f}, "uprobe:"+probetest.TargetPath()+":add")
	n := loadFiltered(t, plan, probetest.Counting{Value: probetest.ArgOffset()})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{})
	in.Run()
	out.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times, Sum: sumTo})
}

// TestFilterPID and those that follow: of two processes, the events of one.
func TestFilterPID(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	in, out := probetest.Start(t), probetest.Start(t)
	expectFiltered(t, &Filter{PIDs: []int{1, in.PID()}}, in, out)
}

func TestFilterPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	in, out := startTargetIn(t, syscall.CLONE_NEWPID), probetest.Start(t)
	expectFiltered(t, &Filter{PIDNamespaceOf: in.PID()}, in, out)
	expectFiltered(t, &Filter{PIDNamespaceOf: out.PID()}, out, in)
}

func TestFilterMountNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.BTF)
	in, out := startTargetIn(t, syscall.CLONE_NEWNS), probetest.Start(t)
	expectFiltered(t, &Filter{MountNamespaceOf: in.PID()}, in, out)
	expectFiltered(t, &Filter{MountNamespaceOf: in.PID(), PIDs: []int{in.PID()}}, in, out)
}

// makeCgroup makes a group with a group in it, for a test.
func makeCgroup(t *testing.T) (outer, inner string) {
	t.Helper()
	outer = filepath.Join(testenv.Cgroup2(t), fmt.Sprintf("probe_test_%d", os.Getpid()))
	inner = filepath.Join(outer, "inner")
	for _, dir := range []string{outer, inner} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
	}
	return outer, inner
}

func enterCgroup(t *testing.T, dir string, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

func TestFilterCgroup(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	outer, inner := makeCgroup(t)
	in, out := probetest.Start(t), probetest.Start(t)
	enterCgroup(t, inner, in.PID())
	t.Cleanup(func() { enterCgroup(t, filepath.Dir(outer), in.PID()) })
	name := "/" + filepath.Base(outer)
	for _, list := range [][]string{{name}, {name + "/inner"}, {outer}, {name, name + "/inner"}} {
		expectFiltered(t, &Filter{Cgroups: list}, in, out)
	}
	plan := mustResolve(t, &Options{Filter: &Filter{Cgroups: []string{name}}}, "uprobe:"+probetest.TargetPath()+":add")
	// In a control group namespace the depth is not known; the hierarchy's root has inode 1.
	level := -1
	var root unix.Stat_t
	if err := unix.Stat(filepath.Dir(outer), &root); err != nil {
		t.Fatal(err)
	} else if root.Ino == 1 {
		level = 1
	}
	if plan.Filter.Cgroups[0].Level != level {
		t.Errorf("%+v, want level %d", plan.Filter, level)
	}
	plan.Filter.Cgroups[0].Level = -1 // as in a container
	n := loadFiltered(t, plan, probetest.Counting{Value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out.Run()
	in.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
	if _, err := Resolve(nil, []Target{Begin{}}, &Options{Filter: &Filter{Cgroups: []string{"/no/such"}}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that does not exist: %v", err)
	}
}

// TestFilterKinds: the filter holds for every kind, and in plans that are recorded.
func TestFilterKinds(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, c := range []struct {
		target string
		needs  []testenv.Requirement
		want   uint64
	}{
		{"uretprobe:" + probetest.TargetPath() + ":add", []testenv.Requirement{testenv.Uprobes}, probetest.Times},
		{"usdt:" + probetest.TargetPath() + ":target:twice", []testenv.Requirement{testenv.Uprobes}, 2 * probetest.Times},
		{"tracepoint:syscalls:sys_enter_getppid", []testenv.Requirement{testenv.Tracefs}, probetest.Times},
		{"kprobe:" + probetest.GetppidFunc(), []testenv.Requirement{testenv.Kprobes}, probetest.Times},
		{"kprobe:" + probetest.GetppidFunc() + ",kprobe:ksys_pwrite64", []testenv.Requirement{testenv.KprobeMulti}, probetest.Times},
		{"fentry:" + probetest.GetppidFunc(), []testenv.Requirement{testenv.Fentry}, probetest.Times},
	} {
		t.Run(strings.ReplaceAll(c.target, "/", "_"), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			in, out := probetest.Start(t), probetest.Start(t)
			plan := mustResolve(t, &Options{Filter: &Filter{PIDs: []int{in.PID()}, PIDNamespaceOf: os.Getpid()}}, c.target)
			b, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			again := &Plan{BTF: plan.BTF}
			if err := json.Unmarshal(b, again); err != nil || len(again.Diff(plan)) != 0 {
				t.Fatalf("%v: recorded and read:\n%s", err, again)
			}
			n := loadFiltered(t, again, probetest.Counting{Value: -1})
			l, err := again.Attach(n.progs, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			out.Run()
			in.Run()
			probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: c.want})
		})
	}
}

// TestFilterRefuses: what makes no sense is an error, not a filter that lets
// all pass.
func TestFilterRefuses(t *testing.T) {
	env := probetest.Env(t)
	for want, f := range map[string]*Filter{
		"not a process id":        {PIDs: []int{0}},
		"257 processes":           {PIDs: make([]int, 257)},
		"are not mounted":         {Cgroups: []string{"/a"}},
		"process namespace of 99": {PIDNamespaceOf: 99},
		"mount namespace of 99":   {MountNamespaceOf: 99},
	} {
		_, err := Resolve(env, []Target{Begin{}}, &Options{Filter: f})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	plan := mustResolve(t, nil, "uprobe:"+probetest.TargetPath()+":add")
	n := loadCounter(t, plan, probetest.Counting{Value: -1})
	for _, prog := range n.progs {
		_, err := Attach(prog, plan.Programs[0].Sites[0].Target, &Options{Filter: &Filter{PIDs: []int{1}}})
		if err == nil || !strings.Contains(err.Error(), "ApplyFilter") {
			t.Errorf("a filter for a program that is loaded: %v", err)
		}
	}
	plan.Filter = &TaskFilter{MountNamespace: 1}
	spec := probetest.Counting{Value: -1}.Collection(plan, n.m)
	spec.Programs[plan.Programs[0].Name].License = "Proprietary"
	if err := plan.ApplyFilter(spec); err == nil || !strings.Contains(err.Error(), "licence") {
		t.Errorf("a licence that the helper does not take: %v", err)
	}
}
