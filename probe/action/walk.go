package action

import (
	"debug/elf"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// taskRegsSince is when bpf_task_pt_regs came.
var taskRegsSince = Version{5, 15}

// plainFrames is how many rounds of the walker the verifiers of kernels without
// bpf_loop bear (bpfwalk.Walker.MaxFrames).
const plainFrames = 127

// loopFrames is how many frames a walk with bpf_loop may take: what fits scratch
// memory with room for other values.
const loopFrames = 512

// walkCache bounds the compiled rules that are kept in this process, besides
// those that the kernel has, so that a file is compiled once.
const walkCache = 16 << 20

// taskStack is the member that older kernels' walker needs too.
const taskStack = "task_struct.stack"

// walksStacks says whether a program asks for walked user stacks.
func walksStacks(p *Program) bool {
	walks := false
	p.visit(func(*Stmt) {}, func(e *Expr) { walks = walks || e.Op == OpUstackWalk })
	return walks
}

// walked makes the action's walker ready for one more stack of so many frames.
func (c *checker) walked(frames int) error {
	const what = "walk of a user stack"
	old := "Linux " + c.plan.Kernel + " has no bpf_loop: "
	plain := !c.kern.AtLeast(bpfLoopSince)
	switch {
	case c.pp.Type == ebpf.SocketFilter || c.pp.Type == ebpf.Syscall:
		return unsupported(what, Version{}, c.targetName()+" runs on behalf of no process")
	case frames > loopFrames:
		return fmt.Errorf("%d frames: at most %d, with those left out", frames, loopFrames)
	case plain && frames > plainFrames:
		return unsupported(fmt.Sprintf("walk of %d frames", frames), bpfLoopSince, old+fmt.Sprintf("take at most %d", plainFrames))
	case plain && c.loops > 0:
		return unsupported(what+" in a loop", bpfLoopSince, old+"walk it before the loop")
	case plain && c.walk != nil:
		return unsupported("second "+what, bpfLoopSince, old+"walk it once")
	}
	if c.walk == nil {
		w, err := c.newWalker(plain)
		if err != nil {
			return err
		}
		c.walk = w
	}
	c.walk.MaxFrames = max(c.walk.MaxFrames, frames)
	return nil
}

func (c *checker) newWalker(plain bool) (*bpfwalk.Walker, error) {
	w := &bpfwalk.Walker{PlainLoop: plain, Returns: returnProbes(c.plan)}
	if c.plan.Arch == "arm64" {
		w.Machine = elf.EM_AARCH64
	}
	if c.kern.AtLeast(taskRegsSince) {
		return w, nil
	}
	if c.plan.BTF == nil {
		return nil, unsupported("walk of a user stack", taskRegsSince, "older kernels need the offset of task_struct.stack: "+noBTF)
	}
	off, err := kernel.MemberOffset(c.plan.BTF, taskStack)
	if err != nil {
		return nil, unsupported("walk of a user stack", taskRegsSince, "older kernels need the offset of task_struct.stack: "+noBTF)
	}
	w.TaskStackOffset = int(off)
	return w, nil
}

// returnProbes is where the kernel keeps the return addresses that uretprobes
// replaced; nil if the plan's types do not say.
func returnProbes(plan *probe.Plan) *bpfwalk.ReturnProbes {
	if plan.BTF == nil {
		return nil
	}
	at, err := kernel.MemberOffsets(plan.BTF, kernel.ReturnInstances...)
	if err != nil {
		return nil
	}
	return &bpfwalk.ReturnProbes{Task: int(at[0]), Instances: int(at[1]), Next: int(at[2]), Stack: int(at[3]), Addr: int(at[4])}
}

// walkedStack stores the program counters of a user stack. The walker's state is
// in scratch memory; its addresses say in their top bits how they were found,
// which is left out here.
func (g *gen) walkedStack(e *Expr, to loc) {
	if g.busy != 0 {
		g.fail("internal error: walk with live registers %b", g.busy)
	}
	m := g.mark()
	defer g.release(m)
	w, frames := g.c.walk, int(e.Int)+e.Skip
	state := loc{kind: inScratch, off: g.aux.used}
	g.aux.take((w.StateSize()+7)/8*8, 8)
	pcs := state.at(w.PCsOffset())
	g.zero(pcs, 8*frames)
	g.addr(asm.R1, state)
	g.emit(asm.Call.Label(bpfwalk.WalkFunc))
	// The walker may have taken back its last frame.
	full := g.label()
	g.emit(
		asm.JGE.Imm(asm.R0, int32(frames), full), asm.LSh.Imm(asm.R0, 3), asm.Add.Reg(asm.R0, g.base(inScratch)),
		storeImm(asm.R0, pcs.off, 0, asm.DWord),
	)
	g.place(full)
	g.countWalk(state)
	for i := range int(e.Int) {
		g.load(asm.R0, pcs.at(8*(e.Skip+i)), 8)
		g.emit(asm.LSh.Imm(asm.R0, 2), asm.RSh.Imm(asm.R0, 2))
		g.storeHalves(to.at(8*i), asm.R0)
	}
}

// storeHalves stores 8 bytes, in the widths that copyWidth allows.
func (g *gen) storeHalves(to loc, r asm.Register) {
	if copyWidth(to) == 8 {
		g.store(to, r, 8)
		return
	}
	g.store(to, r, 4)
	g.emit(asm.RSh.Imm(r, 32))
	g.store(to.at(4), r, 4)
}

// countWalk counts a stack that is not whole.
func (g *gen) countWalk(state loc) {
	w := g.c.walk
	unknown, broken, done := g.label(), g.label(), g.label()
	g.load(asm.R1, state.at(w.FlagsOffset()), 4)
	g.emit(asm.JSet.Imm(asm.R1, 1, unknown))
	g.load(asm.R1, state.at(w.EndOffset()), 4)
	for _, end := range []stack.End{stack.EndBottom, stack.EndLimit, stack.EndNone} {
		g.emit(asm.JEq.Imm(asm.R1, int32(end), done))
	}
	g.jump(broken)
	g.place(done)
	tally := func(l string, slot int) {
		g.later(l, func() {
			g.count(slot)
			g.jump(done)
		})
	}
	tally(unknown, cntUnwalked)
	tally(broken, cntBroken)
}

// walkFunctions are the walker, with the types that bpf_loop wants.
func (g *gen) walkFunctions() {
	for _, in := range g.c.walk.Instructions() {
		switch name := in.Symbol(); name {
		case bpfwalk.WalkFunc:
			g.note = "walk a user stack"
			in = funcMeta(in, name, 1, btf.StaticFunc)
		case bpfwalk.StepFunc:
			g.note = "go to the caller's frame"
			in = funcMeta(in, name, 2, btf.StaticFunc)
		}
		g.emit(in)
	}
}

// addWalkMaps adds the walker's maps to a collection.
func addWalkMaps(p *Program, spec *ebpf.CollectionSpec) error {
	for _, m := range bpfwalk.Maps(p.WalkLimits) {
		if spec.Maps[m.Name] != nil {
			return fmt.Errorf("map %s: the walker of user stacks has that name", m.Name)
		}
		spec.Maps[m.Name] = &ebpf.MapSpec{
			Name: m.Name, Type: ebpf.MapType(m.Type), KeySize: m.KeySize, ValueSize: m.ValueSize, MaxEntries: m.MaxEntries,
		}
	}
	return nil
}

// walkTables tell the walker about processes.
type walkTables struct {
	mu     sync.Mutex
	cfi    stack.CFICache  // guarded by mu
	tables *bpfwalk.Tables // guarded by mu
}

// newWalkTables makes the tables of a loaded program, nil if it walks nothing.
func newWalkTables(p *Program, loaded map[string]*ebpf.Map) (*walkTables, error) {
	if loaded[bpfwalk.MapProcesses] == nil || !walksStacks(p) {
		return nil, nil
	}
	maps := map[string]bpfwalk.Map{}
	for name, m := range loaded {
		maps[name] = m
	}
	tables, err := bpfwalk.NewTables(maps, p.WalkLimits)
	if err != nil {
		return nil, err
	}
	return &walkTables{tables: tables, cfi: stack.CFICache{MaxBytes: walkCache, Chosen: true}}, nil
}

// AddProcess has the stacks of Ctx.UstackWalk in a process walked by the call
// frame information of its files, which is compiled once for each file and
// shared. A process that maps other files later is added again; one that has
// ended is removed with RemoveProcess. In programs that walk nothing it does
// nothing. Whose the files are does not matter (stack.CFICache.Chosen).
//
// The error says what could not be read; the process's other files are walked by
// their rules all the same. It needs ptrace read permission.
func (l *Loaded) AddProcess(pid int) error {
	if l.walk == nil {
		return nil
	}
	l.walk.mu.Lock()
	defer l.walk.mu.Unlock()
	mods, err := l.walk.cfi.Modules(pid)
	if mods == nil {
		return fmt.Errorf("add process %d: %w", pid, err)
	}
	return errors.Join(err, l.walk.tables.SetProcess(pid, mods))
}

// RemoveProcess forgets a process that AddProcess was told of, and the rules that
// no other process uses.
func (l *Loaded) RemoveProcess(pid int) error {
	if l.walk == nil {
		return nil
	}
	l.walk.mu.Lock()
	defer l.walk.mu.Unlock()
	return l.walk.tables.RemoveProcess(pid)
}
