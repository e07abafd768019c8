//go:build linux

package difftest

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
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/interp"
	"github.com/borescope/borescope/stack"
)

// call is a call of the probed function, with calls of the same within it.
type call struct {
	args  []uint64
	ret   uint64
	inner []call
}

// sessionSubject is a probed function whose calls are known.
type sessionSubject struct {
	target probe.Target
	comm   string
	args   []*ir.Expr // values that an entry can read
	filter *ir.Expr   // selects the calls of the test, nil for all
	calls  []call     // made by run, on one thread
	run    func(t *testing.T)
	skips  bool // the kernel has Skip for it
	plan   *probe.Plan
}

// program returns a random program for entries and returns. It adds up what it computes in
// both, stores a cookie and skips returns.
func (s *sessionSubject) program(r *rand.Rand) (p *ir.Program, out *ir.Map) {
	out = &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 64}
	g := &randProg{r: r, text: r.IntN(2) == 0, turns: 90, lists: true}
	if r.IntN(2) == 0 {
		g.get = &ir.Map{Name: "get", Kind: ir.MapHash, Key: ir.IntType(4, false), Value: ir.IntType(4, true), Entries: 64}
	}
	slot := int64(0)
	cookie := func() *ir.Stmt { return &ir.Stmt{Op: ir.StmtCookie, X: g.integer(3)} }
	maybe := func(st *ir.Stmt) *ir.Stmt { return &ir.Stmt{Op: ir.StmtIf, X: g.boolean(2), Body: []*ir.Stmt{st}} }
	g.known = append([]*ir.Expr{ir.NewBuiltin("is_return")}, s.args...)
	entry := g.stmts(out, &slot, 2)
	entry = append(entry, maybe(cookie()))
	entry = append(entry, g.stmts(out, &slot, 1)...)
	if r.IntN(2) == 0 {
		entry = append(entry, cookie())
	}
	if s.skips {
		entry = append(entry, maybe(&ir.Stmt{Op: ir.StmtSkip}))
	}
	entry = append(entry, g.stmts(out, &slot, 1)...)
	g.vars = nil
	g.known = []*ir.Expr{ir.NewBuiltin("session_cookie"), ir.NewBuiltin("session_cookie"), {Op: ir.OpRet}, ir.NewBuiltin("is_return")}
	ret := append(g.stmts(out, &slot, 2), g.stmts(out, &slot, 2)...)
	ret = append(ret, &ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(63), X: ir.NewBuiltin("session_cookie")})
	body := []*ir.Stmt{{Op: ir.StmtIf, X: ir.NewBuiltin("is_return"), Body: ret, Else: entry}}
	(&ir.Program{Actions: []ir.Action{{Body: body}}}).Visit(func(st *ir.Stmt) {
		if st.Map == out {
			st.Op = ir.StmtAdd // so that no call hides another
		}
	}, func(*ir.Expr) {})
	if s.filter != nil {
		// Without Skip the returns of rejected calls must be rejected too. Their context has
		// the arguments.
		rejected, reject := ir.NewExpr(ir.OpLNot, s.filter), []*ir.Stmt{{Op: ir.StmtReturn}}
		if s.skips {
			rejected = ir.NewExpr(ir.OpLNot, ir.NewExpr(ir.OpLOr, ir.NewBuiltin("is_return"), s.filter))
			reject = []*ir.Stmt{{Op: ir.StmtSkip}, {Op: ir.StmtReturn}}
		}
		body = append([]*ir.Stmt{{Op: ir.StmtIf, X: rejected, Body: reject}}, body...)
	}
	p = &ir.Program{Name: "session", IncludeSelf: true, Maps: []*ir.Map{out}}
	p.Actions = []ir.Action{{Target: s.target, Body: body}}
	return p, out
}

// sessionContext returns the context of a call's entry or return, with the values that
// programs can read there.
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
		off, _ := check.PtRegs(plan.Arch, result)
		put(off, c.ret)
		return b
	}
	for i, v := range c.args {
		off, _ := check.PtRegs(plan.Arch, regs[i])
		put(off, v)
	}
	return b
}

// interpretCalls runs the program in the interpreter for calls, in the order of their
// nesting.
func interpretCalls(t *testing.T, in bothTrees, m *interp.Machine, plan *probe.Plan, calls []call) {
	t.Helper()
	run := func(c call, returns bool) {
		m.Context = sessionContext(plan, c, returns)
		m.Builtin = func(name string) uint64 {
			switch name {
			case "is_return":
				return eval.B2u(returns)
			case "pid":
				return uint64(os.Getpid())
			}
			return 0
		}
		in.run(t, m)
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
func (s *sessionSubject) session(t *testing.T, p *ir.Program) *probe.Plan {
	t.Helper()
	if s.plan != nil {
		return s.plan
	}
	env := probe.NewEnv(nil)
	plan, err := probe.Resolve(env, p.Targets(), &probe.Options{EntryReturn: true})
	if err != nil {
		t.Fatal(err)
	}
	if !plan.Programs[0].EntryReturn() {
		t.Fatalf("no session: %s", plan)
	}
	if plan.BTF, err = env.BTF(); err != nil {
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
	l, err := bpf.Load(p, plan)
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
	in := interpret(t, p, plan)
	m := &interp.Machine{Comm: s.comm}
	interpretCalls(t, in, m, plan, s.calls)
	compareOut(t, l.EBPFMap(out), m.Maps[out], seedName(seed), p)
}

// compareOut compares the values that a program left.
func compareOut(t *testing.T, em *ebpf.Map, want map[string][]byte, name string, p *ir.Program) {
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

// TestUprobeSessionRandom: random session programs on two functions of a C program, one of
// which calls itself, compute what the interpreter computes.
func TestUprobeSessionRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(feature.UprobeSession))
	if err := kernel.RaiseMemlock(); err != nil {
		t.Fatal(err)
	}
	w := probetest.StartOwn(t)
	run := func(*testing.T) { w.Run() }
	arg := func(i int64, typ ir.Type) *ir.Expr {
		return &ir.Expr{Op: ir.OpCast, Type: typ, Args: []*ir.Expr{{Op: ir.OpArg, Int: i}}}
	}
	add := &sessionSubject{
		target: probe.Uprobe{Path: w.Path(), Symbol: "add"}, comm: "target", run: run, skips: true,
		args: []*ir.Expr{arg(0, ir.Int64Type()), arg(1, ir.IntType(4, true)), arg(2, ir.IntType(1, false))},
	}
	nested := &sessionSubject{
		target: probe.Uprobe{Path: w.Path(), Symbol: "nested"}, comm: "target", run: run, skips: true,
		args: []*ir.Expr{arg(0, ir.Int64Type())},
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
	count := &ir.Expr{Op: ir.OpCast, Type: ir.Uint64Type(), Args: []*ir.Expr{{Op: ir.OpArg, Int: 2}}}
	s := &sessionSubject{
		target: target, comm: testComm, args: []*ir.Expr{count},
		filter: ir.NewExpr(ir.OpLAnd, ir.NewExpr(ir.OpEq, ir.NewBuiltin("pid"), ir.NewConst(int64(os.Getpid()))), ir.NewExpr(ir.OpGe, count, ir.NewConst(7771))),
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
