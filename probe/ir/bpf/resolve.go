package bpf

import (
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/internal/loops"
)

// Resolve decides how a program's targets are attached, as probe.Resolve does, and adds to
// the plan what else compiling the program needs: kernel types, and the addresses of symbols.
// A nil env is this machine. Beyond those that are set in o, Resolve sets options by the
// program's operations: NoTypes if it uses no arguments, EntryReturnTargets for the actions that
// use an operation of sessions, ProgramPerSite if it reads which of its sites has fired.
func Resolve(env *probe.Env, p *ir.Program, o *probe.Options) (*probe.Plan, error) {
	plan, _, err := resolve(env, p, o)
	return plan, err
}

// resolve is Resolve. It returns the compiled program, too, if finding the kernel's types has
// compiled it, else nil. The result may have a plan although there is an error.
func resolve(env *probe.Env, p *ir.Program, o *probe.Options) (
	*probe.Plan, *ebpf.CollectionSpec, error,
) {
	if err := p.Err(); err != nil {
		return nil, nil, err
	}
	if env == nil {
		env = probe.NewEnv(nil)
	}
	ro := probe.Options{}
	if o != nil {
		ro = *o
	}
	ro.NoTypes = ro.NoTypes || !usesArguments(p)
	ro.EntryReturnTargets = append(slices.Clone(ro.EntryReturnTargets), sessionActions(p)...)
	ro.ProgramPerSite = ro.ProgramPerSite || usesCookie(p)
	plan, err := probe.Resolve(env, p.Targets(), &ro)
	if err != nil {
		return nil, nil, err
	}
	if err := resolveSymbols(env, p, plan); err != nil {
		return plan, nil, err
	}
	var spec *ebpf.CollectionSpec
	if plan.BTF == nil && needsBTF(p) {
		if plan.BTF, spec, err = kernelTypes(env, p, plan); err != nil {
			return nil, nil, err
		}
	}
	return plan, spec, nil
}

// usesArguments reports whether a program reads anything that has a type in BTF. If not, BTF
// need not be read, which would take most of the time of attaching.
func usesArguments(p *ir.Program) bool {
	uses := false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		uses = uses || e.Op == ir.OpArg || e.Op == ir.OpRet || e.Op == ir.OpField
	})
	return uses
}

// sessionActions returns the indexes of the actions that use operations of session programs.
func sessionActions(p *ir.Program) (list []int) {
	for i, a := range p.Actions {
		if sessionAction(a) {
			list = append(list, i)
		}
	}
	return list
}

func sessionAction(a ir.Action) bool {
	uses := false
	(&ir.Program{Actions: []ir.Action{a}}).Visit(func(s *ir.Stmt) {
		uses = uses || s.Op == ir.StmtSkip || s.Op == ir.StmtCookie
	}, func(e *ir.Expr) {
		uses = uses || e.Op == ir.OpBuiltin && builtin.Named(e.Str).Session
	})
	return uses
}

// usesCookie reports whether a program reads which of its sites has fired.
func usesCookie(p *ir.Program) bool {
	uses := false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		uses = uses || e.Op == ir.OpBuiltin && builtin.Named(e.Str).Site
	})
	return uses
}

// needsBTF reports whether a program needs kernel types, or calls kernel functions.
func needsBTF(p *ir.Program) bool {
	need := false
	for _, a := range p.Actions {
		need = need || sessionAction(a)
	}
	need = need || walksStacks(p)
	p.Visit(func(s *ir.Stmt) {
		need = need || s.Op == ir.StmtPacket
		need = need || s.Op == ir.StmtLoop && p.Loops == loops.Iter
		need = need || s.Map != nil && s.Map.Kind == ir.MapCgroupStorage
	}, func(e *ir.Expr) {
		need = need || e.Map != nil && e.Map.Kind == ir.MapCgroupStorage
		switch e.Op {
		case ir.OpPath, ir.OpMember, ir.OpAddrOf, ir.OpIndex, ir.OpDeref, ir.OpOffset, ir.OpEnum,
			ir.OpSizeof, ir.OpTaskPID, ir.OpTaskTID:
			need = true
		case ir.OpCast:
			need = need || e.Type.Kind == ir.KindPtr && e.Str != ""
		case ir.OpBuiltin:
			need = need || len(builtin.Named(e.Str).Kernel) > 0
		}
	})
	return need
}

// walksStacks reports whether a program has user stacks walked by OpUstackWalk.
func walksStacks(p *ir.Program) bool {
	walks := false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) { walks = walks || e.Op == ir.OpUstackWalk })
	return walks
}
