//go:build linux

package difftest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/codegen"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/probe/ir/interp"
)

// loopForms returns the forms that the running kernel has.
func loopForms(t testing.TB) []loops.Form {
	t.Helper()
	since := [(loops.MayGoto + 1)]ir.Version{loops.Helper: check.BpfLoopSince, loops.Iter: check.IterNumSince, loops.MayGoto: check.MayGotoSince}
	var forms []loops.Form
	for form := range loops.MayGoto + 1 {
		if check.KernelVersion(runningKernel(t)).AtLeast(since[form]) {
			forms = append(forms, form)
		}
	}
	return forms
}

// kernelBTFOnce are the running kernel's types, read once.
var kernelBTFOnce = sync.OnceValues(func() (*btf.Spec, error) { return probe.NewEnv(nil).BTF() })

// loopPlan returns a plan for the running kernel, with its types if a form needs them.
func loopPlan(t testing.TB, form loops.Form, args ...btf.Type) *probe.Plan {
	t.Helper()
	plan := rawPlan(runningKernel(t), runtime.GOARCH, args...)
	if form == loops.Iter {
		types, err := kernelBTFOnce()
		if err != nil {
			t.Fatal(err)
		}
		plan.BTF = types
	}
	return plan
}

// runLoop runs a program in the kernel and in the interpreter, with one argument, and
// compares the values in out. It returns the number of instructions that the verifier
// processed.
func runLoop(t *testing.T, p *ir.Program, form loops.Form, out *ir.Map, arg uint64) uint32 {
	t.Helper()
	p.Loops, p.IncludeSelf = form, true
	plan := loopPlan(t, form, argTypes[1])
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	coll := loadSpec(t, spec)
	runRaw(t, coll.Programs["p0"], arg)
	in := interpret(t, p, plan)
	m := &interp.Machine{Context: binary.LittleEndian.AppendUint64(nil, arg)}
	in.run(t, m)
	agree(t, coll, m, out, func() string { return fmt.Sprintf("%s\n%s", form, p) })
	info, err := coll.Programs["p0"].Info()
	if err != nil {
		t.Fatal(err)
	}
	cost, _ := info.VerifiedInstructions()
	return cost
}

