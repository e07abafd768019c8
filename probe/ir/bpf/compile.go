package bpf

import (
	"context"
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

// Compile compiles a program to BPF for a plan. It is pure: it does not look at the machine
// it runs on, and the same program and plan give the same instructions. Program i of the plan
// becomes the spec's program of that name.
//
// Errors are of type *Error if a place in the program is wrong, and match
// errors.ErrUnsupported if the plan's kernel lacks a feature.
//
// The compiled programs use the numbers of tasks in the initial pid namespace. Load compiles
// for the namespace of its caller, and makes room for its machine's CPUs: values of some ten
// thousand bytes are in an array with room for one.
func Compile(p *ir.Program, plan *probe.Plan) (*ebpf.CollectionSpec, error) {
	return compileIn(context.Background(), nil, p, plan)
}

// compileIn is Compile for a process in namespace ns, until ctx ends.
func compileIn(ctx context.Context, ns *kernel.PIDNamespace, p *ir.Program,
	plan *probe.Plan,
) (*ebpf.CollectionSpec, error) {
	switch {
	case p == nil:
		return nil, fmt.Errorf("compile: %w", errNoProgram)
	case plan == nil:
		return nil, fmt.Errorf("compile %s: %w", p.Name, errNoPlan)
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", p.Name, err)
	}
	spec, err := compile(ctx, p, plan, ns)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", p.Name, err)
	}
	return spec, nil
}

// TypeOf returns the type that an expression has in program i of a plan: the type of an
// argument or a member there, or of what is computed from them. Variables in the expression
// need types of their own. Front ends use it to declare the keys of maps and events.
func TypeOf(e *ir.Expr, plan *probe.Plan, i int) (ir.Type, error) {
	switch {
	case plan == nil:
		return ir.Type{}, errNoPlan
	case i < 0 || i >= len(plan.Programs):
		return ir.Type{}, fmt.Errorf("program %d of %d", i, len(plan.Programs))
	}
	return check.TypeOf(e, plan, i)
}

// Validate returns an error for mistakes in a program that show without a plan: in
// declarations of maps, and those that were recorded with the program.
func Validate(p *ir.Program) error {
	if err := p.Err(); err != nil {
		return err
	}
	_, err := check.NewLayout(p, nil)
	return err
}

func compile(ctx context.Context, p *ir.Program, plan *probe.Plan,
	ns *kernel.PIDNamespace,
) (*ebpf.CollectionSpec, error) {
	lay, err := check.NewLayout(p, plan)
	if err != nil {
		return nil, err
	}
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{}, Programs: map[string]*ebpf.ProgramSpec{},
		ByteOrder: binary.LittleEndian,
	}
	scratch, walks, err := programs(ctx, p, plan, ns, lay, spec)
	if err == nil && check.ScratchUsed+scratch > check.MostPerCPU {
		lay.Wide = true
		clear(spec.Programs)
		scratch, walks, err = programs(ctx, p, plan, ns, lay, spec)
	}
	if err != nil {
		return nil, err
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

// programs adds the programs to a specification. It returns the size of the scratch area that they
// need, and whether one walks stacks.
func programs(ctx context.Context, p *ir.Program, plan *probe.Plan, ns *kernel.PIDNamespace,
	lay *check.Layout, spec *ebpf.CollectionSpec,
) (scratch int, walks bool, err error) {
	for i := range plan.Programs {
		pp := &plan.Programs[i]
		if err := ctx.Err(); err != nil {
			return 0, false, err
		}
		if spec.Programs[pp.Name] != nil {
			return 0, false, fmt.Errorf("plan: two programs are named %s", pp.Name)
		}
		c, err := check.Check(p, plan, i, ns)
		if err != nil {
			return 0, false, check.At(p.Actions[min(max(pp.Group, 0), len(p.Actions)-1)].Pos, pp.Name, err)
		}
		insns, need, err := codegen.Generate(p, plan, opt.Inline(c), lay)
		if err != nil {
			return 0, false, check.At(p.Actions[pp.Group].Pos, pp.Name, err)
		}
		scratch = max(scratch, need)
		walks = walks || c.Walk != nil
		spec.Programs[pp.Name] = &ebpf.ProgramSpec{
			Name: pp.Name, Type: pp.Type, AttachType: pp.AttachType, AttachTo: pp.AttachTo, Flags: pp.Flags,
			License: check.License(p), Instructions: insns, ByteOrder: binary.LittleEndian,
		}
	}
	return scratch, walks, nil
}

// errNoPrograms is the error for an empty plan.
var errNoPrograms = errors.New("the plan has no programs")
