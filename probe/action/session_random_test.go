//go:build linux

package action

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/stack"
)

// call is a call of the probed function, with calls of the same within it.
type call struct {
	args  []uint64
	ret   uint64
	inner []call
}

// sessionSubject is something to probe whose calls are known.
type sessionSubject struct {
	target probe.Target
	comm   string
	args   []*Expr // what an entry knows
	filter *Expr   // which calls are meant, nil for all
	calls  []call  // that run makes, on one thread
	run    func(t *testing.T)
	skips  bool // the kernel has Skip here
	plan   *probe.Plan
}

// program is a random program for entries and returns: it adds up what it
// computes of both, keeps a cookie and leaves returns out.
func (s *sessionSubject) program(r *rand.Rand) (p *Program, out *Map) {
	out = &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 64}
	g := &randProg{r: r, text: r.IntN(2) == 0, turns: 90, lists: true}
	if r.IntN(2) == 0 {
		g.get = &Map{Name: "get", Kind: MapHash, Key: u32, Value: IntType(4, true), Entries: 64}
	}
	slot := int64(0)
	cookie := func() *Stmt { return &Stmt{Op: StmtCookie, X: g.integer(3)} }
	maybe := func(st *Stmt) *Stmt { return &Stmt{Op: StmtIf, X: g.boolean(2), Body: []*Stmt{st}} }
	g.known = append([]*Expr{NewBuiltin("is_return")}, s.args...)
	entry := g.stmts(out, &slot, 2)
	entry = append(entry, maybe(cookie()))
	entry = append(entry, g.stmts(out, &slot, 1)...)
	if r.IntN(2) == 0 {
		entry = append(entry, cookie())
	}
	if s.skips {
		entry = append(entry, maybe(&Stmt{Op: StmtSkip}))
	}
	entry = append(entry, g.stmts(out, &slot, 1)...)
	g.vars = nil
	g.known = []*Expr{NewBuiltin("session_cookie"), NewBuiltin("session_cookie"), {Op: OpRet}, NewBuiltin("is_return")}
	ret := append(g.stmts(out, &slot, 2), g.stmts(out, &slot, 2)...)
	ret = append(ret, &Stmt{Op: StmtSet, Map: out, Key: NewConst(63), X: NewBuiltin("session_cookie")})
	body := []*Stmt{{Op: StmtIf, X: NewBuiltin("is_return"), Body: ret, Else: entry}}
	walkStmts(body, func(st *Stmt) {
		if st.Map == out {
			st.Op = StmtAdd // so that no call hides another
		}
	}, func(*Expr) {})
	if s.filter != nil {
		// Without Skip the returns are rejected too, which have the arguments there.
		rejected, reject := NewExpr(OpLNot, s.filter), []*Stmt{{Op: StmtReturn}}
		if s.skips {
			rejected = NewExpr(OpLNot, NewExpr(OpLOr, NewBuiltin("is_return"), s.filter))
			reject = []*Stmt{{Op: StmtSkip}, {Op: StmtReturn}}
		}
		body = append([]*Stmt{{Op: StmtIf, X: rejected, Body: reject}}, body...)
	}
	p = &Program{Name: "session", IncludeSelf: true, Maps: []*Map{out}}
	p.Actions = []Action{{Target: s.target, Body: body}}
	return p, out
}

// sessionContext is the context of a call's entry or return: what programs can
// know there.
func sessionContext(plan *probe.Plan, c call, returns bool) []byte {
	b := make([]byte, 512)
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }
	if plan.Programs[0].Context == probe.ContextTramp { // arguments, and behind them the result
		for i, v := range c.args {
			put(8*i, v)
		}
		if returns {
			put(8*len(plan.Programs[0].Args), c.ret)
		}
		return b
	}
	regs, result := []int{stack.AMD64RDI, stack.AMD64RSI, stack.AMD64RDX}, stack.AMD64RAX
	if plan.Arch == "arm64" {
		regs, result = []int{0, 1, 2}, 0
	}
	if returns {
		off, _ := ptRegs(plan.Arch, result)
		put(off, c.ret)
		return b
	}
	for i, v := range c.args {
		off, _ := ptRegs(plan.Arch, regs[i])
		put(off, v)
	}
	return b
}

