// Package ir is what a BPF program does, as data: a front end makes a Program at run
// time, from whatever language it reads, and others load it, run it in Go, or show it.
//
//	hits := &ir.Map{Name: "hits", Agg: ir.AggCount, Key: ir.StringType(16)}
//	p := &ir.Program{Name: "count", Actions: []ir.Action{{
//		Target: probe.RawTracepoint{Name: "sys_enter"},
//		Body:   []*ir.Stmt{{Op: ir.StmtAgg, Map: hits, Key: ir.NewBuiltin("comm")}},
//	}}}
//
// A program has actions, each of a target and statements; statements have expressions;
// both name maps and variables. All of it is plain data with positions in the source
// that it came from, for errors, and with a String for people. Types that a node leaves
// open (KindAuto) are decided when a plan says what the probes' arguments are. Nodes
// may be shared; nobody writes to them.
//
// # The rooms below
//
// Package bpf compiles a program for a plan, loads it, and reads its maps and events.
// Package interp runs it in Go over recorded contexts and memory. Package inspect lists
// what was generated. Package action, beside this one, is the surface for people who
// write programs in Go; what it records is an ir.Program.
//
// # Build a front end
//
// A front end parses its language into a Program, gives maps and events the types that
// their keys and values have where the probe is (bpf.TypeOf), and reads them by their
// declarations (bpf.OpenTable, bpf.OpenStream): it needs no Go type for anything. Example
// (FrontEnd) of package bpf is one of a page, for a language of three statements, live and
// from a recording.
//
//  1. Parse: targets by probe.ParseTarget, statements and expressions with their Pos, so
//     that errors point into the script. A name that is no builtin may stay one: the error
//     says what may have been meant.
//  2. Plan: bpf.Resolve looks at the program's targets and operations, not yet at types.
//  3. Declare: of each map, Key and Value by bpf.TypeOf in the plan.
//  4. Load and attach: bpf.Load, Plan.Attach. Mistakes that only types show are an *Error.
//  5. Read: bpf.OpenTable for maps, bpf.OpenStream and bpf.Value for events. What is read
//     while a recorder is given to Loaded.Record reads the same again from bpf.Open.
//
// # Limits
//
// Expressions and statements are nested up to MaxDepth, values in memory are up to
// MaxMemory bytes. A program that is wrong gives an *Error with its position: when it
// is compiled, at the latest, never by a panic.
package ir
