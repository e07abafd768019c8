package difftest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
	"github.com/borescope/borescope/stack"
)

var flagUpdate = flag.Bool("update", false, "write the golden files anew")

// kernelBTF is a small piece of a kernel's types: a task with nested anonymous
// members, a bit field and an array.
func kernelBTF() map[string]btf.Type {
	u8 := &btf.Int{Name: "unsigned char", Size: 1}
	i32 := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	uw := &btf.Int{Name: "unsigned int", Size: 4}
	ul := &btf.Int{Name: "unsigned long", Size: 8}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	task := &btf.Struct{Name: "task_struct", Size: 128}
	task.Members = []btf.Member{
		{Name: "state", Type: ul},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "word", Type: ul}, {Name: "half", Type: uw}}}, Offset: 64},
		{Name: "tgid", Type: i32, Offset: 128},
		{Name: "flag3", Type: uw, Offset: 160 + 5, BitfieldSize: 3},
		{Name: "sflag", Type: i32, Offset: 160 + 8, BitfieldSize: 4},
		{Name: "real_parent", Type: &btf.Pointer{Target: task}, Offset: 192},
		{Name: "comm", Type: &btf.Array{Index: uw, Type: char, Nelems: 16}, Offset: 256},
		{Name: "prio", Type: &btf.Array{Index: uw, Type: i32, Nelems: 4}, Offset: 384},
		{Name: "tail", Type: &btf.Array{Index: uw, Type: u8, Nelems: 0}, Offset: 128 * 8},
	}
	return map[string]btf.Type{"task": task, "int": i32, "ul": ul}
}

// goldenPlans returns plans for other kernels and machines, for which code is generated.
func goldenPlans() map[string]*probe.Plan {
	types := kernelBTF()
	out := map[string]*probe.Plan{}
	for _, arch := range []string{"amd64", "arm64"} {
		first := map[string]int{"amd64": stack.AMD64RDI, "arm64": 0}[arch]
		second := map[string]int{"amd64": stack.AMD64RSI, "arm64": 1}[arch]
		for _, release := range []string{"5.10.0", "6.1.0", "6.12.0", "6.18.0"} {
			for _, typed := range []bool{true, false} {
				args := []probe.Arg{
					{Name: "task", Loc: probe.Location{Kind: probe.LocationReg, Reg: first}},
					{Name: "n", Loc: probe.Location{Kind: probe.LocationReg, Reg: second}},
				}
				name := arch + "-" + release
				if typed {
					args[0].Type, args[1].Type = &btf.Pointer{Target: types["task"]}, types["int"]
				} else {
					name += "-nobtf"
				}
				out[name] = &probe.Plan{Arch: arch, Kernel: release, Programs: []probe.ProgramPlan{{
					Name: "p0", Type: ebpf.Kprobe, Context: probe.ContextPtRegs, Method: probe.MethodPerfLink,
					Args: args, Sites: []probe.Site{{Target: probe.Kprobe{Symbol: "f"}, Symbol: "f", Address: 0xffff800000001000, Cookie: 1}},
				}}}
			}
		}
	}
	return out
}

// goldenPrograms returns the programs to compile for them. Field paths need types.
func goldenPrograms(typed bool) map[string]*ir.Program {
	on := probe.Kprobe{Symbol: "f"}
	progs := map[string]*ir.Program{}
	add := func(name string, build func(c *action.Ctx)) {
		p := action.NewProgram(name)
		p.On(on, build)
		for i := range p.Actions { // positions would change with every edit of this file
			clearPos(p.Actions[i].Body)
		}
		progs[name] = p.Program
	}
	count := action.NewCounter[action.Comm]("n", 0)
	lat := action.NewHist[action.None]("lat", 1).Sub(2)
	stats := action.NewStats[uint32]("stats", 64)
	stacks := action.NewCounter[[127]uint64]("stacks", 64)
	add("count", func(c *action.Ctx) { count.Inc(c, c.Comm()) })
	add("hist", func(c *action.Ctx) { lat.Observe(c, c.Arg(1)) })
	add("stats", func(c *action.Ctx) { stats.Observe(c, c.Arg(1), c.CPU()) })
	add("stack", func(c *action.Ctx) { stacks.Inc(c, c.Kstack(127)) })
	add("loop", func(c *action.Ctx) {
		sum := c.NewVar(0)
		c.Loop(c.Arg(1), 100, func(i action.Int) { sum.Set(sum.Int().Add(i)) })
		lat.Observe(c, sum.Int())
	})
	if typed {
		type ev struct {
			PID    int32
			Flags  uint32
			Signed int32
			Prio   int32
			Comm   action.Comm
		}
		events := action.NewEvents[ev]("events", 0)
		add("fields", func(c *action.Ctx) {
			task := c.ArgNamed("task").Ptr()
			c.ReturnUnless(task.Member("half").Ne(0))
			events.Emit(c, func(e *ev, b *action.Bind) {
				b.Set(&e.PID, task.Member("real_parent->tgid"))
				b.Set(&e.Flags, task.Member("flag3"))
				b.Set(&e.Signed, task.Member("sflag"))
				b.Set(&e.Prio, task.Addr("prio").Index(c.Arg(1).And(3)))
				b.Set(&e.Comm, task.Member("comm").Str(16))
			})
		})
	}
	return progs
}

func clearPos(list []*ir.Stmt) {
	p := &ir.Program{Actions: []ir.Action{{Body: list}}}
	p.Visit(func(s *ir.Stmt) { s.Pos = ir.Pos{} }, func(e *ir.Expr) { e.Pos = ir.Pos{} })
}

// TestGolden compiles for other kernels and machines, and compares the instructions with the
// recorded ones. -update records them again.
func TestGolden(t *testing.T) {
	for name, plan := range goldenPlans() {
		typed := !strings.HasSuffix(name, "-nobtf")
		for prog, p := range goldenPrograms(typed) {
			got := compileText(t, p, plan)
			if again := compileText(t, p, plan); again != got {
				t.Errorf("%s for %s: two compilations differ", prog, name)
			}
			runGolden(t, p, plan)
			file := filepath.Join("testdata", "golden", name, prog+".txt")
			if *flagUpdate {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != got {
				t.Errorf("%s for %s differs from %s; if that is meant, run with -update", prog, name, file)
			}
		}
	}
}

// runGolden interprets a program's two trees a few times, with registers and memory that can
// be read.
func runGolden(t *testing.T, p *ir.Program, plan *probe.Plan) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	m := &interp.Machine{Kernel: anyMemory{}, User: anyMemory{}, Comm: testCommand}
	m.Builtin = func(name string) uint64 { return uint64(len(name)) }
	in := interpret(t, p, plan)
	for range 8 {
		m.Context = make([]byte, 512)
		for i := range m.Context {
			m.Context[i] = byte(r.Uint32())
		}
		m.Stack = stackOf(r.Uint64()|1, 2, 3)
		in.run(t, m)
	}
}

func stackOf(pcs ...uint64) func(bool) []uint64 { return func(bool) []uint64 { return pcs } }

func compileText(t *testing.T, p *ir.Program, plan *probe.Plan) string {
	t.Helper()
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range p.AllMaps() {
		fmt.Fprintf(&b, "%s: %v\n", m, spec.Maps[m.Name].Type)
	}
	fmt.Fprintf(&b, "%v", spec.Programs["p0"].Instructions)
	return b.String()
}
