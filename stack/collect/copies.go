package collect

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// CopyOptions select what is copied. The zero value, and nil, copies 16 KiB of the stack of
// every process but this one.
type CopyOptions struct {
	// Options filter as they do for Attach. MaxStacks and Value have no meaning
	// here, and NoUser is an error.
	Options
	// Bytes is the size of the copied part of a user stack, rounded up to pages of 4,096; 0
	// means 16,384, the most is 65,536.
	Bytes int
	// KernelStacks copies the kernel's registers and stacks instead of the user's, for
	// events in kernel code, to be walked by its own tables (ReadORC). It needs amd64, and
	// targets that are perf events or kprobes.
	KernelStacks bool
	// RingBytes is the room for copies that were not read yet, in bytes: a power of two of
	// at least 4,096; 0 means 8 MiB.
	RingBytes int
}

// Copies is a stream of copied stacks: registers and raw stack memory, to be walked in Go.
// Like LoadWalker it gives whole stacks of programs without frame pointers, at other costs.
// Copying costs the event two to three microseconds at any depth of the stack, and the walk
// in Go follows every rule; LoadWalker's walker, in BPF, takes five to twenty and leaves
// out the few rules that need a DWARF expression. But each event is sent out, 5 to 17 kB of
// it, where LoadWalker counts in the kernel. Copies suits rare events and stacks that must
// be exact.
//
// One goroutine at a time may read; Close may be called by any.
type Copies struct {
	source mapx.Source
	rec    mapx.Record
	copier bpfwalk.Copier
	kernel *bpfwalk.KernelCopier // instead of copier

	closed atomic.Bool

	// Nil in a replay:
	plan *probe.Plan
	coll *ebpf.Collection
	link *probe.Link
	ring *mapx.Ring
}

// Copy is one event: the kernel's stack as addresses, and the user's as copied memory. The
// next read into the same Copy overwrites both.
type Copy struct {
	// PID is the process, TID the thread.
	PID, TID int
	// Comm is the thread's name.
	Comm string
	// Program is the index of the plan's program that took the sample.
	Program int
	// Time is the time of the event, in nanoseconds of CLOCK_MONOTONIC.
	Time uint64
	// Kernel is the kernel's stack.
	Kernel stack.Stack
	// User is the copied user stack; its Walk walks it.
	User bpfwalk.CopiedStack
	// Copied is the copied kernel stack with CopyOptions.KernelStacks, instead of User.
	Copied bpfwalk.CopiedKernel
}

// The layout of a record.
const (
	copyKey    = 0        // a taskKey without what tells lives apart
	copyCode   = keyStart // its Program and UserEnd
	copyTime   = copyCode + 8
	copyKernel = copyTime + 8   // int64: bytes of kernel addresses, or a negative errno
	copyPCs    = copyKernel + 8 // uint64[helperFrames]
	copyState  = copyPCs + 8*helperFrames
)

const (
	mapCopies = "copies"
	mapCopied = "copied"
	// mapKernel is mapCopied in recordings of CopyOptions.KernelStacks.
	mapKernel = "kernel_copied"
)

