package bpf

import (
	"context"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// Compiled is a program that was compiled for a plan. It is immutable and safe for concurrent use.
type Compiled struct {
	prog *ir.Program
	plan *probe.Plan
	spec *ebpf.CollectionSpec
}

// Build resolves a program's targets as [Resolve] does and compiles it as [Compile] does, once: to
// check it, and to load it any number of times. Its errors are theirs.
func Build(env *probe.Env, p *ir.Program, o *probe.Options) (*Compiled, error) {
	plan, spec, err := resolve(env, p, o)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		if spec, err = Compile(p, plan); err != nil {
			return nil, err
		}
	}
	return &Compiled{p, plan, spec}, nil
}

// Program returns the program that was compiled. It is shared: do not change it.
func (c *Compiled) Program() *ir.Program { return c.prog }

// Plan returns the plan that the program was compiled for. It is shared: do not change it.
func (c *Compiled) Plan() *probe.Plan { return c.plan }

// Load loads the program as [LoadContext] does. It compiles again only in a process whose pid
// namespace is not the initial one: there pid and tid are other numbers.
func (c *Compiled) Load(ctx context.Context) (*Loaded, error) { return c.load(ctx, nil) }

// load loads the program, as a version of those of h unless that is nil.
func (c *Compiled) load(ctx context.Context, h *Handover) (*Loaded, error) {
	ns, spec := kernel.OwnPIDNamespace(), c.spec
	if ns != nil {
		var err error
		if spec, err = compileIn(ctx, ns, c.prog, c.plan); err != nil {
			return nil, err
		}
	} else {
		spec = spec.Copy()
	}
	return loadSpec(ctx, ns, c.prog, c.plan, spec, h)
}
