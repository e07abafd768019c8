//go:build linux

package action

import (
	"bytes"
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
)

// loopForms are the forms that the running kernel has.
func loopForms(t testing.TB) []LoopForm {
	t.Helper()
	since := [numLoopForms]Version{LoopsHelper: bpfLoopSince, LoopsIter: iterNumSince, LoopsMayGoto: mayGotoSince}
	var forms []LoopForm
	for form := range numLoopForms {
		if kernelVersion(runningKernel(t)).AtLeast(since[form]) {
			forms = append(forms, form)
		}
	}
	return forms
}

// kernelBTFOnce are the running kernel's types, read once.
var kernelBTFOnce = sync.OnceValues(func() (*btf.Spec, error) { return probe.NewEnv(nil).BTF() })

// loopPlan is a plan for the running kernel, with its types where a form needs them.
func loopPlan(t testing.TB, form LoopForm, args ...btf.Type) *probe.Plan {
	t.Helper()
	plan := rawPlan(runningKernel(t), runtime.GOARCH, args...)
	if form == LoopsIter {
		types, err := kernelBTFOnce()
		if err != nil {
			t.Fatal(err)
		}
		plan.BTF = types
	}
	return plan
}

// runLoop runs a program in the kernel and in the interpreter, with one argument,
// and compares the values that it leaves in out. It returns the verifier's work.
func runLoop(t *testing.T, p *Program, form LoopForm, out *Map, arg uint64) uint32 {
	t.Helper()
	p.Loops, p.IncludeSelf = form, true
	plan := loopPlan(t, form, argTypes[1])
	spec, err := Compile(p, plan)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	coll := loadSpec(t, spec)
	runRaw(t, coll.Programs["p0"], arg)
	in, err := NewInterp(p, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Context: binary.LittleEndian.AppendUint64(nil, arg)}
	if err := in.Run(m); err != nil {
		t.Fatal(err)
	}
	agree(t, coll, m, out, func() string { return fmt.Sprintf("%s\n%s", form, p) })
	info, err := coll.Programs["p0"].Info()
	if err != nil {
		t.Fatal(err)
	}
	cost, _ := info.VerifiedInstructions()
	return cost
}

// TestLoopForms: every form of loop that the kernel has computes what the
// interpreter does, nested, left in the middle, and with a body that changes the
// loop's own variable.
func TestLoopForms(t *testing.T) {
	needRoot(t)
	v, i, j := &Var{Name: "v"}, &Var{Name: "i"}, &Var{Name: "j"}
	out := &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 2}
	store := func(slot int64, x *Expr) *Stmt { return &Stmt{Op: StmtSet, Map: out, Key: NewConst(slot), X: x} }
	let := func(v *Var, x *Expr) *Stmt { return &Stmt{Op: StmtLet, Var: v, X: x} }
	add := func(v *Var, x *Expr) *Stmt { return let(v, NewExpr(OpAdd, NewVar(v), x)) }
	when := func(v *Var, n int64, s *Stmt) *Stmt {
		return &Stmt{Op: StmtIf, X: NewExpr(OpEq, NewVar(v), NewConst(n)), Body: []*Stmt{s}}
	}
	loop := func(v *Var, x *Expr, most int, body ...*Stmt) *Stmt {
		return &Stmt{Op: StmtLoop, Var: v, X: x, Max: most, Body: body}
	}
	arg := &Expr{Op: OpArg}
	for name, body := range map[string][]*Stmt{
		"nested":   {loop(i, arg, 30, loop(j, NewConst(12), 0, add(v, NewVar(j)), when(j, 10, &Stmt{Op: StmtContinue}), add(v, NewConst(3))))},
		"break":    {loop(i, arg, 30, add(v, NewVar(i)), loop(j, NewVar(i), 20, when(j, 9, &Stmt{Op: StmtBreak}), add(v, NewConst(1))))},
		"return":   {loop(i, arg, 30, store(1, NewVar(i)), loop(j, NewConst(20), 0, when(i, 17, &Stmt{Op: StmtReturn}), add(v, NewConst(1))))},
		"changed":  {loop(i, arg, 30, add(i, NewConst(5)), add(v, NewVar(i)))},
		"constant": {loop(i, NewConst(25), 0, add(v, NewVar(i))), loop(i, NewConst(25), 11, add(v, NewVar(i)))},
		"none":     {loop(i, NewExpr(OpSub, arg, arg), 30, add(v, NewConst(1))), loop(nil, NewConst(3), 0, add(v, NewConst(1)))},
		"text": {loop(i, arg, 30, when(v, 7, store(1, NewExpr(OpLen, NewBuiltin("comm")))),
			add(v, NewExpr(OpAdd, NewConst(1), NewExpr(OpLen, &Expr{Op: OpCond, Args: []*Expr{NewExpr(OpGt, NewVar(i), NewConst(4)), NewString("abc"), NewString("")}}))))},
	} {
		for _, form := range loopForms(t) {
			walked := form == LoopsPlain || form == LoopsMayGoto || !kernelVersion(runningKernel(t)).AtLeast(bpfLoopSince)
			if name == "text" && walked {
				continue // the verifier gives up on 30 times this body's branches, on 6.12 for may_goto too
			}
			t.Run(name+"/"+form.String(), func(t *testing.T) {
				p := one(append(append([]*Stmt{let(v, arg)}, body...), store(0, NewVar(v)))...)
				runLoop(t, p, form, out, 23)
			})
		}
	}
}

