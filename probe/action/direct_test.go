//go:build linux

package action_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// registers reads fields of the registers of a system call, and of its task,
// through the raw tracepoint's typed argument.
func registers(sum *action.Aggregate[uint32], rounds int) *action.Program {
	p := action.NewProgram("registers")
	p.IncludeSelf = true
	fields := []string{"di", "si", "dx", "sp", "ip", "flags", "cs", "orig_ax"}
	if runtime.GOARCH == "arm64" {
		fields = []string{"regs[0]", "regs[1]", "regs[2]", "sp", "pc", "pstate", "orig_x0", "syscallno"}
	}
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Arg(1).Eq(mark))
		regs := c.Arg(0).PtrTo("struct pt_regs", false)
		for range rounds {
			for i, f := range fields {
				sum.Observe(c, regs.Member(f), i)
			}
		}
	})
	return p
}

// TestDirectLoads: programs that the kernel types load through their pointers,
// and get what the helper gets.
func TestDirectLoads(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	var sums [2]map[uint32]int64
	var calls [2]int
	for i, prefer := range []bool{false, true} {
		sum := action.NewSum[uint32]("sum", 16)
		p := registers(sum, 1)
		env := probe.NewEnv(nil)
		btf, err := env.BTF()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := probe.Resolve(env, p.Targets(), &probe.Options{PreferBTF: prefer})
		if err != nil {
			t.Fatal(err)
		}
		plan.BTF = btf
		spec, err := bpf.Compile(p.Program, plan)
		if err != nil {
			t.Fatal(err)
		}
		calls[i] = helperCalls(spec)
		s, err := action.AttachPlan(p, plan, nil)
		if err != nil {
			t.Fatalf("%+v", err)
		}
		pinned(t, func() { marks(23) })
		if st, err := s.Stats(); err != nil || st.Faults != 0 {
			t.Errorf("%+v, %v", st, err)
		}
		tab, err := sum.Table(s)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := tab.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = map[uint32]int64{}
		for _, e := range snap.Entries {
			if e.Key < 3 || e.Key > 4 { // what every call has alike
				sums[i][e.Key] = e.Value
			}
		}
		_ = s.Close()
	}
	if fmt.Sprint(sums[0]) != fmt.Sprint(sums[1]) || len(sums[0]) != 6 {
		t.Errorf("by the helper %v, directly %v", sums[0], sums[1])
	}
	if calls[0] != 8 || calls[1] != 0 {
		t.Errorf("%d and %d calls of the helper, want 8 and 0", calls[0], calls[1])
	}
}

func helperCalls(spec *ebpf.CollectionSpec) int {
	n := 0
	for _, p := range spec.Programs {
		for _, in := range p.Instructions {
			if in.IsBuiltinCall() && fmt.Sprint(in) == "Call FnProbeReadKernel" {
				n++
			}
		}
	}
	return n
}

// TestDirectNull: null pointers on the way are zeros, counted as by the helper.
func TestDirectNull(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	zeros := action.NewCount("zeros")
	names := action.NewCounter[action.Comm]("names", 1024)
	p := action.NewProgram("null")
	p.On(probe.RawTracepoint{Name: "sched_switch"}, func(c *action.Ctx) {
		prev := c.ArgNamed("prev").Ptr()
		// Kernel threads have no memory of their own.
		mm := prev.Member("mm").Ptr()
		c.If(mm.Eq(0), func() {
			c.If(mm.Member("exe_file").Ptr().Eq(0), func() { zeros.Inc(c) })
		}, func() {
			names.Inc(c, mm.Member("owner->comm").Str(16))
		})
	})
	s := attachOrSkip(t, p, &action.Options{Resolve: &probe.Options{PreferBTF: true}})
	w := make(chan int)
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := uint64(0); n == 0; n = total(t, s, zeros) {
		go func() { w <- 1 }()
		<-w
		reads(t, 23, 777)
	}
	st, err := s.Stats()
	if err != nil || st.Faults == 0 {
		t.Errorf("%+v, %v: no faults although there were null pointers", st, err)
	}
}

var flagDirect = flag.Uint64("direct", 4, "programs of the test of random direct loads")