// AttachCopies resolves the targets and starts to copy. The caller must close the Copies.
// Its errors are those of Attach; in addition, it needs the kernel's BTF.
func AttachCopies(targets []probe.Target, o *CopyOptions) (*Copies, error) {
	if o == nil {
		o = new(CopyOptions)
	}
	f, err := o.filter()
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	env := o.Env
	if env == nil {
		env = probe.NewEnv(nil)
	}
	plan, err := probe.Resolve(env, targets, &probe.Options{Context: o.Context})
	if err != nil {
		return nil, err
	}
	f.perThread = true
	c := &Copies{plan: plan, copier: bpfwalk.Copier{Machine: machine, Bytes: o.Bytes}}
	if err := c.choose(o, membersOf(env)); err != nil {
		return nil, err
	}
	if err := c.load(o, f); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.ring, err = mapx.OpenRing(c.coll.Maps[mapCopied], &mapx.RingOptions{
		Lost: c.coll.Maps[mapCounters], LostSlot: counterRing,
	}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.source = c.ring
	to := &probe.AttachOptions{Context: o.Context}
	if c.link, err = plan.Attach(c.coll.Programs, to); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// choose decides what is copied, and finds the offsets in the kernel's types.
func (c *Copies) choose(o *CopyOptions, m members) (err error) {
	if !o.KernelStacks {
		if c.copier.TaskStackOffset, err = taskStack(m); err != nil {
			return err
		}
		c.copier.Returns = returnProbes(m)
		return nil
	}
	if machine != elf.EM_X86_64 {
		return fmt.Errorf("collect: copy the kernel's stacks: ORC is amd64's: %w", errors.ErrUnsupported)
	}
	for i := range c.plan.Programs {
		if p := c.plan.ProgramSpec(i); p.Type != ebpf.PerfEvent && p.Type != ebpf.Kprobe {
			return fmt.Errorf("collect: copy the kernel's stacks: a %v program has no registers: give perf events or kprobes", p.Type)
		}
	}
	c.kernel = new(bpfwalk.KernelCopier)
	c.kernel.TaskStackOffset, err = taskStackOffset(m)
	return err
}

// stateSize and instructions are those of what is copied.
func (c *Copies) stateSize() int {
	if c.kernel != nil {
		return c.kernel.StateSize()
	}
	return c.copier.StateSize()
}

func (c *Copies) instructions() (function string, insns asm.Instructions) {
	if c.kernel != nil {
		return bpfwalk.KernelCopyFunc, c.kernel.Instructions()
	}
	return bpfwalk.CopyFunc, c.copier.Instructions()
}

// stream is the name under which copies are recorded.
func (c *Copies) stream() string {
	if c.kernel != nil {
		return mapKernel
	}
	return mapCopied
}

func (o *CopyOptions) filter() (*filter, error) {
	f, err := o.Options.filter()
	switch {
	case err != nil:
		return nil, err
	case o.NoUser || o.MaxStacks != 0 || o.Value != "":
		return nil, errors.New(
			"NoUser, MaxStacks and Value are for Attach: copies are of user stacks, and not counted")
	case o.Bytes < 0 || o.Bytes > 64<<10:
		return nil, fmt.Errorf("cannot copy %d bytes of stack: the limit is 65,536",
			o.Bytes)
	case o.RingBytes < 0 || o.RingBytes&(o.RingBytes-1) != 0 || o.RingBytes > 1<<30:
		return nil, fmt.Errorf("a ring of %d bytes: want a power of two, up to 1 GiB",
			o.RingBytes)
	}
	return f, nil
}

// taskStack returns the way to the user's registers: 0 for a helper, else the offset of
// task_struct.stack.
func taskStack(m members) (int, error) {
	if feature.Test(feature.TaskPtRegs) == nil && feature.Test(feature.TaskBTF) == nil {
		return 0, nil
	}
	return taskStackOffset(m)
}

// taskStackOffset is the offset of task_struct.stack.
func taskStackOffset(m members) (int, error) {
	at, err := m.offsets(stackMember)
	if err != nil {
		return 0, fmt.Errorf("collect: find the task's stack: %w", err)
	}
	return int(at[0]), nil
}

// load creates the maps and loads a program for each of the plan's.
func (c *Copies) load(o *CopyOptions, f *filter) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	ring := o.RingBytes
	if ring == 0 {
		ring = 8 << 20
	}
	spec := &ebpf.CollectionSpec{Maps: f.mapSpecs(1), Programs: make(map[string]*ebpf.ProgramSpec)}
	for _, name := range []string{mapCounts, mapSegments, mapSeen, mapMode, mapFirst, mapEpochs} {
		delete(spec.Maps, name)
	}
	if f.pids {
		spec.Maps[mapPIDs] = pidsSpec(len(o.PIDs))
	}
	// An array by CPU and slot: a per-CPU array's values end at 32 KiB.
	spec.Maps[mapCopies] = &ebpf.MapSpec{
		Name: mapCopies, Type: ebpf.Array, KeySize: 4,
		ValueSize: uint32(copyState + c.stateSize()), MaxEntries: uint32(cpus * scratchSlots),
	}
	spec.Maps[mapCopied] = &ebpf.MapSpec{Name: mapCopied, Type: ebpf.RingBuf, MaxEntries: uint32(ring)}
	ns := kernel.OwnPIDNamespace()
	for i := range c.plan.Programs {
		p := c.plan.ProgramSpec(i)
		function, insns := c.instructions()
		p.Instructions = withFuncInfo(p.Name,
			append(f.copying(&c.plan.Programs[i], i, function, c.stateSize()), insns...))
		p.Instructions = ns.OwnIDs(p.Instructions, true)
		p.License = license
		spec.Programs[p.Name] = p
	}
	_ = kernel.RaiseMemlock() // as in Collector.load
	if c.coll, err = ebpf.NewCollectionWithOptions(spec,
		ebpf.CollectionOptions{Cache: c.plan.Cache}); err != nil {
		return refusal(err)
	}
	return fillPIDs(c.coll, o.PIDs)
}

// copying returns the instructions of p, program index of the plan: filter, claim a scratch
// slot, build the record in the slot's copy by the function given, send it.
func (f *filter) copying(p *probe.ProgramPlan, index int, function string,
	stateSize int,
) asm.Instructions {
	b := builder{key: scratchKey}
	b.begin(p)
	b.Add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(regID, asm.R0),
	)
	f.filterTask(&b)
	b.claimScratch()
	f.fillKey(&b, index)
	f.filterComm(&b)
	b.count(counterSamples)
	b.Add(
		asm.FnGetSmpProcessorId.Call(),
		asm.Mul.Imm(asm.R0, scratchSlots),
		asm.LoadMem(asm.R1, asm.RFP, slotClaim, asm.Word),
		asm.Add.Reg(asm.R0, asm.R1),
		asm.StoreMem(asm.RFP, slotIndex, asm.R0, asm.Word),
	)
	b.lookup(mapCopies, asm.RFP, slotIndex)
	b.Add(
		asm.JEq.Imm(asm.R0, 0, "release"),
		asm.Mov.Reg(regTmp, asm.R0),
	)
	b.move(regTmp, copyKey, regScratch, scratchKey, copyCode)
	b.move(regTmp, copyCode, regScratch, scratchKey+keyProgram, 8)
	b.Add(
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(regTmp, copyTime, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
	)
	if !f.noKernel {
		b.askHelper(regTmp, copyPCs, 0)
	}
	b.Add(
		asm.StoreMem(regTmp, copyKernel, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, regTmp),
		asm.Add.Imm(asm.R1, copyState),
		asm.Mov.Reg(asm.R2, regCtx), // for the kernel's
		asm.Call.Label(function),
		asm.JGT.Imm(asm.R0, int32(stateSize), "release"), // for the verifier
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, copyState),
	)
	b.loadMap(asm.R1, mapCopied)
	b.Add(
		asm.Mov.Reg(asm.R2, regTmp),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "release"),
	)
	b.count(counterRing)
	b.release()
	b.Label("exit")
	b.Add(asm.Mov.Imm(asm.R0, kernel.Idle(p.Type)), asm.Return())
	return b.Finish()
}

