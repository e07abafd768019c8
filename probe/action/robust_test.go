package action

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
)

// one makes a program of one action.
func one(body ...*Stmt) *Program {
	return &Program{Name: "one", Actions: []Action{{Target: probe.RawTracepoint{Name: "sys_enter"}, Body: body}}}
}

// TestErrorsSayWhereAndWhat: wrong programs are refused, with the position of
// the mistake and a cause that a person understands.
func TestErrorsSayWhereAndWhat(t *testing.T) {
	task := kernelBTF()["task"]
	here := Pos{File: "x.bt", Line: 3, Col: 7}
	hash := &Map{Name: "h", Kind: MapHash, Key: u32, Value: u64}
	agg := &Map{Name: "a", Agg: AggSum, Key: u32}
	ptr := &Expr{Op: OpArg}
	for _, c := range []struct {
		name string
		p    *Program
		want string
	}{
		{"builtin", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpBuiltin, Str: "pidd", Pos: here}}), `x.bt:3:7: pidd: no builtin "pidd"; did you mean "pid"?`},
		{"member", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpMember, Str: "tgit", Args: []*Expr{ptr}, Pos: here}}), `no member "tgit"; did you mean "tgid"?`},
		{"unset", one(&Stmt{Op: StmtEval, X: NewVar(&Var{Name: "x"})}), "used before it is set"},
		{"scope", one(
			&Stmt{Op: StmtIf, X: NewBuiltin("pid"), Body: []*Stmt{{Op: StmtLet, Var: scoped, X: NewConst(1)}}},
			&Stmt{Op: StmtEval, X: NewVar(scoped)}), "used before it is set"},
		{"key", one(&Stmt{Op: StmtSet, Map: hash, Key: NewBuiltin("comm"), X: NewConst(1)}), "key of h: comm is str[16], not u32"},
		{"nokey", one(&Stmt{Op: StmtSet, Map: hash, X: NewConst(1)}), "needs a key"},
		{"value", one(&Stmt{Op: StmtSet, Map: hash, Key: NewConst(1), X: NewString("x")}), "value of h"},
		{"aggread", one(&Stmt{Op: StmtEval, X: (&Expr{Op: OpMapGet, Args: []*Expr{NewConst(1)}}).withMap(agg)}), "aggregates"},
		{"break", one(&Stmt{Op: StmtBreak, Pos: here}), "x.bt:3:7: break: break outside of a loop"},
		{"loop", one(&Stmt{Op: StmtLoop, X: NewBuiltin("pid")}), "needs Max"},
		{"arg", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpArg, Int: 9}}), "argument 9: the probe has 1"},
		{"argname", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpArg, Str: "a1"}}), `no argument "a1"; did you mean "a0"?`},
		{"ret", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpRet}}), "no return value"},
		{"regs", one(&Stmt{Op: StmtEval, X: NewBuiltin("ip")}), "gives no registers"},
		{"goid", one(&Stmt{Op: StmtEval, X: NewBuiltin("goid")}), "no Go program"},
		{"nil", one(&Stmt{Op: StmtEval}), "missing expression"},
		{"arity", one(&Stmt{Op: StmtEval, X: NewExpr(OpAdd)}), "0 operands"},
		{"op", one(&Stmt{Op: StmtEval, X: NewExpr(opLoad)}), "no such operation"},
		{"stmt", one(&Stmt{Op: 99}), "no such statement"},
		{"text", one(&Stmt{Op: StmtEval, X: NewExpr(OpAdd, NewBuiltin("comm"), NewConst(1))}), "not a number"},
		{"order", one(&Stmt{Op: StmtEval, X: NewExpr(OpLt, NewBuiltin("comm"), NewString("x"))}), "only == and !="},
		{"nul", one(&Stmt{Op: StmtEval, X: NewExpr(OpEq, NewBuiltin("comm"), NewString("a\x00b"))}), "NUL"},
		{"name", one(&Stmt{Op: StmtAgg, Map: &Map{Name: "a.b", Agg: AggCount}}), "bad name"},
		{"lhist", one(&Stmt{Op: StmtAgg, Map: &Map{Name: "l", Agg: AggLinear, Min: 0, Max: 10, Step: 3}, X: NewConst(1)}), "must divide"},
		{"type", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpCast, Type: IntType(3, true), Args: []*Expr{NewConst(1)}}}), "integer of 3 bytes"},
		{"kaddr", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpKaddr, Str: "jiffies"}}), "does not name the kernel symbol"},
		{"override", one(&Stmt{Op: StmtOverride, X: NewConst(1)}), "cannot override"},
		{"path", one(&Stmt{Op: StmtEval, X: &Expr{Op: OpMember, Str: "a..b", Args: []*Expr{ptr}}}), "empty name"},
	} {
		plan := rawPlan("6.1.0", "amd64", &btf.Pointer{Target: task})
		_, err := Compile(c.p, plan)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
}

var scoped = &Var{Name: "s"}

// TestUnsupportedIsSaid: what a kernel lacks is errors.ErrUnsupported.
func TestUnsupportedIsSaid(t *testing.T) {
	hash := &Map{Name: "h", Kind: MapHash, Key: u32, Value: u64}
	for _, p := range []*Program{
		one(&Stmt{Op: StmtEval, X: NewBuiltin("nsecs_tai")}),
		one(&Stmt{Op: StmtForEach, Map: hash, Var: &Var{}, Var2: &Var{}}),
		one(&Stmt{Op: StmtEval, X: &Expr{Op: OpMember, Str: "pid", Args: []*Expr{NewExpr(OpCast, NewConst(1)).named("task_struct")}}}),
	} {
		if _, err := Compile(p, rawPlan("5.10.0", "amd64")); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	}
}

