package collect

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/stack/bpfwalk"
	"github.com/borescope/borescope/stack/python"
)

// cfiBytes bounds the compiled rules that are kept in this process, besides
// those that the kernel has, so that a file is compiled once.
const cfiBytes = 16 << 20

// LoadWalker loads the walker by call frame information, which from now on walks user
// stacks inside BPF. Stacks are then whole in programs that were built without frame
// pointers, as most were. It applies to the processes given to AddProcess; others are
// walked by frame pointers, as before. Return addresses that uretprobes replaced are put
// back if the kernel's BTF describes them.
//
// Collecting goes on meanwhile: loading takes some ten milliseconds. It needs Linux 5.17
// and the kernel's BTF. Without them it returns an *UnsupportedError and changes nothing;
// where control groups leave no memory for it, that error wraps syscall.ENOMEM. The tables
// take 14 MiB of kernel memory, and six bytes of this process's for each row of the files'
// rules.
func (c *Collector) LoadWalker() error {
	if c.link == nil || c.filter.noUser || c.tables != nil {
		return nil
	}
	err := walkerMemory(kernel.MemoryLeft(os.DirFS("/")))
	if err == nil {
		err = noMemory(c.loadWalker())
	}
	if err == nil { // types, for which nothing more is loaded
		c.members, c.plan.Cache = members{}, nil
	}
	if err != nil && c.form == formNone {
		err = errors.Join(err, c.give(formHelper))
	}
	return err
}

// The memory that the walker's tables take, and that must be left for this process: with
// less, it would be killed and not get an error.
const (
	walkerBytes = 14 << 20
	spareBytes  = 32 << 20
)

// walkerMemory says that there is no room for the walker, by what is left.
func walkerMemory(left uint64) error {
	if left >= walkerBytes+spareBytes {
		return nil
	}
	return noMemory(fmt.Errorf("%d MiB are left: %w", left>>20, syscall.ENOMEM))
}

// noMemory turns a lack of memory into an error that callers can continue after.
func noMemory(err error) error {
	if !errors.Is(err, syscall.ENOMEM) {
		return err
	}
	return &feature.UnsupportedError{
		Feature: "the stack walker",
		Hint:    fmt.Sprintf("its tables take %d MiB of kernel memory, more than this control group has to spare; stacks are walked by frame pointers", walkerBytes>>20),
		Err:     err,
	}
}

func (c *Collector) loadWalker() error {
	for _, f := range []feature.Feature{feature.BPFLoop, feature.TaskBTF, feature.TaskPtRegs} {
		if err := feature.Test(f); err != nil {
			return err
		}
	}
	spec := &ebpf.CollectionSpec{
		Maps:     make(map[string]*ebpf.MapSpec),
		Programs: make(map[string]*ebpf.ProgramSpec),
	}
	for _, m := range append(bpfwalk.Maps(nil), bpfwalk.PythonMap(nil)) {
		spec.Maps[m.Name] = &ebpf.MapSpec{
			Name: m.Name, Type: ebpf.MapType(m.Type),
			KeySize: m.KeySize, ValueSize: m.ValueSize, MaxEntries: m.MaxEntries,
		}
	}
	shared := make(map[string]*ebpf.Map)
	for name, m := range c.coll.Maps {
		shared[name] = m
		spec.Maps[name] = c.spec.Maps[name]
	}
	w := walker
	w.Returns = returnProbes(c.members)
	w.Task = c.taskOffsets()
	w.Python = true
	for i := range c.plan.Programs {
		p := c.plan.ProgramSpec(i)
		insns, err := c.filter.program(&c.plan.Programs[i], i, true)
		if err != nil {
			return err
		}
		insns = append(insns, w.Instructions()...)
		if c.filter.copies(&c.plan.Programs[i]) {
			insns = append(insns, c.filter.copier.Instructions()...)
		}
		p.Instructions = c.ns.OwnIDs(withFuncInfo(p.Name, insns), true)
		p.License = license
		if err := c.guard(p, formWalker); err != nil {
			return err
		}
		spec.Programs[p.Name] = p
	}
	coll, err := ebpf.NewCollectionWithOptions(spec,
		ebpf.CollectionOptions{MapReplacements: shared, Cache: c.plan.Cache})
	if err != nil {
		return fmt.Errorf("collect: load the stack walker: %w", err)
	}
	c.walker = coll
	maps := make(map[string]bpfwalk.Map)
	for name, m := range coll.Maps {
		maps[name] = m
	}
	if c.tables, err = bpfwalk.NewTables(maps, nil); err != nil {
		return err
	}
	for _, pid := range c.pids {
		_ = c.AddProcess(pid) // what can't be read is walked by frame pointers
	}
	return c.takeOver(coll)
}

