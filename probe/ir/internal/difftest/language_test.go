//go:build linux

package difftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/probe/ir/interp"
)

// evaluated computes expressions in the kernel and in the interpreter, with the
// given arguments, and returns both lists of results.
func evaluated(t *testing.T, release string, exprs []*ir.Expr, vals ...uint64) (kernel, interpreted []uint64) {
	t.Helper()
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: len(exprs)}
	p := one()
	p.IncludeSelf = true
	for i, x := range exprs {
		p.Actions[0].Body = append(p.Actions[0].Body, &ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(int64(i)), X: x})
	}
	args := make([]btf.Type, len(vals))
	plan := rawPlan(release, runtime.GOARCH, args...)
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	coll := loadSpec(t, spec)
	runRaw(t, coll.Programs["p0"], vals...)
	in := interpret(t, p, plan)
	m := &interp.Machine{Comm: testComm, Builtin: func(string) uint64 { return 0 }}
	for _, v := range vals {
		m.Context = binary.LittleEndian.AppendUint64(m.Context, v)
	}
	in.run(t, m)
	for i := range exprs {
		var v uint64
		if err := coll.Maps["out"].Lookup(uint32(i), &v); err != nil {
			t.Fatal(err)
		}
		kernel = append(kernel, v)
		v = 0
		if b := m.Maps[out][string(binary.LittleEndian.AppendUint32(nil, uint32(i)))]; b != nil {
			v = binary.LittleEndian.Uint64(b)
		}
		interpreted = append(interpreted, v)
	}
	return kernel, interpreted
}

// TestIsErr: the last 4095 addresses are errors, and no others.
func TestIsErr(t *testing.T) {
	needRoot(t)
	var expr *action.Ctx // records nothing: its values are expressions
	ends := []int64{-1, -4095, -4096, 0, 1, 4095, -1 << 63}
	want := []uint64{1, 1, 0, 0, 0, 0, 0}
	var exprs []*ir.Expr
	var vals []uint64
	for i, v := range ends {
		exprs = append(exprs, expr.Arg(i).PtrTo("", false).IsErr().Expr())
		vals = append(vals, uint64(v))
	}
	for _, release := range kernels(t) {
		if kernel, interpreted := evaluated(t, release, exprs, vals...); !slices.Equal(kernel, want) || !slices.Equal(interpreted, want) {
			t.Errorf("%s: %v in the kernel, %v in the interpreter, want %v", release, kernel, interpreted, want)
		}
	}
}

// TestTextOperations compares searches, patterns, orders and elements with Go's own, for a
// text from the kernel (the thread's name) and for others.
func TestTextOperations(t *testing.T) {
	needRoot(t)
	setComm(t, testComm)
	comm := ir.NewBuiltin("comm")
	var exprs []*ir.Expr
	var want []uint64
	add := func(x *ir.Expr, v uint64) {
		exprs = append(exprs, x)
		want = append(want, v)
	}
	words := []string{"", "c", "comm", "of", "-", "x", "test-x", "comm-of-test-x", "comm-of-test-x-y", "zz", "ttest", "m-o"}
	padded := func(s string) *ir.Expr {
		return &ir.Expr{Op: ir.OpCast, Type: ir.StringType(20), Args: []*ir.Expr{ir.NewString(s)}}
	}
	for _, w := range words {
		i := uint64(strings.Index(testComm, w))
		add(&ir.Expr{Op: ir.OpIndexOf, Str: w, Args: []*ir.Expr{comm}}, i)
		add(ir.NewExpr(ir.OpIndexOf, comm, padded(w)), i)
		add(ir.NewExpr(ir.OpContains, comm, padded(w)), eval.B2u(i < 1<<63))
		add(ir.NewExpr(ir.OpContains, padded(w), comm), eval.B2u(strings.Contains(w, testComm)))
		n := min(len(w), 16)
		if n > 0 {
			add(&ir.Expr{Op: ir.OpMemcmp, Int: int64(n), Args: []*ir.Expr{comm, padded(w)}},
				uint64(bytes.Compare([]byte(testComm + "\x00\x00")[:n], []byte(w)[:n])))
		}
	}
	for _, p := range []string{
		"*", "**", "comm*", "*x", "comm-of-test-x", "comm-of-test-?", "c*m*t*", "*of*", "x", "", "?", "[a-d]omm*", "[!a-d]omm*",
		"comm[-]of[!-]test*", "*[w-z]", "*-*-*-*", "*-*-*-*-*", "comm-of-test-x?", "[c]*[x]", "*[ty]est*", "[]]*", "*?????????????*", "*???????????????*",
	} {
		// path.Match has ^ for ! and stops at /, which does not occur here.
		ok, err := path.Match(strings.NewReplacer("[!", "[^", "[]]", "[\\]]", "[-]", "[\\-]", "[^-]", "[^\\-]").Replace(strings.ReplaceAll(p, "[!-]", "[^\\-]")), testComm)
		if err != nil {
			t.Fatal(p, err)
		}
		add(&ir.Expr{Op: ir.OpGlob, Str: p, Args: []*ir.Expr{comm}}, eval.B2u(ok))
	}
	for i := range 18 {
		v := uint64(0)
		if i < len(testComm) {
			v = uint64(testComm[i])
		}
		add(ir.NewExpr(ir.OpIndex, &ir.Expr{Op: ir.OpCast, Type: ir.StringType(16), Args: []*ir.Expr{comm}}, ir.NewExpr(ir.OpAdd, &ir.Expr{Op: ir.OpArg}, ir.NewConst(int64(i)))), v)
	}
	expectValues(t, exprs, want, 0)
}