// interpretCalls runs the program in the interpreter for calls, as they nest.
func interpretCalls(t *testing.T, in *Interp, m *Machine, plan *probe.Plan, calls []call) {
	t.Helper()
	run := func(c call, returns bool) {
		m.Context = sessionContext(plan, c, returns)
		m.Builtin = func(name string) uint64 {
			switch name {
			case "is_return":
				return b2u(returns)
			case "pid":
				return uint64(os.Getpid())
			}
			return 0
		}
		if err := in.Run(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range calls {
		m.Cookie, m.Skipped = 0, false
		run(c, false)
		cookie, skipped := m.Cookie, m.Skipped
		interpretCalls(t, in, m, plan, c.inner)
		if !skipped {
			m.Cookie = cookie
			run(c, true)
		}
	}
}

// session is a plan for the target, which is the same for every program.
func (s *sessionSubject) session(t *testing.T, p *Program) *probe.Plan {
	t.Helper()
	if s.plan != nil {
		return s.plan
	}
	env := probe.NewEnv(nil)
	plan, err := probe.Resolve(env, p.Targets(), &probe.Options{Session: true})
	if err != nil {
		t.Fatal(err)
	}
	if !plan.Programs[0].Session() {
		t.Fatalf("no session: %s", plan)
	}
	if plan.BTF, err = kernelTypes(env, p, plan); err != nil {
		t.Fatal(err)
	}
	s.plan = plan
	return plan
}

// differ compares the kernel and the interpreter on one random program.
func (s *sessionSubject) differ(t *testing.T, seed uint64) {
	t.Helper()
	p, out := s.program(rand.New(rand.NewPCG(seed, 4)))
	plan := s.session(t, p)
	l, err := Load(p, plan)
	if err != nil {
		t.Fatalf("%s: %+v\n%s", seedName(seed), err, p)
	}
	defer l.Close()
	link, err := plan.Attach(l.Programs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.run(t)
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
	in, err := NewInterp(p, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Comm: s.comm}
	interpretCalls(t, in, m, plan, s.calls)
	compareOut(t, l.EBPFMap(out), m.Maps[out], seedName(seed), p)
}

// compareOut compares the values that a program left.
func compareOut(t *testing.T, em *ebpf.Map, want map[string][]byte, name string, p *Program) {
	t.Helper()
	for i := range uint32(64) {
		var got, expect uint64
		if err := em.Lookup(i, &got); err != nil {
			t.Fatal(err)
		}
		if b := want[string(binary.LittleEndian.AppendUint32(nil, i))]; b != nil {
			expect = binary.LittleEndian.Uint64(b)
		}
		if got != expect {
			t.Fatalf("%s: out[%d] is %#x in the kernel, %#x in the interpreter\n%s", name, i, got, expect, p)
		}
	}
}

// TestUprobeSessionRandom: random session programs on two functions of a C
// program, one of which calls itself, leave what the interpreter leaves.
func TestUprobeSessionRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.UprobeSession))
	if err := kernel.RaiseMemlock(); err != nil {
		t.Fatal(err)
	}
	w := probetest.StartOwn(t)
	run := func(*testing.T) { w.Run() }
	arg := func(i int64, typ Type) *Expr {
		return &Expr{Op: OpCast, Type: typ, Args: []*Expr{{Op: OpArg, Int: i}}}
	}
	add := &sessionSubject{
		target: probe.Uprobe{Path: w.Path(), Symbol: "add"}, comm: "target", run: run, skips: true,
		args: []*Expr{arg(0, Int64Type()), arg(1, IntType(4, true)), arg(2, IntType(1, false))},
	}
	nested := &sessionSubject{
		target: probe.Uprobe{Path: w.Path(), Symbol: "nested"}, comm: "target", run: run, skips: true,
		args: []*Expr{arg(0, Int64Type())},
	}
	for i := range uint64(23) {
		add.calls = append(add.calls, call{args: []uint64{i, 1000, 7}, ret: i + 1000})
		var c []call
		for depth := range uint64(4) {
			c = []call{{args: []uint64{depth}, ret: depth, inner: c}}
		}
		nested.calls = append(nested.calls, c...)
	}
	for i := range uint64(max(cases()/15, 1)) {
		add.differ(t, 2*i+1)
		nested.differ(t, 2*i+2)
	}
}

// readSubject is vfs_read by this process.
func readSubject(t *testing.T, target probe.Target) *sessionSubject {
	setComm(t, testComm)
	if err := kernel.RaiseMemlock(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	count := &Expr{Op: OpCast, Type: u64, Args: []*Expr{{Op: OpArg, Int: 2}}}
	s := &sessionSubject{
		target: target, comm: testComm, args: []*Expr{count},
		filter: NewExpr(OpLAnd, NewExpr(OpEq, NewBuiltin("pid"), NewConst(int64(os.Getpid()))), NewExpr(OpGe, count, NewConst(7771))),
		run: func(t *testing.T) {
			for i := range 5 {
				if _, err := f.ReadAt(make([]byte, 7771+i), 0); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for i := range uint64(5) {
		s.calls = append(s.calls, call{args: []uint64{0, 0, 7771 + i}, ret: 7771 + i})
	}
	return s
}

// TestKprobeSessionRandom does the same with a kernel function.
func TestKprobeSessionRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.KprobeSession))
	s := readSubject(t, probe.Kprobe{Symbol: "vfs_read"})
	s.skips = true
	for seed := range uint64(max(cases()/50, 1)) {
		s.differ(t, seed+101)
	}
}

// TestFsessionRandom does it with a tracing session, which has no Skip.
func TestFsessionRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.Fsession))
	s := readSubject(t, probe.Fentry{Symbol: "vfs_read"})
	for seed := range uint64(max(cases()/50, 1)) {
		s.differ(t, seed+201)
	}
}
