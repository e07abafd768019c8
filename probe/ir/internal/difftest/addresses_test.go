//go:build linux

package difftest

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
)

// TestVariableAddresses: what is read through the address of a variable is what the variable is at
// that moment: of numbers, text and tuples, in scratch memory too, after the block that declared it,
// and in loops, whose bodies are functions of their own. No assignment is left out or moved.
func TestVariableAddresses(t *testing.T) {
	needRoot(t)
	p := &ir.Program{Name: "addresses", IncludeSelf: true, Actions: []ir.Action{{Target: probe.RawTracepoint{Name: "sys_enter"}}}}
	u64, text := ir.Uint64Type(), ir.StringType(200)
	pair := ir.TupleType(ir.Field{Type: ir.IntType(2, true)}, ir.Field{Type: text})
	var maps []*ir.Map
	body := &p.Actions[0].Body
	let := func(v *ir.Var, x *ir.Expr) { *body = append(*body, &ir.Stmt{Op: ir.StmtLet, Var: v, X: x}) }
	store := func(x *ir.Expr, ty ir.Type) {
		m := &ir.Map{Name: "m" + string(rune('a'+len(maps))), Kind: ir.MapArray, Value: ty}
		maps = append(maps, m)
		*body = append(*body, &ir.Stmt{Op: ir.StmtSet, Map: m, X: x})
	}
	address := func(v *ir.Var) *ir.Expr { return &ir.Expr{Op: ir.OpVarAddr, Var: v} }
	at := func(x *ir.Expr, ty ir.Type) *ir.Expr { return &ir.Expr{Op: ir.OpDeref, Type: ty, Args: []*ir.Expr{x}} }
	arg := &ir.Expr{Op: ir.OpArg}

	n, s, w := &ir.Var{Name: "n"}, &ir.Var{Name: "s"}, &ir.Var{Name: "w", Type: pair}
	inner, ptr := &ir.Var{Name: "inner"}, &ir.Var{Name: "ptr"}
	let(n, &ir.Expr{Op: ir.OpCast, Type: ir.IntType(4, true), Args: []*ir.Expr{arg}})
	let(ptr, address(n))
	store(at(ir.NewVar(ptr), ir.IntType(4, true)), ir.IntType(4, true))
	store(at(address(n), ir.IntType(1, false)), ir.IntType(1, false))
	let(n, constOf(ir.IntType(4, true), -7))
	store(at(ir.NewVar(ptr), ir.IntType(4, true)), ir.IntType(4, true))
	store(ir.NewExpr(ir.OpEq, ir.NewVar(ptr), address(n)), ir.BoolType())
	let(s, &ir.Expr{Op: ir.OpString, Type: text, Str: "some text"})
	store(at(address(s), text), text)
	store(at(ir.NewExpr(ir.OpAdd, &ir.Expr{Op: ir.OpCast, Type: u64, Args: []*ir.Expr{address(s)}}, ir.NewConst(5)), ir.BytesType(7)), ir.BytesType(7))
	let(w, &ir.Expr{Op: ir.OpTuple, Type: pair, Args: []*ir.Expr{ir.NewConst(-3), ir.NewVar(s)}})
	store(at(address(w), pair), pair)
	outer := body
	var block []*ir.Stmt
	body = &block
	let(inner, ir.NewExpr(ir.OpAdd, arg, ir.NewConst(1)))
	let(ptr, address(inner))
	body = outer
	*body = append(*body, &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpNe, arg, ir.NewConst(0)), Body: block})
	for range 3 { // which would take the memory of inner
		let(&ir.Var{Name: "other"}, ir.NewExpr(ir.OpMul, arg, ir.NewConst(3)))
	}
	store(at(ir.NewVar(ptr), u64), u64)
	sum, i, turn := &ir.Var{Name: "sum", Type: u64}, &ir.Var{Name: "i"}, &ir.Var{Name: "turn"}
	let(sum, constOf(u64, 0))
	block = nil
	body = &block
	let(turn, ir.NewExpr(ir.OpMul, &ir.Expr{Op: ir.OpCast, Type: u64, Args: []*ir.Expr{ir.NewVar(i)}}, ir.NewConst(5)))
	let(sum, ir.NewExpr(ir.OpAdd, at(address(sum), u64), at(address(turn), u64)))
	body = outer
	*body = append(*body, &ir.Stmt{Op: ir.StmtLoop, X: ir.NewConst(200), Var: i, Body: block})
	store(ir.NewVar(sum), u64)

	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil, nil)
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	coll := loadSpec(t, spec)
	in := interpret(t, p, plan)
	for _, x := range []uint64{0, 1, 1<<40 + 300} {
		m := &interp.Machine{Context: binary.LittleEndian.AppendUint64(nil, x)}
		in.run(t, m)
		if m.Faults != 0 {
			t.Errorf("%d reads failed", m.Faults)
		}
		runRaw(t, coll.Programs["p0"], x)
		for _, mp := range maps {
			var got []byte
			if err := coll.Maps[mp.Name].Lookup(uint32(0), &got); err != nil {
				t.Fatal(err)
			}
			if want := m.Maps[mp]["\x00\x00\x00\x00"]; !bytes.Equal(got[:len(want)], want) {
				t.Errorf("of %d: %s is %x in the kernel, %x in the interpreter", x, mp, got, want)
			}
		}
	}
}
