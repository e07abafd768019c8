package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/codegen"
	"github.com/borescope/borescope/probe/ir/internal/opt"
)

// Compile turns a program into BPF for a plan. It is pure: it asks nothing of
// the machine it runs on, and gives the same instructions for the same program
// and plan. Program i of the plan becomes the spec's program of that name.
//
// Errors are of type *Error where a place in the program is at fault, and match
// errors.ErrUnsupported where the plan's kernel lacks something.
//
// The programs know tasks by their numbers in the initial pid namespace; Load
// compiles for the one that it is called in.
func Compile(p *ir.Program, plan *probe.Plan) (*ebpf.CollectionSpec, error) {
	return compileIn(nil, p, plan)
}

// compileIn is Compile for a process in the namespace.
func compileIn(ns *kernel.PIDNamespace, p *ir.Program, plan *probe.Plan) (*ebpf.CollectionSpec, error) {
	switch {
	case p == nil:
		return nil, fmt.Errorf("compile: %w", errNoProgram)
	case plan == nil:
		return nil, fmt.Errorf("compile %s: %w", p.Name, errNoPlan)
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", p.Name, err)
	}
	spec, err := compile(p, plan, ns)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", p.Name, err)
	}
	return spec, nil
}

// TypeOf is the type that an expression has in program i of a plan: what an argument or
// a member is there, and what is computed of it. Variables in the expression need types
// of their own. It is what a front end declares a map's key or an event by.
func TypeOf(e *ir.Expr, plan *probe.Plan, i int) (ir.Type, error) {
	switch {
	case plan == nil:
		return ir.Type{}, errNoPlan
	case i < 0 || i >= len(plan.Programs):
		return ir.Type{}, fmt.Errorf("program %d of %d", i, len(plan.Programs))
	}
	return check.TypeOf(e, plan, i)
}

// Validate reports what is wrong with a program, as far as that can be said
// without a plan: declarations of maps, what was recorded with errors.
func Validate(p *ir.Program) error {
	if err := p.Err(); err != nil {
		return err
	}
	_, err := check.NewLayout(p, nil)
	return err
}

func compile(p *ir.Program, plan *probe.Plan, ns *kernel.PIDNamespace) (*ebpf.CollectionSpec, error) {
	lay, err := check.NewLayout(p, plan)
	if err != nil {
		return nil, err
	}
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{}, Programs: map[string]*ebpf.ProgramSpec{},
		ByteOrder: binary.LittleEndian,
	}
	scratch, walks := 0, false
	for i := range plan.Programs {
		pp := &plan.Programs[i]
		if spec.Programs[pp.Name] != nil {
			return nil, fmt.Errorf("plan: two programs are named %s", pp.Name)
		}
		c, err := check.Check(p, plan, i, ns)
		if err != nil {
			return nil, check.At(p.Actions[min(max(pp.Group, 0), len(p.Actions)-1)].Pos, pp.Name, err)
		}
		insns, need, err := codegen.Generate(p, plan, opt.Inline(c), lay)
		if err != nil {
			return nil, check.At(p.Actions[pp.Group].Pos, pp.Name, err)
		}
		scratch = max(scratch, need)
		walks = walks || c.Walk != nil
		spec.Programs[pp.Name] = &ebpf.ProgramSpec{
			Name: pp.Name, Type: pp.Type, AttachType: pp.AttachType, AttachTo: pp.AttachTo, Flags: pp.Flags,
			License: check.License(p), Instructions: insns, ByteOrder: binary.LittleEndian,
		}
	}
	for _, m := range lay.SystemMaps(p, scratch) {
		spec.Maps[m.Name] = m
	}
	for _, m := range lay.Maps {
		ms := lay.MapSpec(m)
		if m.Kind != ir.MapRing && m.Kind != ir.MapPerf {
			limit, err := check.KeyLimit(m, check.KernelVersion(plan.Kernel))
			if err != nil {
				return nil, check.At(m.Pos, "map "+m.Name, err)
			}
			ms.KeySize = uint32(limit)
		}
		addMap(spec, m, ms)
		for _, n := range check.ClassesOf(m) {
			class := lay.MapSpec(m)
			class.Name, class.KeySize = check.ClassName(m, n), uint32(8*n)
			addMap(spec, m, class)
		}
	}
	if walks {
		if err := addWalkMaps(p, spec); err != nil {
			return nil, err
		}
	}
	if err := plan.ApplyFilter(spec); err != nil {
		return nil, err
	}
	return spec, check.Bytes(lay, p, spec, 1)
}

// errNoPrograms says that a plan is empty.
var errNoPrograms = errors.New("the plan has no programs")
