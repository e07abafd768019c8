package interp_test

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/interp"
)

// Run runs a program without a kernel, here for two contexts of a raw tracepoint.
func ExampleInterp() {
	sum := &ir.Map{Name: "sum", Kind: ir.MapArray, Value: ir.Uint64Type()}
	p := &ir.Program{Name: "sum", Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body:   []*ir.Stmt{{Op: ir.StmtAdd, Map: sum, X: &ir.Expr{Op: ir.OpArg, Int: 1}}},
	}}}
	plan := &probe.Plan{Arch: "amd64", Kernel: "6.12.0", Programs: []probe.ProgramPlan{{
		Name: "p0", Type: ebpf.RawTracepoint, Context: probe.ContextRawArgs, Method: probe.MethodRawTracepoint,
		Args: []probe.Arg{
			{Name: "regs", Loc: probe.Location{Kind: probe.LocationContext, Size: 8}},
			{Name: "id", Loc: probe.Location{Kind: probe.LocationContext, Offset: 8, Size: 8}},
		},
	}}}
	in, err := interp.New(p, plan, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &interp.Machine{}
	for _, id := range []uint64{40, 2} {
		m.Context = binary.LittleEndian.AppendUint64(make([]byte, 8), id)
		if err := in.Run(m); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(binary.LittleEndian.Uint64(m.Maps[sum]["\x00\x00\x00\x00"]))
	// Output: 42
}
