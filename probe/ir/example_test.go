package ir_test

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// A program is data: this one makes a histogram of the sizes that one process reads.
func Example() {
	sizes := &ir.Map{Name: "sizes", Agg: ir.AggHist}
	p := &ir.Program{Name: "reads", Actions: []ir.Action{{
		Target: probe.Kretprobe{Symbol: "vfs_read"},
		Body: []*ir.Stmt{{
			Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, ir.NewBuiltin("pid"), ir.NewConst(4711)),
			Body: []*ir.Stmt{{Op: ir.StmtAgg, Map: sizes, X: &ir.Expr{Op: ir.OpRet}}},
		}},
	}}}
	fmt.Print(p)
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		if e.Op == ir.OpBuiltin {
			b, _ := ir.BuiltinNamed(e.Str)
			fmt.Println(b.Name, "is a", b.Type)
		}
	})
	// Output:
	// program reads license "Dual MIT/GPL"
	// map sizes hash hist(0)
	// kretprobe:vfs_read {
	// 	if (pid == 4711) {
	// 		@sizes = hist(retval)
	// 	}
	// }
	// pid is a u32
}
