package bpf_test

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// A front end makes a program from plain data at run time, attaches it for a while, and reads
// its map.
func ExampleLoad() {
	target, err := probe.ParseTarget("rawtracepoint:sys_enter")
	if err != nil {
		fmt.Println(err)
		return
	}
	hits := &ir.Map{Name: "hits", Agg: ir.AggCount, Key: ir.StringType(16)}
	p := &ir.Program{Name: "count", Actions: []ir.Action{{
		Target: target,
		Body:   []*ir.Stmt{{Op: ir.StmtAgg, Map: hits, Key: ir.NewBuiltin("comm")}},
	}}}
	count := func() error {
		plan, err := bpf.Resolve(nil, p, nil)
		if err != nil {
			return err
		}
		loaded, err := bpf.Load(p, plan)
		if err != nil {
			return err
		}
		defer loaded.Close()
		link, err := plan.Attach(loaded.Programs(), nil)
		if err != nil {
			return err
		}
		defer link.Close()
		time.Sleep(time.Second)
		table, err := bpf.CountTable[[16]byte](loaded, hits)
		if err != nil {
			return err
		}
		calls, err := table.Snapshot()
		for _, e := range calls.Entries {
			fmt.Printf("%s %d\n", e.Key, e.Value)
		}
		return err
	}
	_ = count // needs CAP_BPF and CAP_PERFMON
	fmt.Print(p)
	// Output:
	// program count license "Dual MIT/GPL"
	// map hits hash[str[16]] count
	// rawtracepoint:sys_enter {
	// 	@hits[comm] = count()
	// }
}

// Compile compiles a program for any plan, here for one that was made for the kernel of
// another machine.
func ExampleCompile() {
	hits := &ir.Map{Name: "hits", Agg: ir.AggCount, Key: ir.StringType(16)}
	p := &ir.Program{Name: "count", Actions: []ir.Action{{
		Target: probe.RawTracepoint{Name: "sys_enter"},
		Body: []*ir.Stmt{
			{Op: ir.StmtAgg, Map: hits, Key: ir.NewBuiltin("comm")},
		},
	}}}
	plan := &probe.Plan{Arch: "arm64", Kernel: "5.10.0", Programs: []probe.ProgramPlan{{
		Name: "sys_enter", Type: ebpf.RawTracepoint, AttachTo: "sys_enter",
		Context: probe.ContextRawArgs, Method: probe.MethodRawTracepoint,
	}}}
	spec, err := bpf.Compile(p, plan)
	fmt.Println(len(spec.Programs["sys_enter"].Instructions) > 20, spec.Maps["hits"].Type, err)
	// Output: true PerCPUHash <nil>
}
