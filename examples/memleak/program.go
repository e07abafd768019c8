package main

import (
	"cmp"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

// execed is a key that is no block's address. Its entry has the time at which the process
// began to run another program, which has none of the earlier blocks.
const execed = 0

// frames is the depth of the stacks that are kept.
const frames = 24

// pageSize is the machine's page size in bytes.
var pageSize = int64(os.Getpagesize())

// block is memory that was not freed. Its key is its address.
type block struct {
	Size, Nsecs uint64
	Stack       [frames]uint64
}

// keeper records allocated blocks until they are freed.
type keeper struct {
	*options
	live *action.Hash[uint64, block]
}

// program traces the allocations of the kernel, or of -p's process.
func (k *keeper) program() *action.Program {
	if *k.pid == 0 {
		return k.kernel()
	}
	return k.process(cmp.Or(*k.library, "libc.so.6"))
}

// keep makes an action record a block, if its size is one of those to print.
func (k *keeper) keep(c *action.Ctx, addr, size action.Int, stack action.Stack) {
	c.ReturnUnless(addr.Ne(0))
	c.ReturnUnless(size.Ge(*k.least))
	if *k.most > 0 {
		c.ReturnUnless(size.Le(*k.most))
	}
	if *k.every > 1 {
		c.ReturnUnless(c.Builtin("rand").Mod(*k.every).Eq(0))
	}
	k.live.Set(c, addr, action.Key(size, c.Nsecs(), stack))
}

// kernel traces the allocations of the kernel with its tracepoints.
func (k *keeper) kernel() *action.Program {
	p := action.NewProgram("memleak")
	p.IncludeSelf = true // one thread may free memory that another has allocated
	if *k.percpu {
		p.On(probe.Tracepoint{Group: "percpu", Name: "percpu_alloc_percpu"}, func(c *action.Ctx) {
			k.keep(c, c.Field("ptr"), c.Field("size"), c.Kstack(frames))
		})
		p.On(probe.Tracepoint{Group: "percpu", Name: "percpu_free_percpu"}, func(c *action.Ctx) {
			k.live.Delete(c, c.Field("ptr"))
		})
		return p
	}
	// The _node forms exist before Linux 6.1.
	for _, name := range []string{
		"kmalloc", "kmalloc_node", "kmem_cache_alloc",
		"kmem_cache_alloc_node",
	} {
		p.On(tool.Tracepoints("kmem", name), func(c *action.Ctx) {
			k.keep(c, c.Field("ptr").As(ir.Uint64Type()), c.Field("bytes_alloc"), c.Kstack(frames))
		})
	}
	p.On(tool.Tracepoints("kmem", "kfree", "kmem_cache_free"), func(c *action.Ctx) {
		k.live.Delete(c, c.Field("ptr").As(ir.Uint64Type()))
	})
	// Pages are recorded by their number, which is never the address of another block.
	p.On(probe.Tracepoint{Group: "kmem", Name: "mm_page_alloc"}, func(c *action.Ctx) {
		k.keep(c, c.Field("pfn").As(ir.Uint64Type()), c.Const(pageSize).Shl(c.Field("order")),
			c.Kstack(frames))
	})
	p.On(tool.Tracepoints("kmem", "mm_page_free", "mm_page_free_batched"), func(c *action.Ctx) {
		k.live.Delete(c, c.Field("pfn").As(ir.Uint64Type()))
	})
	return p
}

// process traces the allocations of a process by malloc and its like in a library.
func (k *keeper) process(library string) *action.Program {
	p := action.NewProgram("memleak")
	sizes := action.NewPair[uint64]("sizes", 0)
	enter := func(size func(c *action.Ctx) action.Int, names ...string) {
		k.on(p, library, func(c *action.Ctx) { sizes.Enter(c, size(c)) }, names...)
	}
	enter(func(c *action.Ctx) action.Int { return c.Arg(0) }, "malloc", "valloc", "pvalloc")
	enter(func(c *action.Ctx) action.Int { return c.Arg(0).Mul(c.Arg(1)) }, "calloc")
	enter(func(c *action.Ctx) action.Int { return c.Arg(1) }, "memalign", "aligned_alloc")

	p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_exec"}, func(c *action.Ctx) {
		tool.FilterPID(c, *k.pid)
		k.live.Set(c, uint64(execed), action.Key(uint64(0), c.Nsecs(), c.Ustack(frames)))
	})

	// The argument of realloc is freed; if the block stays where it is, the return records it
	// again.
	k.on(p, library, func(c *action.Ctx) {
		k.live.Delete(c, c.Arg(0))
		sizes.Enter(c, c.Arg(1))
	}, "realloc")
	k.on(p, library, func(c *action.Ctx) { k.live.Delete(c, c.Arg(0)) }, "free")

	// The stack is that of the return, when the frame of the caller is in place again.
	var returns probe.Set
	for _, name := range []string{
		"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "valloc",
		"pvalloc",
	} {
		returns = append(returns, probe.Uretprobe{Path: library, Symbol: name, PID: *k.pid})
	}
	p.On(returns, func(c *action.Ctx) {
		sizes.Leave(c, func(size action.Int) { k.keep(c, c.Ret(), size, c.Ustack(frames)) })
	})
	k.aligned(p, library)
	return p
}

// on adds an action for the process's calls of functions of the library.
func (k *keeper) on(p *action.Program, library string, does func(c *action.Ctx), names ...string) {
	var set probe.Set
	for _, name := range names {
		set = append(set, probe.Uprobe{Path: library, Symbol: name, PID: *k.pid})
	}
	p.On(set, func(c *action.Ctx) {
		tool.FilterPID(c, *k.pid)
		does(c)
	})
}

// aligned traces posix_memalign, which stores the address through its first argument.
func (k *keeper) aligned(p *action.Program, library string) {
	aligned := action.NewPair[struct{ Where, Size uint64 }]("aligned", 0)
	k.on(p, library, func(c *action.Ctx) {
		aligned.Enter(c, action.Key(c.Arg(0), c.Arg(2)))
	}, "posix_memalign")
	p.On(probe.Uretprobe{Path: library, Symbol: "posix_memalign", PID: *k.pid}, func(c *action.Ctx) {
		aligned.Leave(c, func(v action.Int) {
			c.ReturnUnless(c.Ret().As(ir.IntType(4, true)).Eq(0))
			at := v.Elem("Where").Ptr().User().Load(0, ir.Uint64Type())
			k.keep(c, at, v.Elem("Size"), c.Ustack(frames))
		})
	})
}
