package difftest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// one makes a program of one action.
func one(body ...*ir.Stmt) *ir.Program {
	return &ir.Program{Name: "one", Actions: []ir.Action{{Target: probe.RawTracepoint{Name: "sys_enter"}, Body: body}}}
}

// TestErrorsSayWhereAndWhat: wrong programs are refused, with the position of the mistake and
// an understandable cause.
func TestErrorsSayWhereAndWhat(t *testing.T) {
	task := kernelBTF()["task"]
	here := ir.Pos{File: "x.bt", Line: 3, Col: 7}
	hash := &ir.Map{Name: "h", Kind: ir.MapHash, Key: ir.IntType(4, false), Value: ir.Uint64Type()}
	agg := &ir.Map{Name: "a", Agg: ir.AggSum, Key: ir.IntType(4, false)}
	ptr := &ir.Expr{Op: ir.OpArg}
	for _, c := range []struct {
		name string
		p    *ir.Program
		want string
	}{
		{"builtin", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpBuiltin, Str: "pidd", Pos: here}}), `x.bt:3:7: pidd: no builtin "pidd"; did you mean "pid"?`},
		{"member", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpMember, Str: "tgit", Args: []*ir.Expr{ptr}, Pos: here}}), `no member "tgit"; did you mean "tgid"?`},
		{"unset", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewVar(&ir.Var{Name: "x"})}), "used before it is set"},
		{"scope", one(
			&ir.Stmt{Op: ir.StmtIf, X: ir.NewBuiltin("pid"), Body: []*ir.Stmt{{Op: ir.StmtLet, Var: scoped, X: ir.NewConst(1)}}},
			&ir.Stmt{Op: ir.StmtEval, X: ir.NewVar(scoped)}), "used before it is set"},
		{"key", one(&ir.Stmt{Op: ir.StmtSet, Map: hash, Key: ir.NewBuiltin("comm"), X: ir.NewConst(1)}), "key of h: comm is str[16], not u32"},
		{"nokey", one(&ir.Stmt{Op: ir.StmtSet, Map: hash, X: ir.NewConst(1)}), "needs a key"},
		{"value", one(&ir.Stmt{Op: ir.StmtSet, Map: hash, Key: ir.NewConst(1), X: ir.NewString("x")}), "value of h"},
		{"aggread", one(&ir.Stmt{Op: ir.StmtEval, X: withMap((&ir.Expr{Op: ir.OpMapGet, Args: []*ir.Expr{ir.NewConst(1)}}), agg)}), "aggregates"},
		{"break", one(&ir.Stmt{Op: ir.StmtBreak, Pos: here}), "x.bt:3:7: break: break outside of a loop"},
		{"loop", one(&ir.Stmt{Op: ir.StmtLoop, X: ir.NewBuiltin("pid")}), "needs Max"},
		{"arg", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpArg, Int: 9}}), "argument 9: the probe has 1"},
		{"argname", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpArg, Str: "a1"}}), `no argument "a1"; did you mean "a0"?`},
		{"ret", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpRet}}), "no return value"},
		{"regs", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewBuiltin("ip")}), "gives no registers"},
		{"goid", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewBuiltin("goid")}), "not a Go program"},
		{"nil", one(&ir.Stmt{Op: ir.StmtEval}), "missing expression"},
		{"arity", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewExpr(ir.OpAdd)}), "0 operands"},
		{"op", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewExpr(ir.OpTaskTID + 64)}), "no such operation"},
		{"stmt", one(&ir.Stmt{Op: 99}), "no such statement"},
		{"text", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewExpr(ir.OpAdd, ir.NewBuiltin("comm"), ir.NewConst(1))}), "not a number"},
		{"order", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewExpr(ir.OpLt, ir.NewBuiltin("comm"), ir.NewString("x"))}), "only == and !="},
		{"nul", one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewExpr(ir.OpEq, ir.NewBuiltin("comm"), ir.NewString("a\x00b"))}), "NUL"},
		{"name", one(&ir.Stmt{Op: ir.StmtAgg, Map: &ir.Map{Name: "a.b", Agg: ir.AggCount}}), "bad name"},
		{"lhist", one(&ir.Stmt{Op: ir.StmtAgg, Map: &ir.Map{Name: "l", Agg: ir.AggLinear, Min: 0, Max: 10, Step: 3}, X: ir.NewConst(1)}), "must divide"},
		{"time", one(&ir.Stmt{Op: ir.StmtAgg, Map: &ir.Map{Name: "s", Agg: ir.AggSum}, X: ir.NewConst(1), Time: ir.NewConst(1)}), "sum has no times"},
		{"type", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpCast, Type: ir.IntType(3, true), Args: []*ir.Expr{ir.NewConst(1)}}}), "integer of 3 bytes"},
		{"kaddr", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpKaddr, Str: "jiffies"}}), "does not name the kernel symbol"},
		{"override", one(&ir.Stmt{Op: ir.StmtOverride, X: ir.NewConst(1)}), "cannot override"},
		{"path", one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpMember, Str: "a..b", Args: []*ir.Expr{ptr}}}), "empty name"},
	} {
		plan := rawPlan("6.1.0", "amd64", &btf.Pointer{Target: task})
		_, err := bpf.Compile(c.p, plan)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
}

