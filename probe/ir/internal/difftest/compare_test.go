package difftest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

var comparisons = []ir.Op{ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe}

// TestConstantComparisons: "retval < 0" of an unsigned value was compiled, and never true.
// A comparison is refused if and only if every value of the type gives the same result.
func TestConstantComparisons(t *testing.T) {
	bits := &btf.Struct{Name: "s", Size: 4, Members: []btf.Member{
		{Name: "u3", Type: &btf.Int{Name: "unsigned int", Size: 4}, BitfieldSize: 3},
		{Name: "s5", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Offset: 3, BitfieldSize: 5},
	}}
	member := func(name string) *ir.Expr {
		return &ir.Expr{Op: ir.OpMember, Str: name, Args: []*ir.Expr{{Op: ir.OpArg, Int: 1}}}
	}
	as := func(ty ir.Type) *ir.Expr {
		return &ir.Expr{Op: ir.OpCast, Type: ty, Args: []*ir.Expr{{Op: ir.OpArg}}}
	}
	plan := rawPlan("6.12.0", "amd64", &btf.Int{Name: "unsigned long", Size: 8}, &btf.Pointer{Target: bits})
	for _, x := range []struct {
		e         *ir.Expr
		low, high int64
	}{
		{as(ir.IntType(1, false)), 0, 255},
		{as(ir.IntType(1, true)), -128, 127},
		{as(ir.IntType(2, false)), 0, 65535},
		{as(ir.IntType(2, true)), -32768, 32767},
		{as(ir.IntType(4, false)), 0, math.MaxUint32},
		{as(ir.IntType(4, true)), math.MinInt32, math.MaxInt32},
		{as(ir.BoolType()), 0, 1},
		{member("u3"), 0, 7},
		{member("s5"), -16, 15},
	} {
		constants := []int64{math.MinInt64, math.MaxInt64, 1 << 40, -1 << 40, 0, 1, -1, 300, -300, -4095}
		for d := int64(-2); d <= 2; d++ {
			constants = append(constants, x.low+d, x.high+d, (x.low+x.high)/2+d)
		}
		for _, op := range comparisons {
			for _, k := range constants {
				// An order changes its result at k only, and equality at k.
				var results [2]bool
				for _, v := range []int64{x.low, x.high, max(x.low, min(k, x.high)), max(x.low, min(k-1, x.high)), max(x.low, min(k+1, x.high))} {
					results[eval.B2u(eval.Compare(op, true, uint64(v), uint64(k)))] = true
				}
				same := !results[0] || !results[1]
				checkCompared(t, ir.NewExpr(op, x.e, ir.NewConst(k)), plan, same)
				swapped := op
				if op >= ir.OpLt {
					swapped = map[ir.Op]ir.Op{ir.OpLt: ir.OpGt, ir.OpGt: ir.OpLt, ir.OpLe: ir.OpGe, ir.OpGe: ir.OpLe}[op]
				}
				checkCompared(t, ir.NewExpr(swapped, ir.NewConst(k), x.e), plan, same)
				// A constant that has the type may have any value of it.
				typed := &ir.Expr{Op: ir.OpCast, Type: ir.IntType(8, true), Args: []*ir.Expr{ir.NewConst(k)}}
				checkCompared(t, ir.NewExpr(op, x.e, typed), plan, k < x.low || k > x.high)
			}
		}
	}
}

func checkCompared(t *testing.T, e *ir.Expr, plan *probe.Plan, same bool) {
	t.Helper()
	if _, err := bpf.TypeOf(e, plan, 0); (err != nil) != same {
		t.Errorf("%s: always the same: %t, but: %v", e, same, err)
	}
}

// TestWideComparisons: numbers of 64 bits without a sign are equal to negative constants, as
// in C, and cannot be ordered with them.
func TestWideComparisons(t *testing.T) {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	plan := rawPlan("6.12.0", "amd64", nil, &btf.Pointer{Target: long}, long,
		&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed})
	arg := func(i int64) *ir.Expr { return &ir.Expr{Op: ir.OpArg, Int: i} }
	u64 := func(v uint64) *ir.Expr {
		return &ir.Expr{Op: ir.OpConst, Type: ir.Uint64Type(), Int: int64(v)}
	}
	hinted := func(op ir.Op, x *ir.Expr, k int64) *ir.Expr {
		e := ir.NewExpr(op, x, ir.NewConst(k))
		e.Str = "(long)%s"
		return e
	}
	for _, c := range []struct {
		e    *ir.Expr
		want string // in the error; empty: accepted
	}{
		{hinted(ir.OpLt, arg(0), 0), "(arg0 < 0): arg0 is an unsigned number of 64 bits: it is never below 0; (long)arg0 is signed"},
		{hinted(ir.OpGe, arg(0), 0), "always at least 0; (long)arg0"},
		{hinted(ir.OpGe, arg(0), -4095), "always at least -4095; (long)arg0"},
		{hinted(ir.OpLt, arg(1), 0), "arg1 is an address: it is never below 0; (long)arg1"},
		{hinted(ir.OpGt, arg(3), 1<<40), "arg3 is a signed number of 32 bits, -2147483648 to 2147483647: it is never above 1099511627776"},
		{ir.NewExpr(ir.OpGe, arg(0), u64(1<<64-4095)), ""},
		{ir.NewExpr(ir.OpEq, arg(0), ir.NewConst(-1)), ""},
		{ir.NewExpr(ir.OpEq, arg(2), u64(1<<64-1)), ""},
		{ir.NewExpr(ir.OpEq, arg(3), u64(1<<64-100)), ""},
		{ir.NewExpr(ir.OpEq, arg(3), u64(1<<63)), "never -9223372036854775808"},
		{ir.NewExpr(ir.OpLt, arg(0), u64(0)), ""},
		{ir.NewExpr(ir.OpLt, arg(2), ir.NewConst(0)), ""},
		{ir.NewExpr(ir.OpLt, arg(2), ir.NewConst(math.MinInt64)), "never below"},
		{ir.NewExpr(ir.OpGt, arg(0), ir.NewConst(0)), ""},
	} {
		_, err := bpf.TypeOf(c.e, plan, 0)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) && c.want != "" {
			t.Errorf("%s: %v, want %q", c.e, err, c.want)
		}
	}
}