func (e *Expr) named(s string) *Expr {
	e.Str, e.Type = s, Type{Kind: KindPtr, Size: 8}
	return e
}

// TestDeepAndShared: deep trees and trees that share nodes so that they would
// be exponentially large are refused, not computed.
func TestDeepAndShared(t *testing.T) {
	deep := NewConst(1)
	for range 100000 {
		deep = NewExpr(OpNot, deep)
	}
	shared := NewBuiltin("pid")
	for range 60 {
		shared = NewExpr(OpAdd, shared, shared)
	}
	for _, e := range []*Expr{deep, shared} {
		_, err := Compile(one(&Stmt{Op: StmtEval, X: e}), rawPlan("6.1.0", "amd64"))
		if err == nil {
			t.Error("no error")
		}
		if s := e.String(); len(s) > 1<<20 {
			t.Errorf("%d bytes of text", len(s))
		}
	}
}

// FuzzCompile makes programs of bytes, mostly ill-typed ones: Compile must not
// panic, and what it accepts must have a text and compile to the same again. Some
// thousand executions a second, of which each compiles a program twice.
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
		spec, err := Compile(p, plan)
		if err != nil {
			_ = err.Error()
			return
		}
		_ = p.String()
		again, err := Compile(p, plan)
		if err != nil || fmt.Sprint(again.Programs["p0"].Instructions) != fmt.Sprint(spec.Programs["p0"].Instructions) {
			t.Fatalf("two compilations differ: %v", err)
		}
	})
}

// byteProg reads a program from bytes.
type byteProg struct {
	data []byte
	vars []*Var
	maps []*Map
}

func (b *byteProg) next() int {
	if len(b.data) == 0 {
		return 0
	}
	c := b.data[0]
	b.data = b.data[1:]
	return int(c)
}

func (b *byteProg) stmts(depth int) []*Stmt {
	var out []*Stmt
	for range b.next() % 5 {
		s := &Stmt{
			Op: StmtOp(b.next() % int(numStmts+1)), X: b.expr(4), Key: b.expr(2), Map: b.anyMap(), Var: b.anyVar(),
			Var2: b.anyVar(), Max: b.next(), Delete: b.next()%2 == 0, Flag: MapFlag(b.next() % 4),
		}
		if depth > 0 {
			s.Body, s.Else = b.stmts(depth-1), b.stmts(depth-1)
		}
		out = append(out, s)
	}
	return out
}

func (b *byteProg) expr(depth int) *Expr {
	n := b.next()
	if n%16 == 15 {
		return nil
	}
	e := &Expr{
		Op: Op(n % int(numOps+1)), Type: b.anyType(2), Int: int64(b.next()), Skip: b.next() % 8,
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

func (b *byteProg) anyVar() *Var {
	if n := b.next() % 6; n < len(b.vars) {
		return b.vars[n]
	}
	v := &Var{Name: "v"}
	b.vars = append(b.vars, v)
	return v
}

func (b *byteProg) anyMap() *Map {
	n := b.next() % 8
	if n == 7 {
		return nil
	}
	if n < len(b.maps) {
		return b.maps[n]
	}
	m := &Map{
		Name: fmt.Sprintf("m%d", len(b.maps)), Kind: MapKind(b.next() % int(numMapKinds+1)), Key: b.anyType(2),
		Value: b.anyType(2), Agg: Agg(b.next() % int(numAggs+1)), Entries: b.next(), Bits: b.next() % 8,
		Min: 0, Max: 100, Step: 10, Interval: 1000, Slots: 4, Inner: Agg(b.next() % 6),
	}
	b.maps = append(b.maps, m)
	return m
}

func (b *byteProg) anyType(depth int) Type {
	switch b.next() % 8 {
	case 0, 1:
		return Type{}
	case 2:
		return intTypes[b.next()%len(intTypes)]
	case 3:
		return StringType(b.next())
	case 4:
		return BytesType(b.next() * 8).WithFormat(Format(b.next() % 20))
	case 5:
		return PtrType(nil, b.next()%2 == 0)
	case 6:
		if depth > 0 {
			return TupleType(Field{Type: b.anyType(depth - 1)}, Field{Type: b.anyType(depth - 1)})
		}
	}
	return Type{Kind: Kind(b.next()), Size: b.next() - 3, Signed: b.next()%2 == 0}
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
		steps, err := parsePath(in)
		got := fmt.Sprint(steps)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
}

// BenchmarkCompile compiles a program of 100 statements: under 2 ms is asked.
func BenchmarkCompile(b *testing.B) {
	hist := NewHistBy[uint32]("h", 100)
	p := NewProgram("hundred")
	p.On(probe.RawTracepoint{}, func(c *Ctx) {
		for i := range 50 {
			d := c.Arg(0).Mul(i).Add(c.Arg(1))
			c.If(d.Gt(i), func() { hist.Observe(c, d, c.PID()) })
		}
	})
	plan := rawPlan("6.12.0", "amd64", nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(p, plan); err != nil {
			b.Fatal(err)
		}
	}
}