// TestLoopForms: every form of loop that the kernel has computes what the interpreter does:
// nested loops, loops that are left early, and bodies that change the loop's own variable.
func TestLoopForms(t *testing.T) {
	needRoot(t)
	v, i, j := &ir.Var{Name: "v"}, &ir.Var{Name: "i"}, &ir.Var{Name: "j"}
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 2}
	store := func(slot int64, x *ir.Expr) *ir.Stmt {
		return &ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(slot), X: x}
	}
	let := func(v *ir.Var, x *ir.Expr) *ir.Stmt { return &ir.Stmt{Op: ir.StmtLet, Var: v, X: x} }
	add := func(v *ir.Var, x *ir.Expr) *ir.Stmt { return let(v, ir.NewExpr(ir.OpAdd, ir.NewVar(v), x)) }
	when := func(v *ir.Var, n int64, s *ir.Stmt) *ir.Stmt {
		return &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, ir.NewVar(v), ir.NewConst(n)), Body: []*ir.Stmt{s}}
	}
	loop := func(v *ir.Var, x *ir.Expr, most int, body ...*ir.Stmt) *ir.Stmt {
		return &ir.Stmt{Op: ir.StmtLoop, Var: v, X: x, Max: most, Body: body}
	}
	arg := &ir.Expr{Op: ir.OpArg}
	for name, body := range map[string][]*ir.Stmt{
		"nested":   {loop(i, arg, 30, loop(j, ir.NewConst(12), 0, add(v, ir.NewVar(j)), when(j, 10, &ir.Stmt{Op: ir.StmtContinue}), add(v, ir.NewConst(3))))},
		"break":    {loop(i, arg, 30, add(v, ir.NewVar(i)), loop(j, ir.NewVar(i), 20, when(j, 9, &ir.Stmt{Op: ir.StmtBreak}), add(v, ir.NewConst(1))))},
		"return":   {loop(i, arg, 30, store(1, ir.NewVar(i)), loop(j, ir.NewConst(20), 0, when(i, 17, &ir.Stmt{Op: ir.StmtReturn}), add(v, ir.NewConst(1))))},
		"changed":  {loop(i, arg, 30, add(i, ir.NewConst(5)), add(v, ir.NewVar(i)))},
		"constant": {loop(i, ir.NewConst(25), 0, add(v, ir.NewVar(i))), loop(i, ir.NewConst(25), 11, add(v, ir.NewVar(i)))},
		"none":     {loop(i, ir.NewExpr(ir.OpSub, arg, arg), 30, add(v, ir.NewConst(1))), loop(nil, ir.NewConst(3), 0, add(v, ir.NewConst(1)))},
		"text": {loop(i, arg, 30, when(v, 7, store(1, ir.NewExpr(ir.OpLen, ir.NewBuiltin("comm")))),
			add(v, ir.NewExpr(ir.OpAdd, ir.NewConst(1), ir.NewExpr(ir.OpLen, &ir.Expr{Op: ir.OpCond, Args: []*ir.Expr{ir.NewExpr(ir.OpGt, ir.NewVar(i), ir.NewConst(4)), ir.NewString("abc"), ir.NewString("")}}))))},
	} {
		for _, form := range loopForms(t) {
			walked := form == loops.Plain || form == loops.MayGoto || !check.KernelVersion(runningKernel(t)).AtLeast(check.BpfLoopSince)
			if name == "text" && walked {
				continue // the verifier gives up on 30 times this body's branches, on 6.12 for may_goto too
			}
			t.Run(name+"/"+form.String(), func(t *testing.T) {
				p := one(append(append([]*ir.Stmt{let(v, arg)}, body...), store(0, ir.NewVar(v)))...)
				runLoop(t, p, form, out, 23)
			})
		}
	}
}

// TestLoopOverMapLoops: a loop inside a loop over a map, which is in a callback.
func TestLoopOverMapLoops(t *testing.T) {
	needRoot(t)
	if !check.KernelVersion(runningKernel(t)).AtLeast(check.ForEachSince) {
		testenv.Need(t, testenv.Feature(feature.ForEachMapElem))
	}
	v, i, k := &ir.Var{Name: "v"}, &ir.Var{Name: "i"}, &ir.Var{Name: "k"}
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 4}
	inner := &ir.Stmt{Op: ir.StmtLoop, Var: i, X: &ir.Expr{Op: ir.OpArg}, Max: 20, Body: []*ir.Stmt{
		{Op: ir.StmtLet, Var: v, X: ir.NewExpr(ir.OpAdd, ir.NewVar(v), ir.NewExpr(ir.OpMul, ir.NewVar(i), ir.NewVar(k)))},
	}}
	for _, form := range loopForms(t) {
		runLoop(t, one(
			&ir.Stmt{Op: ir.StmtLet, Var: v, X: ir.NewConst(0)},
			&ir.Stmt{Op: ir.StmtForEach, Map: out, Var: k, Body: []*ir.Stmt{inner}},
			&ir.Stmt{Op: ir.StmtLoop, Var: i, X: ir.NewConst(12), Body: []*ir.Stmt{
				{Op: ir.StmtLet, Var: v, X: ir.NewExpr(ir.OpAdd, ir.NewVar(v), ir.NewVar(i))},
			}},
			&ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(0), X: ir.NewVar(v)},
		), form, out, 17)
	}
}

