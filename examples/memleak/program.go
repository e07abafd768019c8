package main

import (
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

// frames is how deep stacks are kept.
const frames = 24

// block is memory that was not freed, by its address.
type block struct {
	Size, Nsecs uint64
	Stack       [frames]uint64
}

// program keeps the blocks that a process allocates until it frees them.
func program(live *action.Hash[uint64, block], library string, pid int, least, most uint64) *action.Program {
	p := action.NewProgram("memleak")
	sizes := action.NewPair[uint64]("sizes", 0)
	entry := func(names ...string) (set probe.Set) {
		for _, name := range names {
			set = append(set, probe.Uprobe{Path: library, Symbol: name, PID: pid})
		}
		return set
	}
	enter := func(size func(c *action.Ctx) action.Int, names ...string) {
		p.On(entry(names...), func(c *action.Ctx) {
			tool.FilterPID(c, pid)
			sizes.Enter(c, size(c))
		})
	}
	enter(func(c *action.Ctx) action.Int { return c.Arg(0) }, "malloc", "valloc", "pvalloc")
	enter(func(c *action.Ctx) action.Int { return c.Arg(0).Mul(c.Arg(1)) }, "calloc")
	enter(func(c *action.Ctx) action.Int { return c.Arg(1) }, "memalign", "aligned_alloc")

	// What realloc is given is gone, or kept at the same address by its return.
	p.On(entry("realloc"), func(c *action.Ctx) {
		tool.FilterPID(c, pid)
		live.Delete(c, c.Arg(0))
		sizes.Enter(c, c.Arg(1))
	})
	p.On(entry("free"), func(c *action.Ctx) {
		tool.FilterPID(c, pid)
		live.Delete(c, c.Arg(0))
	})

	// The stack is that of the return, when the caller's frame is in place again.
	keep := func(c *action.Ctx, addr, size action.Int) {
		c.ReturnUnless(addr.Ne(0))
		c.ReturnUnless(size.Ge(least))
		if most > 0 {
			c.ReturnUnless(size.Le(most))
		}
		live.Set(c, addr, action.Key(size, c.Nsecs(), c.Ustack(frames)))
	}
	var returns probe.Set
	for _, name := range []string{"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "valloc", "pvalloc"} {
		returns = append(returns, probe.Uretprobe{Path: library, Symbol: name, PID: pid})
	}
	p.On(returns, func(c *action.Ctx) {
		sizes.Leave(c, func(size action.Int) { keep(c, c.Ret(), size) })
	})

	// posix_memalign says where by its first argument.
	aligned := action.NewPair[struct{ Where, Size uint64 }]("aligned", 0)
	p.On(entry("posix_memalign"), func(c *action.Ctx) {
		tool.FilterPID(c, pid)
		aligned.Enter(c, action.Key(c.Arg(0), c.Arg(2)))
	})
	p.On(probe.Uretprobe{Path: library, Symbol: "posix_memalign", PID: pid}, func(c *action.Ctx) {
		aligned.Leave(c, func(v action.Int) {
			c.ReturnUnless(c.Ret().As(action.IntType(4, true)).Eq(0))
			keep(c, v.Elem("Where").Ptr().User().Load(0, action.Uint64Type()), v.Elem("Size"))
		})
	})
	return p
}