// returnProbes finds where the kernel keeps the return addresses that uretprobes replaced;
// nil if its types do not describe that.
func returnProbes(m members) *bpfwalk.ReturnProbes {
	at, err := m.offsets(kernel.ReturnInstances...)
	if err != nil {
		return nil
	}
	return &bpfwalk.ReturnProbes{
		Task: int(at[0]), Instances: int(at[1]), Next: int(at[2]),
		Stack: int(at[3]), Addr: int(at[4]),
	}
}

// taskOffsets finds where the kernel keeps what the walker asks of a task; nil if its types do
// not describe that, or processes have other numbers here than the kernel's own.
func (c *Collector) taskOffsets() *bpfwalk.TaskOffsets {
	at, err := c.members.offsets(taskMembers...)
	if err != nil || c.ns != nil {
		return nil
	}
	return &bpfwalk.TaskOffsets{
		Parent: int(at[0]), TGID: int(at[1]), MM: int(at[2]), Executable: int(at[3]),
	}
}

// takeOver attaches the programs that walk beside those that ask the helper, gives them the
// turn, so that no event is counted twice or not at all (kernel.Turns), and detaches the
// others. (A program array to jump through would need no second link, but while it is torn
// down a map listing of another process can make the kernel leak it: prog_array_map_clear,
// kernel/bpf/arraymap.c, takes a reference for work that is queued already.)
func (c *Collector) takeOver(coll *ebpf.Collection) error {
	link, err := c.plan.Attach(coll.Programs, nil)
	if err != nil {
		return err
	}
	if c.form == formNone && c.copied != nil { // from the first event on, for whoever watches later
		if err := c.setCopying(1); err != nil {
			return errors.Join(err, link.Close())
		}
	}
	if err := c.give(formWalker); err != nil {
		return errors.Join(err, link.Close())
	}
	return c.replaceLink(link)
}

// AddProcess gives the walker the rules for a process's files, which are compiled once for
// each file and shared. A process that maps other files later must be added again. Without
// LoadWalker it does nothing.
//
// If the process runs CPython 3.11 to 3.13, its interpreted frames are from then on read
// with every sample, in the kernel, while the thread stands still. They are behind the
// native frames in Sample.User (stack.SourceInterpreter): python.Merge puts them where they
// ran, and the interpreter that Python returns names them.
//
// The error joins the files that could not be read; the process's other files are walked by
// their rules all the same.
func (c *Collector) AddProcess(pid int) error {
	if c.tables == nil {
		return nil
	}
	mods, err := c.cfi.Modules(pid)
	if mods == nil {
		return err
	}
	err = errors.Join(err, c.tables.SetProcess(pid, mods))
	p, pyErr := python.Open(pid)
	switch {
	case pyErr == nil:
		c.pythons.Store(pid, p.Within(&c.memory))
	case errors.Is(pyErr, python.ErrNotFound):
		c.pythons.Delete(pid) // another program was executed
	default:
		if errors.Is(pyErr, errors.ErrUnsupported) {
			c.pythons.Delete(pid) // another interpreter
		}
		err = errors.Join(err, pyErr)
	}
	return errors.Join(err, c.tables.SetPython(pid, c.Python(pid)))
}

// removeProcess takes back what AddProcess gave.
func (c *Collector) removeProcess(pid int) error {
	c.pythons.Delete(pid)
	return c.tables.RemoveProcess(pid)
}

// Python returns the interpreter that AddProcess found in a process, nil if there is none.
// It names interpreted frames while the process lives, within the budget that Resolver
// describes.
func (c *Collector) Python(pid int) *python.Interpreter {
	p, _ := c.pythons.Load(pid)
	known, _ := p.(*python.Interpreter)
	return known
}

// withFuncInfo names the functions of a program by BTF, which bpf_loop's
// callbacks need.
func withFuncInfo(name string, insns asm.Instructions) asm.Instructions {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	u64 := &btf.Int{Name: "unsigned long", Size: 8}
	ptr := &btf.Pointer{Target: &btf.Void{}}
	funcs := map[string][]btf.FuncParam{
		name:                   {{Name: "ctx", Type: ptr}},
		bpfwalk.WalkFunc:       {{Name: "state", Type: ptr}},
		bpfwalk.CopyFunc:       {{Name: "state", Type: ptr}},
		bpfwalk.KernelCopyFunc: {{Name: "state", Type: ptr}, {Name: "ctx", Type: ptr}},
		bpfwalk.StepFunc:       {{Name: "index", Type: u64}, {Name: "context", Type: ptr}},
		bpfwalk.PythonFunc:     {{Name: "index", Type: u64}, {Name: "context", Type: ptr}},
	}
	insns[0] = insns[0].WithSymbol(name)
	for i, ins := range insns {
		if params, ok := funcs[ins.Symbol()]; ok {
			insns[i] = btf.WithFuncMetadata(ins, &btf.Func{
				Name: ins.Symbol(), Linkage: btf.StaticFunc,
				Type: &btf.FuncProto{Return: long, Params: params},
			})
		}
	}
	return insns
}
