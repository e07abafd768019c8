package codegen

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/loops"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// The generator is five layers, of which each has the one below in it and calls nothing
// of the ones above:
//
//	code        instructions, labels, what stands apart from the usual way
//	machine     the frame, registers and variables
//	runtime     what the kernel and the program's own maps are asked for: helpers,
//	            counters, budgets, scratch memory, storage, walks
//	values      expressions
//	statements  statements and the whole program
//
// Their invariants:
//
//   - A scalar in a register is canonical: extended from its type's width to
//     64 bits as norm does.
//   - busy holds the caller-saved registers that carry live values. A helper is
//     called only while it is empty; an expression that calls is evaluated only
//     while it is empty, and values that must survive are spilled first.
//   - Text in memory is padded with NULs to its size, aggregates have no
//     undefined bytes, so that equal values are equal bytes and map keys work.
//   - fn.fp addresses the frame: R10, or in callbacks the caller's R10, so that
//     variables are where they were.

// code is the instructions so far.
type code struct {
	insns  asm.Instructions
	labels []string // those of the next instruction
	alias  map[string]string
	nlabel int
	note   string // of the next instruction
	fn     *function
	err    error
}

// machine is where values are: in the frame, in scratch memory, in registers.
type machine struct {
	code
	lim   limits
	busy  regset
	frame space
	aux   space
	homes map[*ir.Var]home
}

// runtime is what a program uses beside its own instructions.
type runtime struct {
	machine
	prog   *ir.Program
	plan   *probe.Plan
	c      *check.Checked
	lay    *check.Layout
	usesFn map[string]bool
	// Frame slots that callbacks need.
	ctxSlot, scratchSlot, retSlot int
	resultSlot                    int // what the program returns, 0 for always 0
	started                       loc // when the program began, for its budget
}

// values evaluates expressions.
type values struct {
	runtime
	calls map[*typed.Node]bool // whether evaluating one calls a helper
	// typedVars are the variables that hold pointers whose type the verifier
	// knows, with what they point to.
	typedVars map[*ir.Var]btf.Type
	argVars   map[*ir.Var]bool // those among them that hold the context's own
}

// statements generates one program.
type statements struct {
	values
	subs []func() // functions to generate after the current one
	// assigned are the variables that were set so far, in order of generation.
	assigned map[*ir.Var]bool
	depth    int // how deep callbacks nest
	loops    loops.Form
}

func newStatements(p *ir.Program, plan *probe.Plan, c *check.Checked, lay *check.Layout,
	lim limits,
) *statements {
	m := machine{lim: lim, homes: map[*ir.Var]home{}}
	m.alias = map[string]string{}
	m.fn = &function{
		name: c.Pp.Name, fp: asm.R10, ctx: asm.R6, scr: asm.R9, evnt: asm.R8,
		exit: ".exit",
	}
	rt := runtime{machine: m, prog: p, plan: plan, c: c, lay: lay, usesFn: map[string]bool{}}
	v := values{runtime: rt, calls: map[*typed.Node]bool{}}
	return &statements{values: v, assigned: map[*ir.Var]bool{}, loops: loopForm(p, c)}
}
