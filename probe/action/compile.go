package action

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
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
func Compile(p *Program, plan *probe.Plan) (*ebpf.CollectionSpec, error) {
	return compileIn(nil, p, plan)
}

// compileIn is Compile for a process in the namespace.
func compileIn(ns *kernel.PIDNamespace, p *Program, plan *probe.Plan) (*ebpf.CollectionSpec, error) {
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

// Validate reports what is wrong with a program, as far as that can be said
// without a plan: declarations of maps, what the typed surface recorded.
func (p *Program) Validate() error {
	if err := p.Err(); err != nil {
		return err
	}
	_, err := newLayout(p, nil)
	return err
}

func compile(p *Program, plan *probe.Plan, ns *kernel.PIDNamespace) (*ebpf.CollectionSpec, error) {
	lay, err := newLayout(p, plan)
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
		c, err := check(p, plan, i, ns)
		if err != nil {
			return nil, at(p.Actions[min(max(pp.Group, 0), len(p.Actions)-1)].Pos, pp.Name, err)
		}
		c.inline()
		insns, need, err := generate(p, plan, c, lay)
		if err != nil {
			return nil, at(p.Actions[pp.Group].Pos, pp.Name, err)
		}
		scratch = max(scratch, need)
		walks = walks || c.walk != nil
		spec.Programs[pp.Name] = &ebpf.ProgramSpec{
			Name: pp.Name, Type: pp.Type, AttachType: pp.AttachType, AttachTo: pp.AttachTo, Flags: pp.Flags,
			License: p.license(), Instructions: insns, ByteOrder: binary.LittleEndian,
		}
	}
	for _, m := range lay.systemMaps(p, scratch) {
		spec.Maps[m.Name] = m
	}
	for _, m := range lay.maps {
		ms := lay.mapSpec(m)
		if m.Kind != MapRing && m.Kind != MapPerf {
			limit, err := keyLimit(m, kernelVersion(plan.Kernel))
			if err != nil {
				return nil, at(m.Pos, "map "+m.Name, err)
			}
			ms.KeySize = uint32(limit)
		}
		addMap(spec, m, ms)
		for _, n := range classesOf(m) {
			class := lay.mapSpec(m)
			class.Name, class.KeySize = className(m, n), uint32(8*n)
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
	return spec, lay.checkBytes(p, spec, 1)
}

// errNoPrograms says that a plan is empty.
var errNoPrograms = errors.New("the plan has no programs")
