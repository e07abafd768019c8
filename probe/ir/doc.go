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
// # Limits
//
// Expressions and statements are nested up to MaxDepth, values in memory are up to
// MaxMemory bytes. A program that is wrong gives an *Error with its position: when it
// is compiled, at the latest, never by a panic.
package ir