// numbers are the members of a struct that are whole numbers, by their paths.
func numbers(t btf.Type, path string, depth int) []string {
	var members []btf.Member
	switch s := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = s.Members
	case *btf.Int, *btf.Enum:
		return []string{path}
	}
	var out []string
	for _, m := range members {
		if m.BitfieldSize != 0 || depth == 0 {
			continue
		}
		to := path
		if m.Name != "" {
			to = strings.TrimPrefix(path+"."+m.Name, ".")
			if strings.HasSuffix(path, "->") {
				to = path + m.Name
			}
		}
		out = append(out, numbers(m.Type, to, depth-1)...)
	}
	return out
}

// TestDirectRandom: random members of this task, and of what it points to, are by
// direct loads what they are by the helper. A member that changes meanwhile, as
// times do, is left out by reading it directly twice.
func TestDirectRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Iter))
	env := probe.NewEnv(nil)
	types, err := env.BTF()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for to, name := range map[string]string{"": "task_struct", "mm->": "mm_struct", "real_parent->": "task_struct", "signal->": "signal_struct", "group_leader->": "task_struct"} {
		var s *btf.Struct
		if err := types.TypeByName(name, &s); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, numbers(s, to, 4)...)
	}
	// The helper itself counts up the task's pagefault_disabled while it reads.
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "pagefault_disabled") })
	slices.Sort(paths)
	for seed := range *flagDirect {
		r := rand.New(rand.NewPCG(seed, 7))
		wrong, right := action.NewCounter[uint32]("wrong", 64), action.NewCount("right")
		p := action.NewProgram("random")
		var chosen []string
		p.On(probe.Iter{Name: "task", PID: os.Getpid()}, func(c *action.Ctx) {
			task := c.Field("task").Ptr()
			c.ReturnUnless(task.Ne(0).And(task.TaskTID().Eq(os.Getpid())))
			other := c.Field("task").Xor(0).PtrTo("struct task_struct", false)
			for i := range uint32(24) {
				path := paths[r.IntN(len(paths))]
				chosen = append(chosen, path)
				a, b, again := task.Member(path), other.Member(path), task.Member(path)
				c.If(a.Eq(b), func() { right.Inc(c) })
				c.If(a.Eq(again).And(a.Ne(b)), func() { wrong.Inc(c, i) })
			}
		})
		plan, err := probe.Resolve(env, p.Targets(), nil)
		if err != nil {
			t.Fatal(err)
		}
		plan.BTF = types
		spec, err := bpf.Compile(p.Program, plan)
		if err != nil {
			t.Fatal(err)
		}
		if n := helperCalls(spec); n < 24 || n > 2*24 { // once for the member, once for the pointer to it
			t.Errorf("seed %d: %d calls of the helper: not one of three members by it, the others directly", seed, n)
		}
		s := attachOrSkip(t, p, nil)
		it, err := s.Link().OpenIter()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, it)
		if err := errors.Join(err, it.Close()); err != nil {
			t.Fatal(err)
		}
		tab, err := wrong.Table(s)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := tab.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range snap.Entries {
			t.Errorf("seed %d: %s is not directly what it is by the helper", seed, chosen[e.Key])
		}
		if n := total(t, s, right); n < 12 {
			t.Errorf("seed %d: %d of %v were compared", seed, n, chosen)
		}
	}
}

// BenchmarkDirectLoads measures a program that reads 32 fields, through typed
// pointers and by the helper: the kernel's own time by its own count.
func BenchmarkDirectLoads(b *testing.B) {
	testenv.Need(b, testenv.Root, testenv.TPBTF)
	stop, err := ebpf.EnableStats(0)
	if err != nil {
		b.Fatal(err)
	}
	defer stop.Close()
	for _, prefer := range []bool{false, true} {
		b.Run(map[bool]string{false: "helper", true: "direct"}[prefer], func(b *testing.B) {
			s, err := action.Attach(registers(action.NewSum[uint32]("sum", 16), 4), &action.Options{Resolve: &probe.Options{PreferBTF: prefer}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				marks(1)
			}
			st, err := s.Stats()
			if err != nil {
				b.Fatal(err)
			}
			p := st.Programs[0]
			b.ReportMetric(float64(p.Time)/float64(p.Runs), "kernel-ns/run")
		})
	}
}
