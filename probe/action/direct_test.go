//go:build linux

package action_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// registers reads fields of the registers of a system call, and of its task,
// through the raw tracepoint's typed argument.
func registers(sum *action.Number[uint32], rounds int) *action.Program {
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
		spec, err := action.Compile(p, plan)
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
		mm := prev.MemberPtr("mm")
		c.If(mm.Eq(0), func() {
			c.If(mm.MemberPtr("exe_file").Eq(0), func() { zeros.Inc(c) })
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