// ReadInto waits for the next copy and reads it. The errors are those of mapx.Source:
// ctx's, os.ErrClosed after Close, io.EOF at a recording's end.
func (c *Copies) ReadInto(ctx context.Context, dst *Copy) error {
	if err := c.source.ReadInto(ctx, &c.rec); err != nil {
		return err
	}
	return c.parse(dst)
}

// parse decodes the record that was read last.
func (c *Copies) parse(dst *Copy) error {
	b, o := c.rec.Data, binary.NativeEndian
	if len(b) < copyState {
		return fmt.Errorf("collect: copy of %d bytes, want %d or more", len(b), copyState)
	}
	dst.PID, dst.TID = int(o.Uint32(b[keyPID:])), int(o.Uint32(b[keyTID:]))
	dst.Program = int(o.Uint32(b[copyCode:]))
	// a new string only if it has to be
	if name := cut(b[keyComm:copyCode]); string(name) != dst.Comm {
		dst.Comm = string(name)
	}
	dst.Time = o.Uint64(b[copyTime:])
	frames, end := dst.Kernel.Frames[:0], stack.StopNone
	switch n := int64(o.Uint64(b[copyKernel:])); {
	case n < 0:
		end = stack.StopFault
	case n > 0:
		end = stack.StopBottom
		for i := range min(int(n/8), helperFrames) {
			frames = append(frames,
				stack.Frame{PC: o.Uint64(b[copyPCs+8*i:]), Return: i > 0, Source: stack.SourceKernel})
		}
		if len(frames) == helperFrames {
			end = stack.StopLimit
		}
	}
	dst.Kernel = stack.Stack{Frames: frames, Stopped: end}
	if c.kernel != nil {
		dst.Copied = c.kernel.Decode(b[copyState:])
	} else {
		dst.User = c.copier.Decode(b[copyState:])
	}
	return nil
}