var scoped = &ir.Var{Name: "s"}

// TestUnsupportedIsSaid: missing kernel features are errors that match errors.ErrUnsupported.
func TestUnsupportedIsSaid(t *testing.T) {
	hash := &ir.Map{Name: "h", Kind: ir.MapHash, Key: ir.IntType(4, false), Value: ir.Uint64Type()}
	for _, p := range []*ir.Program{
		one(&ir.Stmt{Op: ir.StmtEval, X: ir.NewBuiltin("nsecs_tai")}),
		one(&ir.Stmt{Op: ir.StmtForEach, Map: hash, Var: &ir.Var{}, Var2: &ir.Var{}}),
		one(&ir.Stmt{Op: ir.StmtEval, X: &ir.Expr{Op: ir.OpMember, Str: "pid", Args: []*ir.Expr{named(ir.NewExpr(ir.OpCast, ir.NewConst(1)), "task_struct")}}}),
	} {
		if _, err := bpf.Compile(p, rawPlan("5.10.0", "amd64")); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	}
}

func named(e *ir.Expr, s string) *ir.Expr {
	e.Str, e.Type = s, ir.Type{Kind: ir.KindPtr, Size: 8}
	return e
}

// TestDeepAndShared: trees that are too deep, and trees that share nodes and would be
// exponentially large, are refused without being expanded.
func TestDeepAndShared(t *testing.T) {
	deep := ir.NewConst(1)
	for range 100000 {
		deep = ir.NewExpr(ir.OpNot, deep)
	}
	shared := ir.NewBuiltin("pid")
	for range 60 {
		shared = ir.NewExpr(ir.OpAdd, shared, shared)
	}
	for _, e := range []*ir.Expr{deep, shared} {
		_, err := bpf.Compile(one(&ir.Stmt{Op: ir.StmtEval, X: e}), rawPlan("6.1.0", "amd64"))
		if err == nil {
			t.Error("no error")
		}
		if s := e.String(); len(s) > 1<<20 {
			t.Errorf("%d bytes of text", len(s))
		}
	}
}

// FuzzCompile makes programs from bytes, most of them ill-typed. Compile must not panic, and
// a program that it accepts must have a text and compile to the same again. Some thousand
// executions a second, each of which compiles a program twice.
func FuzzCompile(f *testing.F) {
	for seed := range 40 {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	task := kernelBTF()["task"]
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &byteProg{data: data}
		p := one(b.stmts(3)...)
		plan := rawPlan([]string{"5.10.0", "6.12.0"}[len(data)%2], "amd64", &btf.Pointer{Target: task}, argTypes[2])
		spec, err := bpf.Compile(p, plan)
		if err != nil {
			_ = err.Error()
			return
		}
		_ = p.String()
		again, err := bpf.Compile(p, plan)
		if err != nil || fmt.Sprint(again.Programs["p0"].Instructions) != fmt.Sprint(spec.Programs["p0"].Instructions) {
			t.Fatalf("two compilations differ: %v", err)
		}
	})
}

// byteProg reads a program from bytes.
type byteProg struct {
	data []byte
	vars []*ir.Var
	maps []*ir.Map
}

func (b *byteProg) next() int {
	if len(b.data) == 0 {
		return 0
	}
	c := b.data[0]
	b.data = b.data[1:]
	return int(c)
}