// TestLoopOverMapLoops: a loop inside of one over a map, which is a callback's body.
func TestLoopOverMapLoops(t *testing.T) {
	needRoot(t)
	if !kernelVersion(runningKernel(t)).AtLeast(forEachSince) {
		testenv.Need(t, testenv.Feature(feature.ForEachMapElem))
	}
	v, i, k := &Var{Name: "v"}, &Var{Name: "i"}, &Var{Name: "k"}
	out := &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 4}
	inner := &Stmt{Op: StmtLoop, Var: i, X: &Expr{Op: OpArg}, Max: 20, Body: []*Stmt{
		{Op: StmtLet, Var: v, X: NewExpr(OpAdd, NewVar(v), NewExpr(OpMul, NewVar(i), NewVar(k)))},
	}}
	for _, form := range loopForms(t) {
		runLoop(t, one(
			&Stmt{Op: StmtLet, Var: v, X: NewConst(0)},
			&Stmt{Op: StmtForEach, Map: out, Var: k, Body: []*Stmt{inner}},
			&Stmt{Op: StmtLoop, Var: i, X: NewConst(12), Body: []*Stmt{
				{Op: StmtLet, Var: v, X: NewExpr(OpAdd, NewVar(v), NewVar(i))},
			}},
			&Stmt{Op: StmtSet, Map: out, Key: NewConst(0), X: NewVar(v)},
		), form, out, 17)
	}
}

// TestLoopFormsCompiled: a form is compiled to what its name says, LoopsBest to
// what the kernel has, and what the kernel lacks is refused.
func TestLoopFormsCompiled(t *testing.T) {
	types := kernelTypesFixture(t)
	is := map[LoopForm]func(asm.Instruction) bool{
		LoopsHelper:  func(in asm.Instruction) bool { return in.IsBuiltinCall() && in.Constant == int64(asm.FnLoop) },
		LoopsIter:    func(in asm.Instruction) bool { return in.IsKfuncCall() },
		LoopsMayGoto: func(in asm.Instruction) bool { return in.OpCode.JumpOp() == asm.JCOND && in.OpCode.Class().IsJump() },
	}
	compiled := func(form LoopForm, kernel string, turns ...int) (LoopForm, error) {
		var body []*Stmt
		for _, n := range turns {
			body = append(body, &Stmt{Op: StmtLoop, X: &Expr{Op: OpArg}, Max: n, Body: []*Stmt{{Op: StmtEval, X: NewBuiltin("pid")}}})
		}
		p := one(body...)
		p.Loops = form
		plan := rawPlan(kernel, "amd64", argTypes[1])
		plan.BTF = types
		spec, err := Compile(p, plan)
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
		return LoopsPlain, nil
	}
	for _, c := range []struct {
		form   LoopForm
		kernel string
		turns  []int
		want   LoopForm
	}{
		{LoopsBest, "5.10.0", []int{100}, LoopsPlain},
		{LoopsBest, "6.1.0", []int{100}, LoopsHelper},
		{LoopsBest, "6.11.0", []int{100}, LoopsHelper},
		{LoopsBest, "6.12.0", []int{100, 60_000}, LoopsMayGoto},
		{LoopsBest, "6.12.0", []int{100, 70_000}, LoopsHelper},
		{LoopsBest, "6.12.0", []int{8}, LoopsPlain},
		{LoopsPlain, "6.12.0", []int{100}, LoopsPlain},
		{LoopsHelper, "6.12.0", []int{100}, LoopsHelper},
		{LoopsIter, "6.4.0", []int{5_000_000}, LoopsIter},
		{LoopsMayGoto, "6.9.0", []int{3}, LoopsMayGoto},
	} {
		if got, err := compiled(c.form, c.kernel, c.turns...); err != nil || got != c.want {
			t.Errorf("%s of %d turns on %s: %s, %v; want %s", c.form, c.turns, c.kernel, got, err, c.want)
		}
	}
	for form, kernel := range map[LoopForm]string{LoopsHelper: "5.16.0", LoopsIter: "6.3.0", LoopsMayGoto: "6.8.0"} {
		if _, err := compiled(form, kernel, 100); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s on %s: %v", form, kernel, err)
		}
	}
	for form, turns := range map[LoopForm]int{LoopsPlain: 5000, LoopsMayGoto: 70_000, LoopsHelper: 1<<23 + 1, numLoopForms: 10} {
		if _, err := compiled(form, "6.12.0", turns); err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s of %d turns: %v", form, turns, err)
		}
	}
}