// Stats returns the counts of copies so far: LostFull is the number of copies for which the
// ring had no room. After Close the error matches os.ErrClosed.
func (c *Copies) Stats() (Stats, error) {
	if c.coll == nil {
		return Stats{}, fmt.Errorf("collect: statistics of a recording of copies: %w",
			errors.ErrUnsupported)
	}
	if c.closed.Load() {
		return Stats{}, fmt.Errorf("collect: %w", os.ErrClosed)
	}
	counters, err := mapx.NewPerCPU[uint32, uint64](c.coll.Maps[mapCounters])
	if err != nil {
		return Stats{}, fmt.Errorf("collect: read counters: %w", err)
	}
	total, err := addUp(counters)
	if err != nil {
		return Stats{}, fmt.Errorf("collect: read counters: %w", err)
	}
	missed, err := c.link.Missed()
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return Stats{}, fmt.Errorf("collect: %w", err)
	}
	return Stats{
		Samples: total[counterSamples], LostFull: total[counterRing], LostNested: total[counterNested],
		Missed: missed,
	}, nil
}

// Detach stops copying. The copies made before can still be read.
func (c *Copies) Detach() error {
	if c == nil {
		return nil
	}
	return c.link.Close()
}

// Close stops copying and frees the maps. Readers get os.ErrClosed. Closing twice, or
// closing a nil Copies, does nothing.
func (c *Copies) Close() error {
	if c == nil {
		return nil
	}
	c.closed.Store(true)
	return errors.Join(c.Detach(), release(c.ring, c.coll))
}

// Record makes rec keep everything that is read from now on, for ReplayCopies. It must be
// called before the first read. The caller must close rec after the last one.
func (c *Copies) Record(rec *recording.Recorder) { c.source = rec.Stream(c.stream(), c.source) }

// ReplayCopies returns a Copies that reads from a recording what a live one read, on every
// system of the same byte order.
func ReplayCopies(rec *recording.Recording) (*Copies, error) {
	c := new(Copies)
	var err error
	if c.source, err = rec.Stream(mapCopied, nil); err != nil {
		c.kernel = new(bpfwalk.KernelCopier)
		var kerr error
		if c.source, kerr = rec.Stream(mapKernel, nil); kerr != nil {
			return nil, fmt.Errorf("collect: %w", err)
		}
	}
	c.copier.Machine = elf.EM_X86_64
	if rec.Meta().Arch == "arm64" {
		c.copier.Machine = elf.EM_AARCH64
	}
	return c, nil
}
