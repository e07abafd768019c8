package check

import "github.com/borescope/borescope/probe/ir"

// stackType is the type of a stack of n frames.
func stackType(op ir.Op, n int64) ir.Type {
	if op != ir.OpKstack {
		return ir.BytesType(int(n) * 8).WithFormat(ir.FormatUstack)
	}
	return ir.BytesType(int(n) * 8).WithFormat(ir.FormatKstack)
}