// expectValues computes expressions in the kernel and in the interpreter, some
// at a time.
func expectValues(t *testing.T, exprs []*ir.Expr, want []uint64, args ...uint64) {
	t.Helper()
	for _, release := range kernels(t) {
		for at := 0; at < len(exprs); at += 8 {
			end := min(at+8, len(exprs))
			got, in := evaluated(t, release, exprs[at:end], args...)
			for i, x := range exprs[at:end] {
				if w := want[at+i]; got[i] != w || in[i] != w {
					t.Errorf("%s is %#x in the kernel, %#x in the interpreter, want %#x", x, got[i], in[i], w)
				}
			}
		}
	}
}

// TestArrays: bytes, integers and tuples are cast into each other, compared and
// indexed.
func TestArrays(t *testing.T) {
	needRoot(t)
	setComm(t, testComm)
	arg := func(i int64) *ir.Expr { return &ir.Expr{Op: ir.OpArg, Int: i} }
	cast := func(typ ir.Type, x *ir.Expr) *ir.Expr { return &ir.Expr{Op: ir.OpCast, Type: typ, Args: []*ir.Expr{x}} }
	local := action.Addr(netip.MustParseAddr("127.0.0.1")).Expr()
	six := action.Addr(netip.MustParseAddr("fe80::1")).Expr()
	list := ir.NewExpr(ir.OpTuple, cast(ir.IntType(4, false), arg(0)), cast(ir.IntType(4, false), arg(1)), cast(ir.IntType(4, false), ir.NewConst(-1)))
	odd := ir.NewExpr(ir.OpTuple, cast(ir.IntType(1, false), ir.NewConst(1)), cast(ir.BytesType(4), cast(ir.IntType(4, false), arg(0))), cast(ir.IntType(1, false), ir.NewConst(2)))
	exprs := []*ir.Expr{
		cast(ir.Uint64Type(), cast(ir.BytesType(8), arg(0))),
		cast(ir.IntType(2, true), &ir.Expr{Op: ir.OpBytes, Str: "\xfe\xff"}),
		ir.NewExpr(ir.OpEq, cast(ir.BytesType(4), cast(ir.IntType(4, false), arg(1))), local),
		ir.NewExpr(ir.OpEq, cast(ir.IntType(4, false), arg(1)), cast(ir.IntType(4, false), local)),
		ir.NewExpr(ir.OpNe, six, &ir.Expr{Op: ir.OpBytes, Type: ir.BytesType(16), Str: "\xfe\x80"}),
		ir.NewExpr(ir.OpIndex, cast(ir.BytesType(8), arg(0)), arg(2)),
		ir.NewExpr(ir.OpIndex, cast(ir.BytesType(8), arg(0)), ir.NewConst(7)),
		ir.NewExpr(ir.OpIndex, six, ir.NewExpr(ir.OpAdd, arg(2), ir.NewConst(12))),
		ir.NewExpr(ir.OpIndex, list, ir.NewConst(2)),
		ir.NewExpr(ir.OpIndex, list, arg(2)),
		ir.NewExpr(ir.OpIndex, list, ir.NewConst(1)),
		cast(ir.IntType(4, false), &ir.Expr{Op: ir.OpElem, Int: 1, Args: []*ir.Expr{odd}}),
		ir.NewExpr(ir.OpIndex, list, ir.NewExpr(ir.OpSub, arg(2), ir.NewConst(10))),
	}
	want := []uint64{
		0x8877665544332211, ^uint64(1), 1, 1, 1, 0x44, 0x88, 1, 0xffffffff, 0, 0x0100007f, 0x44332211, 0,
	}
	expectValues(t, exprs, want, 0x8877665544332211, 0x0100007f, 3)
}

