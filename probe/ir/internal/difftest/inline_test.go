package difftest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/interp"
)

// clocks returns the builtins whose values change while a probe runs.
func clocks() (names []string) {
	for _, b := range builtin.Rows() {
		if b.Clock {
			names = append(names, b.Name)
		}
	}
	return names
}

func inlinePlan() *probe.Plan { return rawPlan("6.12.0", "amd64", argTypes[0], argTypes[1]) }

// TestClocksKeepOrder: the second of two readings was moved to its only use, and the first
// behind it, so that the time between them was negative.
func TestClocksKeepOrder(t *testing.T) {
	for _, name := range clocks() {
		out := action.NewHash[uint32, uint64]("out", 8)
		p := action.NewProgram("clocks")
		p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
			first := c.Builtin(name)
			second := c.Builtin(name)
			out.Set(c, c.CPU(), second.Sub(first))
		})
		now := uint64(1000)
		m := &interp.Machine{Builtin: func(s string) uint64 {
			if s == name {
				now++
				return now
			}
			return 0
		}}
		if err := interpret(t, p.Program, inlinePlan()).optimised.Run(m); err != nil {
			t.Fatal(err)
		}
		for _, b := range m.Maps[out.Map()] {
			if d := binary.LittleEndian.Uint64(b); d != 1 {
				t.Errorf("%s: the second reading is %d later than the first", name, int64(d))
			}
		}
		if len(m.Maps[out.Map()]) != 1 {
			t.Errorf("%s: no reading", name)
		}
	}
}

// ticking is a machine whose memory changes with each reading of a clock. It records the
// readings in their order.
type ticking struct {
	*interp.Machine
	now uint64
	log []string
}

func newTicking() *ticking {
	k := &ticking{Machine: &interp.Machine{Comm: testCommand}}
	k.Kernel, k.Machine.Builtin = k, func(name string) uint64 {
		if !builtin.Named(name).Clock {
			return uint64(len(name))
		}
		k.now += 7
		k.log = append(k.log, fmt.Sprint(name, k.now))
		return k.now
	}
	return k
}

const testCommand = "a-command"

// ReadMemory reads memory. Every fourth page is missing.
func (k *ticking) ReadMemory(b []byte, addr uint64) error {
	if addr>>12&3 == 3 {
		return io.ErrUnexpectedEOF
	}
	for i := range b {
		b[i] = byte(1 + (addr+uint64(i)+k.now)%200)
	}
	return nil
}

// timed generates random lists of statements as the typed surface records them: values are
// read into variables, which later statements use.
type timed struct {
	*randProg
	out, ring *ir.Map
	slot      int64
}

func (p *timed) key() *ir.Expr {
	p.slot++
	return &ir.Expr{Op: ir.OpConst, Type: ir.IntType(4, false), Int: p.slot % 64}
}

// value returns a random value for a variable.
func (p *timed) value() *ir.Expr {
	names := clocks()
	addr := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(nil, false), Args: []*ir.Expr{p.typed(ir.Uint64Type(), 1)}}
	switch p.r.IntN(6) {
	case 0, 1:
		return ir.NewBuiltin(names[p.r.IntN(len(names))])
	case 2:
		return &ir.Expr{Op: ir.OpLen, Args: []*ir.Expr{{Op: ir.OpStr, Type: ir.StringType(8), Args: []*ir.Expr{addr}}}}
	case 3:
		return &ir.Expr{Op: ir.OpDeref, Type: ir.Uint64Type(), Args: []*ir.Expr{addr}}
	case 4:
		return withMap(ir.NewExpr(ir.OpMapGet, ir.NewExpr(ir.OpMod, p.typed(ir.IntType(4, false), 1), ir.NewConst(64))), p.out)
	}
	return p.typed(ir.Uint64Type(), 2)
}

func (p *timed) list(n, depth int) []*ir.Stmt {
	was := len(p.vars)
	defer func() { p.vars = p.vars[:was] }()
	var body []*ir.Stmt
	for range n {
		switch k := p.r.IntN(10); {
		case k < 6:
			v := &ir.Var{Name: fmt.Sprint("v", len(p.vars)), Type: ir.Uint64Type()}
			body = append(body, &ir.Stmt{Op: ir.StmtLet, Var: v, X: p.value()})
			p.vars = append(p.vars, v)
		case k == 6 && depth > 0:
			body = append(body, &ir.Stmt{Op: ir.StmtIf, X: p.boolean(2), Body: p.list(n/2, depth-1), Else: p.list(n/2, depth-1)})
		case k == 7 && depth > 0:
			body = append(body, &ir.Stmt{Op: ir.StmtLoop, X: ir.NewConst(3), Body: p.list(n/2, depth-1)})
		case k == 8:
			body = append(body, &ir.Stmt{Op: ir.StmtEmit, Map: p.ring, X: p.typed(ir.Uint64Type(), 2)})
		default:
			body = append(body, &ir.Stmt{Op: ir.StmtAdd, Map: p.out, Key: p.key(), X: p.integer(2)})
		}
	}
	// Every value is used once more, so that none may be left out.
	for _, i := range p.r.Perm(len(p.vars) - was) {
		body = append(body, &ir.Stmt{Op: ir.StmtSet, Map: p.out, Key: p.key(), X: ir.NewVar(p.vars[was+i])})
	}
	return body
}

// TestOptimisedMeansTheSame: a program does the same, at the same times, before and after its
// temporaries are inlined.
func TestOptimisedMeansTheSame(t *testing.T) {
	for seed := range uint64(3000) {
		sameOptimised(t, seed)
	}
}

// FuzzOptimised is TestOptimisedMeansTheSame for any seed: a hundred executions a second,
// each of which checks a program three times and runs it four times.
func FuzzOptimised(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(sameOptimised)
}

func sameOptimised(t *testing.T, seed uint64) {
	t.Helper()
	g := &timed{randProg: &randProg{r: rand.New(rand.NewPCG(seed, 4)), args: []ir.Type{ir.Int64Type(), ir.Uint64Type()}}}
	g.out = &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 64}
	g.ring = &ir.Map{Name: "ring", Kind: ir.MapRing, Value: ir.Uint64Type(), Entries: 4096}
	p := one(g.list(10, 2)...)
	in := interpret(t, p, inlinePlan())
	a, b := newTicking(), newTicking()
	a.Context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, seed<<11), ^seed)
	b.Context = a.Context
	for range 2 {
		if err := errors.Join(in.plain.Run(a.Machine), in.optimised.Run(b.Machine)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(a.log, b.log) {
		t.Fatalf("%s: clocks are read as\n%v, optimised\n%v\n%s", seedName(seed), a.log, b.log, p)
	}
	sameMachine(t, p, a.Machine, b.Machine)
}
