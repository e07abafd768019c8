//go:build linux

package difftest

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/interp"
)

// TestLargeValues: values that are cleared and copied by a helper, in scratch areas that per-CPU maps
// have no room for, are the same in the kernel and in the interpreter.
func TestLargeValues(t *testing.T) {
	needRoot(t)
	const size = 12_000
	memory := append([]byte(strings.Repeat("text ", 2000)), 0)
	memory = append(memory, bytes.Repeat([]byte{7}, 3000)...)
	base := uint64(uintptr(unsafe.Pointer(&memory[0])))
	ptr := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(nil, true), Args: []*ir.Expr{{Op: ir.OpArg}}}
	text, raw := ir.StringType(size), ir.BytesType(size)
	pair := ir.TupleType(ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: text})
	p := &ir.Program{Name: "large", IncludeSelf: true, Actions: []ir.Action{{Target: probe.RawTracepoint{Name: "sys_enter"}}}}
	add := func(s *ir.Stmt) { p.Actions[0].Body = append(p.Actions[0].Body, s) }
	let := func(x *ir.Expr) *ir.Expr {
		v := &ir.Var{Name: "v"}
		add(&ir.Stmt{Op: ir.StmtLet, Var: v, X: x})
		return ir.NewVar(v)
	}
	var maps []*ir.Map
	store := func(x *ir.Expr, ty ir.Type) *ir.Map {
		m := &ir.Map{Name: "m" + string(rune('a'+len(maps))), Kind: ir.MapArray, Value: ty}
		maps = append(maps, m)
		add(&ir.Stmt{Op: ir.StmtSet, Map: m, X: x})
		return m
	}
	str := let(&ir.Expr{Op: ir.OpStr, Type: text, Args: []*ir.Expr{ptr}})
	cut := let(&ir.Expr{Op: ir.OpStr, Type: text, Args: []*ir.Expr{ptr, ir.NewConst(9001)}})
	twice := let(&ir.Expr{Op: ir.OpTuple, Type: pair, Args: []*ir.Expr{ir.NewConst(3), str}})
	store(str, text)
	kept := store(cut, text)
	store(&ir.Expr{Op: ir.OpBuf, Type: raw, Args: []*ir.Expr{ptr}}, raw)
	store(&ir.Expr{Op: ir.OpBuf, Type: raw, Args: []*ir.Expr{ptr, {Op: ir.OpArg, Int: 1}}}, raw)
	store(&ir.Expr{Op: ir.OpBuf, Type: raw, Args: []*ir.Expr{{Op: ir.OpCast, Type: ir.PtrType(nil, true), Args: []*ir.Expr{ir.NewConst(16)}}}}, raw)
	store(twice, pair)
	store(&ir.Expr{Op: ir.OpElem, Int: 1, Args: []*ir.Expr{twice}}, text)
	store(&ir.Expr{Op: ir.OpString, Type: text, Str: "short"}, text)
	store(&ir.Expr{Op: ir.OpCast, Type: text, Args: []*ir.Expr{ir.NewString(strings.Repeat("long ", 20))}}, text)
	store(&ir.Expr{Op: ir.OpCast, Type: ir.StringType(9000), Args: []*ir.Expr{str}}, ir.StringType(9000))
	store(&ir.Expr{Op: ir.OpCond, Type: text, Args: []*ir.Expr{{Op: ir.OpArg, Int: 1}, str, cut}}, text)
	store(&ir.Expr{Op: ir.OpMapGet, Map: kept}, text)
	entries := &ir.Map{Name: "entries", Key: ir.Uint64Type(), Value: text, Entries: 2}
	add(&ir.Stmt{Op: ir.StmtSet, Map: entries, Key: constOf(ir.Uint64Type(), 1), X: cut})
	for key := range int64(2) {
		store(&ir.Expr{Op: ir.OpMapGet, Map: entries, Args: []*ir.Expr{constOf(ir.Uint64Type(), key)}}, text)
	}
	store(ir.NewExpr(ir.OpLen, str), ir.IntType(4, false))
	store(ir.NewExpr(ir.OpLen, &ir.Expr{Op: ir.OpString, Type: text}), ir.IntType(4, false))
	store(ir.NewExpr(ir.OpEq, str, cut), ir.BoolType())

	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil, nil)
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	if kind := spec.Maps[check.ScratchMap].Type; kind != ebpf.Array {
		t.Errorf("the scratch areas are a %s", kind)
	}
	l, err := bpf.Load(p, plan)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer l.Close()
	in := interpret(t, p, plan)
	for _, n := range []uint64{0, 5, 10_001, 20_000} {
		m := &interp.Machine{User: bytesAt{base, memory}}
		m.Context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, base), n)
		in.run(t, m)
		for range 3 { // areas are free again
			runRaw(t, l.Programs()["p0"], base, n)
		}
		for _, mp := range maps {
			var got []byte
			if err := l.EBPFMap(mp).Lookup(uint32(0), &got); err != nil {
				t.Fatal(err)
			}
			if want := m.Maps[mp]["\x00\x00\x00\x00"]; !bytes.Equal(got[:len(want)], want) {
				i := slices.IndexFunc(want, func(b byte) bool { return b == 0 })
				t.Errorf("n %d: %s differs: %d and %d bytes, text of %d", n, mp, len(got), len(want), i)
			}
		}
	}
	if st, err := l.Stats(); err != nil || st.NoScratch != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	runtime.KeepAlive(memory)
}
