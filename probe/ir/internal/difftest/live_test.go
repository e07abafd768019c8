//go:build linux

package difftest

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

func needRoot(t testing.TB) {
	t.Helper()
	testenv.Need(t, testenv.Root)
}

// loadSpec loads a collection, and fails with the verifier's log.
func loadSpec(t testing.TB, spec *ebpf.CollectionSpec) *ebpf.Collection {
	t.Helper()
	if err := kernel.RaiseMemlock(); err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		var ve *ebpf.VerifierError
		if errors.As(err, &ve) {
			for n, p := range spec.Programs {
				t.Logf("%s:\n%v", n, p.Instructions)
			}
			t.Fatalf("%+v", ve)
		}
		t.Fatal(err)
	}
	t.Cleanup(coll.Close)
	return coll
}

// runRaw runs a raw tracepoint program once with arguments.
func runRaw(t testing.TB, p *ebpf.Program, args ...uint64) {
	t.Helper()
	buf := make([]byte, 8*len(args))
	for i, a := range args {
		binary.LittleEndian.PutUint64(buf[8*i:], a)
	}
	opts := &ebpf.RunOptions{}
	if len(args) > 0 {
		opts.Context = buf
	}
	if _, err := p.Run(opts); err != nil {
		t.Fatal(err)
	}
}

func TestSmoke(t *testing.T) {
	needRoot(t)
	setComm(t, testComm)
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 8}
	n := &ir.Map{Name: "n", Agg: ir.AggCount, Key: ir.StringType(16)}
	h := &ir.Map{Name: "h", Agg: ir.AggHist}
	v := &ir.Var{Name: "v"}
	arg := func(i int64) *ir.Expr { return &ir.Expr{Op: ir.OpArg, Int: i} }
	p := &ir.Program{Name: "smoke", IncludeSelf: true, Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body: []*ir.Stmt{
			{Op: ir.StmtLet, Var: v, X: ir.NewExpr(ir.OpAdd, arg(0), arg(1))},
			{Op: ir.StmtSet, Map: out, Key: ir.NewConst(0), X: ir.NewVar(v)},
			{Op: ir.StmtSet, Map: out, Key: ir.NewConst(1), X: ir.NewExpr(ir.OpMul, ir.NewBuiltin("pid"), ir.NewConst(2))},
			{Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, ir.NewBuiltin("comm"), ir.NewString(testComm)), Body: []*ir.Stmt{
				{Op: ir.StmtSet, Map: out, Key: ir.NewConst(2), X: ir.NewConst(7)},
			}},
			{Op: ir.StmtAgg, Map: n, Key: ir.NewBuiltin("comm")},
			{Op: ir.StmtAgg, Map: h, X: ir.NewVar(v)},
		},
	}}}
	spec, err := bpf.Compile(p, rawPlan(runningKernel(t), runtime.GOARCH, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	coll := loadSpec(t, spec)
	runRaw(t, coll.Programs["p0"], 40, 2)
	pid, _, err := kernel.InitialIDs()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{42, uint64(pid * 2), 7} {
		var got uint64
		if err := coll.Maps["out"].Lookup(uint32(i), &got); err != nil || got != want {
			t.Errorf("out[%d] = %d, %v; want %d", i, got, err, want)
		}
	}
}

// setComm names the current thread, and keeps the test on it.
func setComm(t testing.TB, name string) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	b := append([]byte(name), 0)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
}

// TestClockDifferences: of two readings the later one is not smaller. It was in every run:
// see TestClocksKeepOrder.
func TestClockDifferences(t *testing.T) {
	needRoot(t)
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: 1}
	for _, clock := range []string{"nsecs", "nsecs_boot", "nsecs_sw_tai", "elapsed"} {
		first, second := &ir.Var{Name: "first"}, &ir.Var{Name: "second"}
		p := one(
			&ir.Stmt{Op: ir.StmtLet, Var: first, X: ir.NewBuiltin(clock)},
			&ir.Stmt{Op: ir.StmtLet, Var: second, X: ir.NewBuiltin(clock)},
			&ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(0), X: ir.NewExpr(ir.OpSub, ir.NewVar(second), ir.NewVar(first))},
		)
		p.IncludeSelf = true
		spec, err := bpf.Compile(p, rawPlan(runningKernel(t), runtime.GOARCH, nil))
		if err != nil {
			t.Fatal(err)
		}
		coll := loadSpec(t, spec)
		for range 100 {
			runRaw(t, coll.Programs["p0"], 0)
			var d int64
			if err := coll.Maps["out"].Lookup(uint32(0), &d); err != nil || d < 0 {
				t.Fatalf("%s: the second reading is %d ns after the first, %v", clock, d, err)
			}
		}
	}
}