// kernelTypesFixture are types with the functions of LoopsIter.
func kernelTypesFixture(t *testing.T) *btf.Spec {
	t.Helper()
	var funcs []btf.Type
	for _, name := range []string{kfuncIterNew, kfuncIterNext, kfuncIterDestroy} {
		funcs = append(funcs, &btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Void{}}, Linkage: btf.StaticFunc})
	}
	b, err := btf.NewBuilder(funcs, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestLoopsConverge: loops whose variables begin as known numbers and decide
// branches are verified at a cost that the number of turns does not change, and
// compute what the interpreter does.
func TestLoopsConverge(t *testing.T) {
	needRoot(t)
	if !kernelVersion(runningKernel(t)).AtLeast(bpfLoopSince) {
		testenv.Need(t, testenv.Feature(feature.BPFLoop))
	}
	v, i := &Var{Name: "v"}, &Var{Name: "i"}
	let := func(x *Expr) *Stmt { return &Stmt{Op: StmtLet, Var: v, X: x} }
	plus := func(n int64) *Stmt { return let(NewExpr(OpAdd, NewVar(v), NewConst(n))) }
	when := func(op Op, x *Expr, n int64, then, or []*Stmt) *Stmt {
		return &Stmt{Op: StmtIf, X: NewExpr(op, x, NewConst(n)), Body: then, Else: or}
	}
	out := &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 1}
	for n, body := range [][]*Stmt{
		{plus(1)},
		{plus(1), when(OpGt, NewVar(v), 50, []*Stmt{{Op: StmtBreak}}, nil)},
		{when(OpEq, NewExpr(OpMod, NewVar(v), NewConst(3)), 0, []*Stmt{plus(5)}, []*Stmt{plus(1)})},
		{when(OpEq, NewVar(i), 70, []*Stmt{{Op: StmtBreak}}, []*Stmt{plus(2)})},
		{let(NewExpr(OpAdd, NewVar(v), NewVar(i))), when(OpLt, NewVar(v), 10, []*Stmt{plus(100)}, nil)},
		{when(OpLt, NewVar(v), 5, []*Stmt{let(NewConst(9))}, []*Stmt{let(NewConst(2))})},
	} {
		for _, form := range loopForms(t) {
			if form == LoopsPlain {
				continue
			}
			var costs []uint32
			for _, most := range []int{100, 60_000} {
				p := one(let(NewConst(0)),
					&Stmt{Op: StmtLoop, Var: i, X: &Expr{Op: OpArg}, Max: most, Body: body},
					&Stmt{Op: StmtSet, Map: out, Key: NewConst(0), X: NewVar(v)})
				costs = append(costs, runLoop(t, p, form, out, 93))
			}
			if costs[0] != costs[1] {
				t.Errorf("%s, body %d: verified %d instructions for 100 turns, %d for 60,000", form, n, costs[0], costs[1])
			}
		}
	}
}

// BenchmarkLoops measures 100 turns of a loop that adds its index to a variable:
// the kernel's own time by its own count.
func BenchmarkLoops(b *testing.B) {
	needRoot(b)
	stop, err := ebpf.EnableStats(0)
	if err != nil {
		b.Fatal(err)
	}
	defer stop.Close()
	v, i := &Var{Name: "v"}, &Var{Name: "i"}
	for _, form := range loopForms(b) {
		for _, turns := range []int64{0, 8, 100, 1000} {
			b.Run(fmt.Sprintf("%s-%d", form, turns), func(b *testing.B) {
				out := &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 1}
				p := one(&Stmt{Op: StmtLet, Var: v, X: &Expr{Op: OpArg}},
					&Stmt{Op: StmtLoop, Var: i, X: &Expr{Op: OpArg}, Max: 1000, Body: []*Stmt{
						{Op: StmtLet, Var: v, X: NewExpr(OpAdd, NewVar(v), NewVar(i))},
					}},
					&Stmt{Op: StmtSet, Map: out, Key: NewConst(0), X: NewVar(v)})
				p.Loops, p.IncludeSelf = form, true
				spec, err := Compile(p, loopPlan(b, form, argTypes[1]))
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