// TestLoopFormsCompiled: every form is compiled to its own instructions, loops.Best to a form
// that the kernel has, and forms that the kernel lacks are refused.
func TestLoopFormsCompiled(t *testing.T) {
	types := kernelTypesFixture(t)
	is := map[loops.Form]func(asm.Instruction) bool{
		loops.Helper:  func(in asm.Instruction) bool { return in.IsBuiltinCall() && in.Constant == int64(asm.FnLoop) },
		loops.Iter:    func(in asm.Instruction) bool { return in.IsKfuncCall() },
		loops.MayGoto: func(in asm.Instruction) bool { return in.OpCode.JumpOp() == asm.JCOND && in.OpCode.Class().IsJump() },
	}
	compiled := func(form loops.Form, kernel string, turns ...int) (loops.Form, error) {
		var body []*ir.Stmt
		for _, n := range turns {
			body = append(body, &ir.Stmt{Op: ir.StmtLoop, X: &ir.Expr{Op: ir.OpArg}, Max: n, Body: []*ir.Stmt{{Op: ir.StmtEval, X: ir.NewBuiltin("pid")}}})
		}
		p := one(body...)
		p.Loops = form
		plan := rawPlan(kernel, "amd64", argTypes[1])
		plan.BTF = types
		spec, err := bpf.Compile(p, plan)
		if err != nil {
			return 0, err
		}
		for f, is := range is {
			for _, in := range spec.Programs["p0"].Instructions {
				if is(in) {
					return f, nil
				}
			}
		}
		return loops.Plain, nil
	}
	for _, c := range []struct {
		form   loops.Form
		kernel string
		turns  []int
		want   loops.Form
	}{
		{loops.Best, "5.10.0", []int{100}, loops.Plain},
		{loops.Best, "6.1.0", []int{100}, loops.Helper},
		{loops.Best, "6.11.0", []int{100}, loops.Helper},
		{loops.Best, "6.12.0", []int{100, 60_000}, loops.MayGoto},
		{loops.Best, "6.12.0", []int{100, 70_000}, loops.Helper},
		{loops.Best, "6.12.0", []int{8}, loops.Plain},
		{loops.Plain, "6.12.0", []int{100}, loops.Plain},
		{loops.Helper, "6.12.0", []int{100}, loops.Helper},
		{loops.Iter, "6.4.0", []int{5_000_000}, loops.Iter},
		{loops.MayGoto, "6.9.0", []int{3}, loops.MayGoto},
	} {
		if got, err := compiled(c.form, c.kernel, c.turns...); err != nil || got != c.want {
			t.Errorf("%s of %d turns on %s: %s, %v; want %s", c.form, c.turns, c.kernel, got, err, c.want)
		}
	}
	for form, kernel := range map[loops.Form]string{loops.Helper: "5.16.0", loops.Iter: "6.3.0", loops.MayGoto: "6.8.0"} {
		if _, err := compiled(form, kernel, 100); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s on %s: %v", form, kernel, err)
		}
	}
	for form, turns := range map[loops.Form]int{loops.Plain: 5000, loops.MayGoto: 70_000, loops.Helper: 1<<23 + 1, (loops.MayGoto + 1): 10} {
		if _, err := compiled(form, "6.12.0", turns); err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s of %d turns: %v", form, turns, err)
		}
	}
}

// kernelTypesFixture returns types with the functions of loops.Iter.
func kernelTypesFixture(t *testing.T) *btf.Spec {
	t.Helper()
	var funcs []btf.Type
	for _, name := range []string{codegen.KfuncIterNew, codegen.KfuncIterNext, codegen.KfuncIterDestroy} {
		funcs = append(funcs, &btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Void{}}, Linkage: btf.StaticFunc})
	}
	return probetest.Spec(t, funcs)
}

