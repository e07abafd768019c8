package main

import (
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

// execed is no block's address: what is kept by it says when the process began to
// run another program, which has none of the blocks before.
const execed = 0

// frames is how deep stacks are kept.
const frames = 24

// pageSize is that of the machine.
var pageSize = int64(os.Getpagesize())

// block is memory that was not freed, by its address.
type block struct {
	Size, Nsecs uint64
	Stack       [frames]uint64
}

// keeper keeps blocks that are allocated until they are freed.
type keeper struct {
	live               *action.Hash[uint64, block]
	least, most, every int
}

// keep has an action keep a block, if its size is one that is wanted.
func (k *keeper) keep(c *action.Ctx, addr, size action.Int, stack action.Stack) {
	c.ReturnUnless(addr.Ne(0))
	c.ReturnUnless(size.Ge(k.least))
	if k.most > 0 {
		c.ReturnUnless(size.Le(k.most))
	}
	if k.every > 1 {
		c.ReturnUnless(c.Builtin("rand").Mod(k.every).Eq(0))
	}
	k.live.Set(c, addr, action.Key(size, c.Nsecs(), stack))
}

// kernel is for what the kernel allocates, by its tracepoints.
func (k *keeper) kernel(percpu bool) *action.Program {
	p := action.NewProgram("memleak")
	p.IncludeSelf = true // what one thread allocates another one may free
	if percpu {
		p.On(probe.Tracepoint{Group: "percpu", Name: "percpu_alloc_percpu"}, func(c *action.Ctx) {
			k.keep(c, c.Field("ptr"), c.Field("size"), c.Kstack(frames))
		})
		p.On(probe.Tracepoint{Group: "percpu", Name: "percpu_free_percpu"}, func(c *action.Ctx) {
			k.live.Delete(c, c.Field("ptr"))
		})
		return p
	}
	// The _node forms are before Linux 6.1.
	for _, name := range []string{"kmalloc", "kmalloc_node", "kmem_cache_alloc", "kmem_cache_alloc_node"} {
		p.On(tool.Tracepoints("kmem", name), func(c *action.Ctx) {
			k.keep(c, c.Field("ptr").As(ir.Uint64Type()), c.Field("bytes_alloc"), c.Kstack(frames))
		})
	}
	p.On(tool.Tracepoints("kmem", "kfree", "kmem_cache_free"), func(c *action.Ctx) {
		k.live.Delete(c, c.Field("ptr").As(ir.Uint64Type()))
	})
	// Pages have numbers, which are no addresses of anything else.
	p.On(probe.Tracepoint{Group: "kmem", Name: "mm_page_alloc"}, func(c *action.Ctx) {
		k.keep(c, c.Field("pfn").As(ir.Uint64Type()), c.Const(pageSize).Shl(c.Field("order")), c.Kstack(frames))
	})
	p.On(tool.Tracepoints("kmem", "mm_page_free", "mm_page_free_batched"), func(c *action.Ctx) {
		k.live.Delete(c, c.Field("pfn").As(ir.Uint64Type()))
	})
	return p
}

// process is for what a process allocates by a library's malloc and its kind.
func (k *keeper) process(library string, pid int) *action.Program {
	p := action.NewProgram("memleak")
	live := k.live
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

	p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_exec"}, func(c *action.Ctx) {
		tool.FilterPID(c, pid)
		live.Set(c, uint64(execed), action.Key(uint64(0), c.Nsecs(), c.Ustack(frames)))
	})

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
	keep := func(c *action.Ctx, addr, size action.Int) { k.keep(c, addr, size, c.Ustack(frames)) }
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
			c.ReturnUnless(c.Ret().As(ir.IntType(4, true)).Eq(0))
			keep(c, v.Elem("Where").Ptr().User().Load(0, ir.Uint64Type()), v.Elem("Size"))
		})
	})
	return p
}
