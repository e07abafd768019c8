// Package ir describes BPF programs as data. A front end makes a Program at run time, from
// the language that it reads; other packages load it, run it in Go, or show it.
//
//	hits := &ir.Map{Name: "hits", Agg: ir.AggCount, Key: ir.StringType(16)}
//	p := &ir.Program{Name: "count", Actions: []ir.Action{{
//		Target: probe.RawTracepoint{Name: "sys_enter"},
//		Body:   []*ir.Stmt{{Op: ir.StmtAgg, Map: hits, Key: ir.NewBuiltin("comm")}},
//	}}}
//
// A program has actions, which have a target and statements. Statements have expressions,
// and both refer to maps and variables. All of it is plain data, with a String method and
// with positions in its source for errors. Types that a node leaves open (KindAuto) are
// decided by the types of the probes' arguments in a plan. Nodes may be shared; no package
// writes to them.
//
// # Packages
//
// Package bpf compiles a program for a plan, loads it, and reads its maps and events.
// Package interp runs it in Go over recorded contexts and memory. Package inspect lists
// the generated instructions. Package action, beside this one, is for programs written in
// Go; it records an ir.Program.
//
// # Build a front end
//
// A front end parses its language into a Program and declares its maps and events with the
// types that their keys and values have at the probe (bpf.TypeOf). It reads them by these
// declarations (bpf.OpenTable, bpf.OpenStream), so it needs no Go types. Example (FrontEnd)
// of package bpf is a front end of one page, for a language of three statements, live and
// from a recording.
//
//  1. Parse: targets by probe.ParseTarget, statements and expressions with their Pos, so
//     that errors point into the script. A name that is no builtin may be passed on as
//     one: the error suggests similar names.
//  2. Plan: bpf.Resolve uses the program's targets and operations, not yet its types.
//  3. Declare: set Key and Value of each map, by bpf.TypeOf in the plan.
//  4. Load and attach: bpf.Load, Plan.Attach. Mistakes in types are an *Error here.
//  5. Read: bpf.OpenTable for maps, bpf.OpenStream and bpf.Value for events. Reads that a
//     recorder given to Loaded.Record records give the same again from bpf.Open.
//
// # Limits
//
// Expressions and statements may be nested up to MaxDepth, and values in memory have up to
// MaxMemory bytes. A program that is wrong gives an *Error with its position when it is
// compiled, if not before. It never panics.
package ir
