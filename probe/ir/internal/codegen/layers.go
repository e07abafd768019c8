package codegen

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// The generator has five layers. Each embeds the layer below it and uses none of the layers
// above:
//
//	code        instructions, labels, code behind the end of the function
//	machine     the frame, registers and variables
//	runtime     helpers and the program's own maps: counters, budgets, scratch memory,
//	            storage, walks
//	values      expressions
//	statements  statements and the whole program
//
// Their invariants:
//
//   - A scalar in a register is canonical: extended from its type's width to 64 bits,
//     as eval.Norm does.
//   - busy holds the caller-saved registers with live values. A helper is called only
//     while it is empty. An expression that calls one is evaluated only while it is
//     empty, and values that must survive are spilled first.
//   - Text in memory is padded with NULs to its size, and aggregates have no undefined
//     bytes, so that equal values are equal bytes and work as map keys.
//   - fn.fp addresses the frame: R10, or in callbacks the caller's R10, so that
//     variables stay in place.

// code is the instructions generated so far.
type code struct {
	bpfasm.Assembler
	note string // of the next instruction
	fn   *function
	err  error
}

// machine tracks the places of values: in the frame, in scratch memory, in registers.
type machine struct {
	code
	lim   limits
	busy  regset
	frame space
	aux   space
	homes map[*ir.Var]home
}

// runtime is what a program uses in addition to its own instructions.
type runtime struct {
	machine
	prog   *ir.Program
	plan   *probe.Plan
	c      *check.Checked
	lay    *check.Layout
	usesFn map[string]bool
	// Frame slots for callbacks.
	ctxSlot, scratchSlot, retSlot int
	resultSlot                    int    // slot of the return value; 0 if that is always 0
	site                          uint32 // of the statement, for its failures; 0 is none
	started                       loc    // time at which the program started, for its budget
}

// values evaluates expressions.
type values struct {
	runtime
	calls map[*typed.Node]bool // whether evaluating a node calls a helper
	// typedVars are the variables that hold pointers whose type the verifier tracks, with the
	// types that they point to.
	typedVars map[*ir.Var]btf.Type
	argVars   map[*ir.Var]bool // those in typedVars that hold a pointer of the context
}

// statements generates one program.
type statements struct {
	values
	subs []func() // functions to generate after the current one
	// assigned are the variables that the code generated so far sets.
	assigned map[*ir.Var]bool
	depth    int // nesting depth of callbacks
	loops    loops.Form
}

func newStatements(p *ir.Program, plan *probe.Plan, c *check.Checked, lay *check.Layout,
	lim limits,
) *statements {
	m := machine{lim: lim, homes: map[*ir.Var]home{}}
	m.fn = &function{
		name: c.Pp.Name, fp: asm.R10, ctx: asm.R6, scr: asm.R9, evnt: asm.R8,
		exit: ".exit",
	}
	rt := runtime{machine: m, prog: p, plan: plan, c: c, lay: lay, usesFn: map[string]bool{}}
	v := values{runtime: rt, calls: map[*typed.Node]bool{}}
	return &statements{values: v, assigned: map[*ir.Var]bool{}, loops: loopForm(p, c)}
}
