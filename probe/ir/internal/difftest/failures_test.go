//go:build linux

package difftest

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
)

// failing is a program in which each operation fails that has a site, if its argument is no address
// and no entry's key, and the maps are full.
func failing() (p *ir.Program, failures *ir.Map) {
	word := ir.Uint64Type()
	arg := &ir.Expr{Op: ir.OpArg}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	ptr := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(char, true), Args: []*ir.Expr{arg}}
	node := &btf.Struct{Name: "node", Size: 16}
	node.Members = []btf.Member{{Name: "next", Type: &btf.Pointer{Target: node}}, {Name: "n", Type: &btf.Int{Size: 8}, Offset: 64}}
	list := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(node, true), Args: []*ir.Expr{arg}}
	failures = &ir.Map{Name: "failures", Kind: ir.MapRing, Value: ir.BytesType(16)}
	p = &ir.Program{Name: "failing", IncludeSelf: true, Failures: failures}
	site := uint32(100)
	var body []*ir.Stmt
	eval := func(x *ir.Expr) {
		site++
		x.Site = site
		body = append(body, &ir.Stmt{Op: ir.StmtEval, X: x})
	}
	eval(&ir.Expr{Op: ir.OpDeref, Type: word, Args: []*ir.Expr{ptr}})
	eval(&ir.Expr{Op: ir.OpStr, Type: ir.StringType(200), Args: []*ir.Expr{ptr}})
	eval(&ir.Expr{Op: ir.OpStr, Type: ir.StringType(8), Args: []*ir.Expr{ptr, ir.NewConst(5)}})
	eval(&ir.Expr{Op: ir.OpBuf, Type: ir.BytesType(40), Args: []*ir.Expr{ptr}})
	eval(&ir.Expr{Op: ir.OpMember, Str: "next->n", Args: []*ir.Expr{list}}) // both reads
	small := &ir.Map{Name: "small", Key: word, Value: word, Entries: 1}
	large := &ir.Map{Name: "large", Key: word, Value: ir.StringType(100), Entries: 1}
	sums := &ir.Map{Name: "sums", Key: word, Agg: ir.AggSum, Entries: 1}
	eval(&ir.Expr{Op: ir.OpMapGet, Map: small, Args: []*ir.Expr{arg}})
	eval(&ir.Expr{Op: ir.OpMapGet, Map: large, Args: []*ir.Expr{arg}})
	for _, s := range []*ir.Stmt{
		{Op: ir.StmtSet, Map: large, X: ir.NewString("x")},
		{Op: ir.StmtAdd, Map: small, X: ir.NewConst(1)},
		{Op: ir.StmtAgg, Map: sums, X: ir.NewConst(1)},
	} {
		first := *s
		first.Key = constOf(word, 1)
		body = append(body, &first)
		site++
		s.Site, s.Key = site, arg
		body = append(body, s)
	}
	p.Actions = []ir.Action{{Target: probe.RawTracepoint{Name: "sys_enter"}, Body: body}}
	return p, failures
}

func constOf(t ir.Type, n int64) *ir.Expr { return &ir.Expr{Op: ir.OpConst, Type: t, Int: n} }

// TestFailures: each operation with a site that fails leaves a record, the same in the kernel and in
// the interpreter, also if nobody takes its value; without Program.Failures there is none, and the
// instructions are those of a program without sites.
func TestFailures(t *testing.T) {
	needRoot(t)
	p, failures := failing()
	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil, nil)
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	coll := loadSpec(t, spec)
	in := interpret(t, p, plan)
	ring, err := mapx.OpenRing(coll.Maps["failures"], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	words := [8]uint64{1, 2}
	fine := uint64(uintptr(unsafe.Pointer(&words)))
	for _, addr := range []uint64{16, 24, fine} {
		m := &interp.Machine{User: bytesAt{fine, unsafe.Slice((*byte)(unsafe.Pointer(&words)), unsafe.Sizeof(words))}}
		m.Context = binary.LittleEndian.AppendUint64(nil, addr)
		in.run(t, m)
		runRaw(t, coll.Programs["p0"], addr)
		if got, want := drained(t, ring), records(m.Events[failures]); !slices.Equal(got, want) {
			t.Errorf("address %d: %v in the kernel, %v in the interpreter", addr, got, want)
		} else if len(want) < 6 {
			t.Errorf("address %d: only %v failed", addr, want)
		}
	}
	runtime.KeepAlive(&words)
}

// TestNobodyAsksForFailures: sites cost nothing without Program.Failures.
func TestNobodyAsksForFailures(t *testing.T) {
	code := func(change func(p *ir.Program)) string {
		p, _ := failing()
		p.Failures = nil
		change(p)
		spec, err := bpf.Compile(p, rawPlan("5.10.0", "amd64", nil))
		if err != nil {
			t.Fatal(err)
		}
		return spec.Programs["p0"].Instructions.String()
	}
	sited := code(func(*ir.Program) {})
	plain := code(func(p *ir.Program) {
		p.Visit(func(s *ir.Stmt) { s.Site = 0 }, func(e *ir.Expr) { e.Site = 0 })
	})
	if sited != plain {
		t.Errorf("with sites:\n%s\nwithout:\n%s", sited, plain)
	}
}

// TestFailuresNeedARing: a record is written in place.
func TestFailuresNeedARing(t *testing.T) {
	p, failures := failing()
	failures.Kind = ir.MapPerf
	if _, err := bpf.Compile(p, rawPlan("5.10.0", "amd64", nil)); err == nil {
		t.Error("failures go to a perf buffer")
	}
}

// drained returns the records in a ring.
func drained(t *testing.T, ring *mapx.Ring) []ir.FailureRecord {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var raw [][]byte
	var rec mapx.Record
	for {
		err := ring.ReadInto(ctx, &rec)
		if errors.Is(err, context.Canceled) {
			return records(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, slices.Clone(rec.Data))
	}
}

func records(raw [][]byte) []ir.FailureRecord {
	list := make([]ir.FailureRecord, len(raw))
	for i, b := range raw {
		list[i].Site = binary.LittleEndian.Uint64(b)
		list[i].Error = int64(binary.LittleEndian.Uint64(b[8:]))
	}
	return list
}