// TestLoopsConverge: loops whose variables begin as known numbers and decide branches are
// verified at a cost that does not depend on the number of turns, and compute what the
// interpreter does.
func TestLoopsConverge(t *testing.T) {
	needRoot(t)
	if !check.KernelVersion(runningKernel(t)).AtLeast(check.BpfLoopSince) {
		testenv.Need(t, testenv.Feature(feature.BPFLoop))
	}
	v, i := &ir.Var{Name: "v"}, &ir.Var{Name: "i"}
	let := func(x *ir.Expr) *ir.Stmt { return &ir.Stmt{Op: ir.StmtLet, Var: v, X: x} }
	plus := func(n int64) *ir.Stmt { return let(ir.NewExpr(ir.OpAdd, ir.NewVar(v), ir.NewConst(n))) }
	when := func(op ir.Op, x *ir.Expr, n int64, then, or []*ir.Stmt) *ir.Stmt {
		return &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(op, x, ir.NewConst(n)), Body: then, Else: or}
	}
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 1}
	for n, body := range [][]*ir.Stmt{
		{plus(1)},
		{plus(1), when(ir.OpGt, ir.NewVar(v), 50, []*ir.Stmt{{Op: ir.StmtBreak}}, nil)},
		{when(ir.OpEq, ir.NewExpr(ir.OpMod, ir.NewVar(v), ir.NewConst(3)), 0, []*ir.Stmt{plus(5)}, []*ir.Stmt{plus(1)})},
		{when(ir.OpEq, ir.NewVar(i), 70, []*ir.Stmt{{Op: ir.StmtBreak}}, []*ir.Stmt{plus(2)})},
		{let(ir.NewExpr(ir.OpAdd, ir.NewVar(v), ir.NewVar(i))), when(ir.OpLt, ir.NewVar(v), 10, []*ir.Stmt{plus(100)}, nil)},
		{when(ir.OpLt, ir.NewVar(v), 5, []*ir.Stmt{let(ir.NewConst(9))}, []*ir.Stmt{let(ir.NewConst(2))})},
	} {
		for _, form := range loopForms(t) {
			if form == loops.Plain {
				continue
			}
			var costs []uint32
			for _, most := range []int{100, 60_000} {
				p := one(let(ir.NewConst(0)),
					&ir.Stmt{Op: ir.StmtLoop, Var: i, X: &ir.Expr{Op: ir.OpArg}, Max: most, Body: body},
					&ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(0), X: ir.NewVar(v)})
				costs = append(costs, runLoop(t, p, form, out, 93))
			}
			if costs[0] != costs[1] {
				t.Errorf("%s, body %d: verified %d instructions for 100 turns, %d for 60,000", form, n, costs[0], costs[1])
			}
		}
	}
}

// BenchmarkLoops measures 100 turns of a loop that adds its index to a variable, in the time
// that the kernel counts for the program.
func BenchmarkLoops(b *testing.B) {
	needRoot(b)
	stop, err := ebpf.EnableStats(0)
	if err != nil {
		b.Fatal(err)
	}
	defer stop.Close()
	v, i := &ir.Var{Name: "v"}, &ir.Var{Name: "i"}
	for _, form := range loopForms(b) {
		for _, turns := range []int64{0, 8, 100, 1000} {
			b.Run(fmt.Sprintf("%s-%d", form, turns), func(b *testing.B) {
				out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 1}
				p := one(&ir.Stmt{Op: ir.StmtLet, Var: v, X: &ir.Expr{Op: ir.OpArg}},
					&ir.Stmt{Op: ir.StmtLoop, Var: i, X: &ir.Expr{Op: ir.OpArg}, Max: 1000, Body: []*ir.Stmt{
						{Op: ir.StmtLet, Var: v, X: ir.NewExpr(ir.OpAdd, ir.NewVar(v), ir.NewVar(i))},
					}},
					&ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(0), X: ir.NewVar(v)})
				p.Loops, p.IncludeSelf = form, true
				spec, err := bpf.Compile(p, loopPlan(b, form, argTypes[1]))
				if err != nil {
					b.Fatal(err)
				}
				prog := loadSpec(b, spec).Programs["p0"]
				ctx := binary.LittleEndian.AppendUint64(nil, uint64(turns))
				for b.Loop() {
					if _, err := prog.Run(&ebpf.RunOptions{Context: ctx}); err != nil {
						b.Fatal(err)
					}
				}
				st, err := prog.Stats()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(st.Runtime)/float64(st.RunCount), "kernel-ns/run")
			})
		}
	}
}
