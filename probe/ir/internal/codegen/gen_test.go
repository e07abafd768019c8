package codegen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/opt"
)

// TestInstructions compares the instructions of programs that have a form of statement each, on the kernels
// between which they differ, with those that were looked at before (-update writes them). Package difftest runs
// such programs.
func TestInstructions(t *testing.T) {
	u32, u64 := ir.IntType(4, false), ir.Uint64Type()
	counts := &ir.Map{Name: "counts", Key: u32, Agg: ir.AggCount, Kind: ir.MapPerCPUHash}
	hist := &ir.Map{Name: "hist", Agg: ir.AggHist, Kind: ir.MapPerCPUHash, Key: u32}
	stacks := &ir.Map{Name: "stacks", Key: ir.BytesType(8 * 64), Agg: ir.AggCount, Kind: ir.MapPerCPUHash}
	total := &ir.Map{Name: "total", Value: u64, Kind: ir.MapArray, Key: u32, Entries: 1}
	seen := &ir.Map{Name: "seen", Key: u32, Value: u64}
	events := &ir.Map{Name: "events", Kind: ir.MapRing, Value: ir.TupleType(ir.Field{Type: u32}, ir.Field{Type: ir.StringType(16)})}
	x, i, n := &ir.Var{Name: "x"}, &ir.Var{Name: "i"}, &ir.Var{Name: "n"}
	k := ir.NewConst
	pid := &ir.Expr{Op: ir.OpBuiltin, Str: "pid"}
	comm := &ir.Expr{Op: ir.OpBuiltin, Str: "comm"}
	op := func(o ir.Op, args ...*ir.Expr) *ir.Expr { return &ir.Expr{Op: o, Args: args} }
	use := func(v *ir.Var) *ir.Expr { return &ir.Expr{Op: ir.OpVar, Var: v} }
	let := func(v *ir.Var, x *ir.Expr) *ir.Stmt { return &ir.Stmt{Op: ir.StmtLet, Var: v, X: x} }

	var out strings.Builder
	for _, c := range []struct {
		what    string
		kernels []string
		body    []*ir.Stmt
	}{
		{"nothing", []string{"5.10"}, nil},
		{"count", []string{"5.10", "6.12"}, []*ir.Stmt{{Op: ir.StmtAgg, Map: counts, Key: pid}}},
		{"histogram", []string{"6.12"}, []*ir.Stmt{{Op: ir.StmtAgg, Map: hist, Key: k(0), X: pid}}},
		{"condition", []string{"6.12"}, []*ir.Stmt{{
			Op: ir.StmtIf, X: op(ir.OpLAnd, op(ir.OpGt, pid, k(1)), op(ir.OpNe, pid, k(7))),
			Body: []*ir.Stmt{{Op: ir.StmtAgg, Map: counts, Key: k(1)}},
			Else: []*ir.Stmt{{Op: ir.StmtReturn}},
		}}},
		{"text", []string{"6.1", "6.12"}, []*ir.Stmt{{
			Op: ir.StmtIf, X: op(ir.OpEq, comm, &ir.Expr{Op: ir.OpString, Str: "sh"}),
			Body: []*ir.Stmt{{Op: ir.StmtAgg, Map: counts, Key: k(2)}},
		}}},
		{"signed division", []string{"5.10", "6.12"}, []*ir.Stmt{
			let(x, op(ir.OpDiv, op(ir.OpSub, pid, k(10)), k(3))), {Op: ir.StmtSet, Map: seen, Key: k(0), X: use(x)},
		}},
		{"loop", []string{"5.10", "5.17", "6.12"}, []*ir.Stmt{
			let(n, k(0)),
			{Op: ir.StmtLoop, X: k(100), Var: i, Body: []*ir.Stmt{
				{Op: ir.StmtIf, X: op(ir.OpGt, use(i), pid), Body: []*ir.Stmt{{Op: ir.StmtBreak}}},
				let(n, op(ir.OpAdd, use(n), use(i))),
			}},
			{Op: ir.StmtSet, Map: seen, Key: k(0), X: use(n)},
		}},
		{"add", []string{"6.12"}, []*ir.Stmt{{Op: ir.StmtAdd, Map: total, Key: k(0), X: pid}}},
		{"take", []string{"6.12"}, []*ir.Stmt{{
			Op: ir.StmtFind, Map: seen, Key: pid, Var: x, Delete: true,
			Body: []*ir.Stmt{{Op: ir.StmtAgg, Map: hist, Key: k(0), X: use(x)}},
			Else: []*ir.Stmt{{Op: ir.StmtSet, Map: seen, Key: pid, X: k(1)}},
		}}},
		{"scratch", []string{"5.10", "6.12"}, []*ir.Stmt{{Op: ir.StmtAgg, Map: stacks, Key: &ir.Expr{Op: ir.OpKstack, Int: 64}}}},
		{"event", []string{"6.12"}, []*ir.Stmt{{Op: ir.StmtEmit, Map: events, X: op(ir.OpTuple, pid, comm)}}},
	} {
		for _, kernel := range c.kernels {
			plan := &probe.Plan{Kernel: kernel, Arch: "amd64", Programs: []probe.ProgramPlan{{
				Name: "p", Type: ebpf.TracePoint, Method: probe.MethodPerfLink, Sites: []probe.Site{{Target: probe.Tracepoint{Group: "g", Name: "n"}}},
			}}}
			p := &ir.Program{Actions: []ir.Action{{Body: c.body}}}
			insns, scratch, err := generate(p, plan)
			if err != nil {
				t.Errorf("%s on %s: %v", c.what, kernel, err)
				continue
			}
			fmt.Fprintf(&out, "# %s, Linux %s: %d bytes of scratch memory\n%v\n", c.what, kernel, scratch, insns)
		}
	}
	golden.Compare(t, "testdata/instructions.txt", out.String())
}

func generate(p *ir.Program, plan *probe.Plan) (asm.Instructions, int, error) {
	lay, err := check.NewLayout(p, plan)
	if err != nil {
		return nil, 0, err
	}
	c, err := check.Check(p, plan, 0, nil)
	if err != nil {
		return nil, 0, err
	}
	return Generate(p, plan, opt.Inline(c), lay)
}