func (b *byteProg) stmts(depth int) []*ir.Stmt {
	var out []*ir.Stmt
	for range b.next() % 5 {
		s := &ir.Stmt{
			Op: ir.StmtOp(b.next() % int(ir.StmtSkip+2)), X: b.expr(4), Key: b.expr(2), Map: b.anyMap(), Var: b.anyVar(),
			Var2: b.anyVar(), Max: b.next(), Delete: b.next()%2 == 0, Flag: ir.MapFlag(b.next() % 4),
		}
		if depth > 0 {
			s.Body, s.Else = b.stmts(depth-1), b.stmts(depth-1)
		}
		out = append(out, s)
	}
	return out
}

func (b *byteProg) expr(depth int) *ir.Expr {
	n := b.next()
	if n%16 == 15 {
		return nil
	}
	e := &ir.Expr{
		Op: ir.Op(n % int(ir.OpUstackWalk+3)), Type: b.anyType(2), Int: int64(b.next()), Skip: b.next() % 8,
		Str: []string{"pid", "comm", "a0", "tgid", "real_parent->comm", "prio[2]", "tail", "", "x.y[", "flag3"}[b.next()%10],
		Var: b.anyVar(), Map: b.anyMap(),
	}
	if depth > 0 {
		for range b.next() % 4 {
			e.Args = append(e.Args, b.expr(depth-1))
		}
	}
	return e
}

func (b *byteProg) anyVar() *ir.Var {
	if n := b.next() % 6; n < len(b.vars) {
		return b.vars[n]
	}
	v := &ir.Var{Name: "v"}
	b.vars = append(b.vars, v)
	return v
}

func (b *byteProg) anyMap() *ir.Map {
	n := b.next() % 8
	if n == 7 {
		return nil
	}
	if n < len(b.maps) {
		return b.maps[n]
	}
	m := &ir.Map{
		Name: fmt.Sprintf("m%d", len(b.maps)), Kind: ir.MapKind(b.next() % int(ir.MapPerf+2)), Key: b.anyType(2),
		Value: b.anyType(2), Agg: ir.Agg(b.next() % int(ir.AggSeries+2)), Entries: b.next(), Bits: b.next() % 8,
		Min: 0, Max: 100, Step: 10, Interval: 1000, Slots: 4, Inner: ir.Agg(b.next() % 6),
	}
	b.maps = append(b.maps, m)
	return m
}

func (b *byteProg) anyType(depth int) ir.Type {
	switch b.next() % 8 {
	case 0, 1:
		return ir.Type{}
	case 2:
		return intTypes[b.next()%len(intTypes)]
	case 3:
		return ir.StringType(b.next())
	case 4:
		return ir.BytesType(b.next() * 8).WithFormat(ir.Format(b.next() % 20))
	case 5:
		return ir.PtrType(nil, b.next()%2 == 0)
	case 6:
		if depth > 0 {
			return ir.TupleType(ir.Field{Type: b.anyType(depth - 1)}, ir.Field{Type: b.anyType(depth - 1)})
		}
	}
	return ir.Type{Kind: ir.Kind(b.next()), Size: b.next() - 3, Signed: b.next()%2 == 0}
}

// TestPaths: paths of members parse as C writes them.
func TestPaths(t *testing.T) {
	for in, want := range map[string]string{
		"a":             "[{a 0}]",
		"a.b":           "[{a 0} {b 0}]",
		"a->b.c":        "[{a 0} {b 0} {c 0}]",
		"a[3]":          "[{a 0} { 3}]",
		"a[1][0x2].b":   "[{a 0} { 1} { 2} {b 0}]",
		"a[1]->b":       "[{a 0} { 1} {b 0}]",
		"":              "error",
		"a.":            "error",
		".a":            "error",
		"a..b":          "error",
		"a[":            "error",
		"a[x]":          "error",
		"a[-1]":         "error",
		"a->":           "error",
		"a-b":           "error",
		"a[9999999999]": "error",
	} {
		steps, err := check.ParsePath(in)
		got := fmt.Sprint(steps)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
}

// BenchmarkCompile compiles a program of 100 statements. The goal is less than 2 ms.
func BenchmarkCompile(b *testing.B) {
	hist := action.NewHist[uint32]("h", 100)
	p := action.NewProgram("hundred")
	p.On(probe.RawTracepoint{}, func(c *action.Ctx) {
		for i := range 50 {
			d := c.Arg(0).Mul(i).Add(c.Arg(1))
			c.If(d.Gt(i), func() { hist.Observe(c, d, c.PID()) })
		}
	})
	plan := rawPlan("6.12.0", "amd64", nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bpf.Compile(p.Program, plan); err != nil {
			b.Fatal(err)
		}
	}
}