// TestIndexBeyondEnd: an element beyond the end is 0, also where the index became constant only
// when a variable was inlined. Index 5 of 4 bytes was a byte of the program's stack, and index
// 10 was refused by the verifier.
func TestIndexBeyondEnd(t *testing.T) {
	needRoot(t)
	value := &ir.Expr{Op: ir.OpCast, Type: ir.BytesType(4), Args: []*ir.Expr{
		{Op: ir.OpCast, Type: ir.IntType(4, false), Args: []*ir.Expr{{Op: ir.OpArg}}},
	}}
	indexes := []int64{3, 4, 5, 10, 1 << 20, -1, 1<<63 - 1}
	out := &ir.Map{Name: "out", Kind: ir.MapArray, Key: ir.IntType(4, false), Value: ir.Uint64Type(), Entries: len(indexes)}
	p := one()
	p.IncludeSelf = true
	for i, at := range indexes {
		v := &ir.Var{Name: fmt.Sprint("v", i)}
		p.Actions[0].Body = append(
			p.Actions[0].Body,
			&ir.Stmt{Op: ir.StmtLet, Var: v, X: &ir.Expr{Op: ir.OpConst, Type: ir.Uint64Type(), Int: at}},
			&ir.Stmt{Op: ir.StmtSet, Map: out, Key: ir.NewConst(int64(i)), X: ir.NewExpr(ir.OpIndex, value, ir.NewVar(v))},
		)
	}
	for _, release := range kernels(t) {
		spec, err := bpf.Compile(p, rawPlan(release, runtime.GOARCH, argTypes[1]))
		if err != nil {
			t.Fatal(err)
		}
		coll := loadSpec(t, spec)
		runRaw(t, coll.Programs["p0"], 0x44332211)
		for i, at := range indexes {
			var got, want uint64
			if at == 3 {
				want = 0x44
			}
			if err := coll.Maps["out"].Lookup(uint32(i), &got); err != nil || got != want {
				t.Errorf("%s: index %d is %#x, %v, want %#x", release, at, got, err, want)
			}
		}
	}
}

// TestKernelNames: sizes, offsets and enumerators are those of BTF.
func TestKernelNames(t *testing.T) {
	needRoot(t)
	testenv.Need(t, testenv.BTF)
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		t.Fatal(err)
	}
	m, off := kernel.Member(task.Members, "comm")
	if m == nil {
		t.Fatal("no comm")
	}
	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil)
	plan.BTF = spec
	typedAs := func(e *ir.Expr) (*typed.Node, error) {
		c, err := check.Check(one(&ir.Stmt{Op: ir.StmtEval, X: e}), plan, 0, nil)
		if err != nil {
			return nil, err
		}
		return c.Body[0].X, nil
	}
	var expr *action.Ctx // records nothing
	null := expr.Let(0)
	for _, x := range []struct {
		e    action.Value
		want int64
	}{
		{(&action.Ctx{}).Sizeof("struct task_struct"), int64(task.Size)},
		{null.PtrTo("task_struct", false).Offset("comm"), int64(off / 8)},
		{(&action.Ctx{}).Enum("TCP_ESTABLISHED"), 1},
		{(&action.Ctx{}).Enum("enum hrtimer_mode.HRTIMER_MODE_REL"), 1},
	} {
		got, err := typedAs(x.e.Expr())
		if err != nil || got.Op != ir.OpConst || got.Int != x.want {
			t.Errorf("%s: %v, %v; want %d", x.e.Expr(), got, err, x.want)
		}
	}
	for _, x := range []action.Value{(&action.Ctx{}).Enum("TCP_ESTABLISHT"), (&action.Ctx{}).Enum("enum hrtimer_mode.REL"), null.PtrTo("task_struct", false).Offset("mm->mmap_base")} {
		if got, err := typedAs(x.Expr()); err == nil {
			t.Errorf("%s is %v", x.Expr(), got)
		}
	}
}
