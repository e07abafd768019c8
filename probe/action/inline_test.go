package action

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/borescope/borescope/probe"
)

// optimised is the program's interpreter on the tree that code is generated from.
func optimised(t *testing.T, p *Program) *Interp {
	t.Helper()
	in, err := NewInterp(p, inlinePlan(), 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	in.c.inline()
	return in
}

func inlinePlan() *probe.Plan { return rawPlan("6.12.0", "amd64", argTypes[0], argTypes[1]) }

// TestClocksKeepOrder: the second of two readings was put in the place of its
// only use, and the first behind it: the time between them was negative.
func TestClocksKeepOrder(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(clocks)) {
		out := NewHash[uint32, uint64]("out", 8)
		p := NewProgram("clocks")
		p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *Ctx) {
			first := c.Builtin(name)
			second := c.Builtin(name)
			out.Set(c, c.CPU(), second.Sub(first))
		})
		now := uint64(1000)
		m := &Machine{Builtin: func(s string) uint64 {
			if s == name {
				now++
				return now
			}
			return 0
		}}
		if err := optimised(t, p).Run(m); err != nil {
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

// ticking is a machine whose memory changes with each reading of a clock. It
// keeps the readings in their order.
type ticking struct {
	*Machine
	now uint64
	log []string
}

func newTicking() *ticking {
	k := &ticking{Machine: &Machine{Comm: testCommand}}
	k.Kernel, k.Machine.Builtin = k, func(name string) uint64 {
		if !clocks[name] {
			return uint64(len(name))
		}
		k.now += 7
		k.log = append(k.log, fmt.Sprint(name, k.now))
		return k.now
	}
	return k
}

const testCommand = "a-command"

// ReadMemory reads memory of which every fourth page is not there.
func (k *ticking) ReadMemory(b []byte, addr uint64) error {
	if addr>>12&3 == 3 {
		return errSteps
	}
	for i := range b {
		b[i] = byte(1 + (addr+uint64(i)+k.now)%200)
	}
	return nil
}

// timed is a random list of statements as the typed surface records them: values
// are read into variables, which later statements use.
type timed struct {
	*randProg
	out, ring *Map
	slot      int64
}

func (p *timed) key() *Expr {
	p.slot++
	return &Expr{Op: OpConst, Type: u32, Int: p.slot % 64}
}

// value is what a variable is set to.
func (p *timed) value() *Expr {
	names := slices.Sorted(maps.Keys(clocks))
	addr := &Expr{Op: OpCast, Type: PtrType(nil, false), Args: []*Expr{p.typed(u64, 1)}}
	switch p.r.IntN(6) {
	case 0, 1:
		return NewBuiltin(names[p.r.IntN(len(names))])
	case 2:
		return &Expr{Op: OpLen, Args: []*Expr{{Op: OpStr, Type: StringType(8), Args: []*Expr{addr}}}}
	case 3:
		return &Expr{Op: OpDeref, Type: u64, Args: []*Expr{addr}}
	case 4:
		return NewExpr(OpMapGet, NewExpr(OpMod, p.typed(u32, 1), NewConst(64))).withMap(p.out)
	}
	return p.typed(u64, 2)
}

func (p *timed) list(n, depth int) []*Stmt {
	was := len(p.vars)
	defer func() { p.vars = p.vars[:was] }()
	var body []*Stmt
	for range n {
		switch k := p.r.IntN(10); {
		case k < 6:
			v := &Var{Name: fmt.Sprint("v", len(p.vars)), Type: u64}
			body = append(body, &Stmt{Op: StmtLet, Var: v, X: p.value()})
			p.vars = append(p.vars, v)
		case k == 6 && depth > 0:
			body = append(body, &Stmt{Op: StmtIf, X: p.boolean(2), Body: p.list(n/2, depth-1), Else: p.list(n/2, depth-1)})
		case k == 7 && depth > 0:
			body = append(body, &Stmt{Op: StmtLoop, X: NewConst(3), Body: p.list(n/2, depth-1)})
		case k == 8:
			body = append(body, &Stmt{Op: StmtEmit, Map: p.ring, X: p.typed(u64, 2)})
		default:
			body = append(body, &Stmt{Op: StmtAdd, Map: p.out, Key: p.key(), X: p.integer(2)})
		}
	}
	// Every value is used once more, so that none may be left out.
	for _, i := range p.r.Perm(len(p.vars) - was) {
		body = append(body, &Stmt{Op: StmtSet, Map: p.out, Key: p.key(), X: NewVar(p.vars[was+i])})
	}
	return body
}

// TestOptimisedMeansTheSame: a program does the same before and after its
// temporaries are put where they are used, at the same times.
func TestOptimisedMeansTheSame(t *testing.T) {
	for seed := range uint64(3000) {
		sameOptimised(t, seed)
	}
}

// FuzzOptimised is TestOptimisedMeansTheSame on any seed: a hundred executions a
// second, of which each checks a program three times and runs it four times.
func FuzzOptimised(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(sameOptimised)
}

func sameOptimised(t *testing.T, seed uint64) {
	t.Helper()
	g := &timed{randProg: &randProg{r: rand.New(rand.NewPCG(seed, 4)), args: []Type{Int64Type(), u64}}}
	g.out = &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 64}
	g.ring = &Map{Name: "ring", Kind: MapRing, Value: u64, Entries: 4096}
	p := one(g.list(10, 2)...)
	plain, err := NewInterp(p, inlinePlan(), 0)
	if err != nil {
		t.Fatalf("%s: %v\n%s", seedName(seed), err, p)
	}
	a, b := newTicking(), newTicking()
	a.Context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, seed<<11), ^seed)
	b.Context = a.Context
	for range 2 {
		if err := plain.Run(a.Machine); err != nil {
			t.Fatal(err)
		}
		if err := optimised(t, p).Run(b.Machine); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case !slices.Equal(a.log, b.log):
		t.Fatalf("%s: clocks are read as\n%v, optimised\n%v\n%s", seedName(seed), a.log, b.log, p)
	case !reflect.DeepEqual(a.Maps, b.Maps) || !reflect.DeepEqual(a.Events, b.Events):
		t.Fatalf("%s: the optimised program leaves something else\n%s", seedName(seed), p)
	case b.Faults > a.Faults || b.Truncated > a.Truncated:
		t.Fatalf("%s: the optimised program reads more\n%s", seedName(seed), p)
	}
}
