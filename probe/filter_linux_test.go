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

	"github.com/borescope/borescope/internal/testenv"
)

// startTargetIn starts a target in namespaces of its own.
func startTargetIn(t testing.TB, flags uintptr) *workload {
	t.Helper()
	w := &workload{t: t, cmd: testenv.Command(t, targetPath())}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	w.start()
	return w
}

// loadFiltered loads counting programs with the plan's filter.
func loadFiltered(t testing.TB, plan *Plan, c counting) *counter {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	spec := userSpec(plan, c, m)
	if err := plan.ApplyFilter(spec); err != nil {
		t.Fatal(err)
	}
	for _, p := range spec.Programs {
		p.Instructions = ownIDs(p.Instructions)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(coll.Close)
	return &counter{progs: coll.Programs, m: m}
}

// expectFiltered runs both workloads, of which the filter lets one pass.
func expectFiltered(t *testing.T, f *Filter, in, out *workload) {
	t.Helper()
	plan := mustResolve(t, &Options{Filter: f}, "uprobe:"+targetPath()+":add")
	n := loadFiltered(t, plan, counting{value: argOffset()})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out.run()
	expectTally(t, n.read(t, 0), tally{})
	in.run()
	out.run()
	expectTally(t, n.read(t, 0), tally{times, sumTo})
}

// TestFilterPID and those that follow: of two processes, the events of one.
func TestFilterPID(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	in, out := startTarget(t), startTarget(t)
	expectFiltered(t, &Filter{PIDs: []int{1, in.pid()}}, in, out)
}

func TestFilterPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	in, out := startTargetIn(t, syscall.CLONE_NEWPID), startTarget(t)
	expectFiltered(t, &Filter{PIDNamespaceOf: in.pid()}, in, out)
	expectFiltered(t, &Filter{PIDNamespaceOf: out.pid()}, out, in)
}

func TestFilterMountNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.BTF)
	in, out := startTargetIn(t, syscall.CLONE_NEWNS), startTarget(t)
	expectFiltered(t, &Filter{MountNamespaceOf: in.pid()}, in, out)
	expectFiltered(t, &Filter{MountNamespaceOf: in.pid(), PIDs: []int{in.pid()}}, in, out)
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
	in, out := startTarget(t), startTarget(t)
	enterCgroup(t, inner, in.pid())
	t.Cleanup(func() { enterCgroup(t, filepath.Dir(outer), in.pid()) })
	name := "/" + filepath.Base(outer)
	for _, list := range [][]string{{name}, {name + "/inner"}, {outer}, {name, name + "/inner"}} {
		expectFiltered(t, &Filter{Cgroups: list}, in, out)
	}
	// A container's view: the depth is not known.
	plan := mustResolve(t, &Options{Filter: &Filter{Cgroups: []string{name}}}, "uprobe:"+targetPath()+":add")
	if plan.Filter.Cgroups[0].Level != 1 {
		t.Errorf("%+v", plan.Filter)
	}
	plan.Filter.Cgroups[0].Level = -1
	n := loadFiltered(t, plan, counting{value: -1})
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out.run()
	in.run()
	expectTally(t, n.read(t, 0), tally{Count: times})
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
		{"uretprobe:" + targetPath() + ":add", []testenv.Requirement{testenv.Uprobes}, times},
		{"usdt:" + targetPath() + ":target:twice", []testenv.Requirement{testenv.Uprobes}, 2 * times},
		{"tracepoint:syscalls:sys_enter_getppid", []testenv.Requirement{testenv.Tracefs}, times},
		{"kprobe:" + getppidFunc(), []testenv.Requirement{testenv.Kprobes}, times},
		{"kprobe:" + getppidFunc() + ",kprobe:ksys_pwrite64", []testenv.Requirement{testenv.KprobeMulti}, times},
		{"fentry:" + getppidFunc(), []testenv.Requirement{testenv.Fentry}, times},
	} {
		t.Run(strings.ReplaceAll(c.target, "/", "_"), func(t *testing.T) {
			testenv.Need(t, c.needs...)
			in, out := startTarget(t), startTarget(t)
			plan := mustResolve(t, &Options{Filter: &Filter{PIDs: []int{in.pid()}, PIDNamespaceOf: os.Getpid()}}, c.target)
			b, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			again := &Plan{BTF: plan.BTF}
			if err := json.Unmarshal(b, again); err != nil || len(again.Diff(plan)) != 0 {
				t.Fatalf("%v: recorded and read:\n%s", err, again)
			}
			n := loadFiltered(t, again, counting{value: -1})
			l, err := again.Attach(n.progs, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			out.run()
			in.run()
			expectTally(t, n.read(t, 0), tally{Count: c.want})
		})
	}
}

// TestFilterRefuses: what makes no sense is an error, not a filter that lets
// all pass.
func TestFilterRefuses(t *testing.T) {
	env := testEnv(t)
	for want, f := range map[string]*Filter{
		"no process id":           {PIDs: []int{0}},
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
	plan := mustResolve(t, nil, "uprobe:"+targetPath()+":add")
	n := loadCounter(t, plan, counting{value: -1})
	for _, prog := range n.progs {
		_, err := AttachAll(prog, []Target{plan.Programs[0].Sites[0].Target}, &Options{Filter: &Filter{PIDs: []int{1}}})
		if err == nil || !strings.Contains(err.Error(), "ApplyFilter") {
			t.Errorf("a filter for a program that is loaded: %v", err)
		}
	}
	plan.Filter = &TaskFilter{MountNamespace: 1}
	spec := userSpec(plan, counting{value: -1}, n.m)
	spec.Programs[plan.Programs[0].Name].License = "Proprietary"
	if err := plan.ApplyFilter(spec); err == nil || !strings.Contains(err.Error(), "licence") {
		t.Errorf("a licence that the helper does not take: %v", err)
	}
}
