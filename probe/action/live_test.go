//go:build linux

package action

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
	out := &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 8}
	n := &Map{Name: "n", Agg: AggCount, Key: StringType(16)}
	h := &Map{Name: "h", Agg: AggHist}
	v := &Var{Name: "v"}
	arg := func(i int64) *Expr { return &Expr{Op: OpArg, Int: i} }
	p := &Program{Name: "smoke", IncludeSelf: true, Actions: []Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body: []*Stmt{
			{Op: StmtLet, Var: v, X: NewExpr(OpAdd, arg(0), arg(1))},
			{Op: StmtSet, Map: out, Key: NewConst(0), X: NewVar(v)},
			{Op: StmtSet, Map: out, Key: NewConst(1), X: NewExpr(OpMul, NewBuiltin("pid"), NewConst(2))},
			{Op: StmtIf, X: NewExpr(OpEq, NewBuiltin("comm"), NewString(testComm)), Body: []*Stmt{
				{Op: StmtSet, Map: out, Key: NewConst(2), X: NewConst(7)},
			}},
			{Op: StmtAgg, Map: n, Key: NewBuiltin("comm")},
			{Op: StmtAgg, Map: h, X: NewVar(v)},
		},
	}}}
	spec, err := Compile(p, rawPlan(runningKernel(t), runtime.GOARCH, nil, nil))
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

// TestClockDifferences: of two readings the later one is not the smaller one.
// It was in every run: see TestClocksKeepOrder.
func TestClockDifferences(t *testing.T) {
	needRoot(t)
	out := &Map{Name: "out", Kind: MapArray, Key: u32, Value: u64, Entries: 1}
	for _, clock := range []string{"nsecs", "nsecs_boot", "nsecs_sw_tai", "elapsed"} {
		first, second := &Var{Name: "first"}, &Var{Name: "second"}
		p := one(
			&Stmt{Op: StmtLet, Var: first, X: NewBuiltin(clock)},
			&Stmt{Op: StmtLet, Var: second, X: NewBuiltin(clock)},
			&Stmt{Op: StmtSet, Map: out, Key: NewConst(0), X: NewExpr(OpSub, NewVar(second), NewVar(first))},
		)
		p.IncludeSelf = true
		spec, err := Compile(p, rawPlan(runningKernel(t), runtime.GOARCH, nil))
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
