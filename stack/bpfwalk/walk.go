package bpfwalk

import (
	"debug/elf"
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// Walker generates the walker of user stacks that runs inside BPF programs. It walks by
// call frame information where the process was given to Tables, by frame pointers over JIT
// code and in unknown processes, and across signal handlers. It works in programs of any
// type, whether the event hit the process in its own code or in the kernel.
//
// It walks no 32-bit code: such a stack has its innermost frame, and ends with stack.StopCompat.
//
// The zero value generates for amd64 and Linux 5.17 or later. It is plain data.
type Walker struct {
	// Machine is elf.EM_X86_64 (the meaning of 0) or elf.EM_AARCH64.
	Machine elf.Machine
	// MaxFrames is the frame limit; 0 means stack.MaxFrames. With PlainLoop the verifier
	// accepts no more than about 127.
	MaxFrames int
	// PlainLoop avoids bpf_loop, which exists since Linux 5.17. The verifier then checks
	// every round, which takes it nearly a second.
	PlainLoop bool
	// TaskStackOffset is the offset of task_struct.stack, from BTF: the way to
	// the user's registers on kernels before 5.15, which lack bpf_task_pt_regs.
	// 0 uses the helper.
	TaskStackOffset int
	// Preset takes the registers that the caller has put at RegsOffset in the state instead
	// of looking for the user's own: the kernel's struct pt_regs, or on arm64 struct
	// user_pt_regs. All of them count as known.
	Preset bool
	// Entry is set if the registers are those at the first instruction of a function, as in the
	// program of a uprobe. Its caller is then known in an unknown process, too; it would be left out,
	// because the frame pointer is still the caller's.
	Entry bool
	// Returns describes where the kernel keeps the return addresses that uretprobes
	// replaced, so that the walk puts them back. Nil leaves them as they are, and the walk
	// ends there. (The kernel's own walker puts them back since Linux 6.12.)
	Returns *ReturnProbes
	// Task describes what else there is to know of a task. A process that was not given to
	// Tables and has executed nothing since another one started it is walked as that one;
	// those given must have their numbers of the initial pid namespace. A process that ends
	// has no user stack any more when its memory is gone, where the kernel has
	// bpf_task_pt_regs. Nil walks both by frame pointers.
	Task *TaskOffsets
	// Python also reads the interpreted frames of CPython 3.11 to 3.13, in the processes
	// given to Tables.SetPython, and puts them behind the native ones; python.Merge puts
	// them where they ran. It needs PythonMap and bpf_loop. It searches up to 256 threads
	// of a process.
	Python bool
}

// ReturnProbes are offsets in kernel types, from BTF. They lead to the list of a thread's
// return probes.
type ReturnProbes struct {
	Task      int // task_struct.utask
	Instances int // uprobe_task.return_instances
	Next      int // return_instance.next
	Stack     int // return_instance.stack
	Addr      int // return_instance.orig_ret_vaddr
}

// Names of the generated functions.
const (
	// WalkFunc is the function to call: R1 is the state, a pointer to
	// StateSize bytes of map value; R0 is the number of frames.
	//
	//	static long stack_walk(void *state)
	WalkFunc = "stack_walk"
	// StepFunc is the callback of bpf_loop.
	//
	//	static long stack_step(u64 index, void *context)
	StepFunc = "stack_step"
)

// StackNeed is the stack that the two functions take together, in bytes, of the 512 that a
// program has.
const StackNeed = 64

// The state, in a map value: the registers that a walk goes on with, and what
// it found.
const (
	stRegs   = 8                     // struct pt_regs, or user_pt_regs, behind word newSP
	stHave   = stRegs + arm64RegsLen // uint64: bit n is set where word n of the state is known
	stTag    = stHave + 8            // uint64: bpfExact or bpfByFP, of the frame to come
	stFirst  = stTag + 8             // uint32: the process's first mapping
	stCount  = stTag + 12            // uint32: their number; 0: not known
	stCached = stTag + 16            // uint32: the mapping that was used last
	stN      = stTag + 20            // uint32: frames so far
	stEnd    = stTag + 24            // uint32: End
	stFlags  = stTag + 28            // uint32: bpfUnknownProcess or bpfCompat
	stSlot   = stTag + 32            // uint64: the next return probe's stack pointer; all ones: none
	stAddr   = stTag + 40            // uint64: the address that it replaced
	stNext   = stTag + 48            // uint64: the kernel's address of the one after it
	stLow    = stTag + 56            // uint64: slots below this address are free again
	stBuf    = stTag + 64            // what was read last
	stVals   = stBuf + 8*maxBlock    // uint64 for each of a rule's registers
	stBufLen = 272
	stPCs    = stBuf + stBufLen
)

const (
	bpfUnknownProcess = 1
	bpfCompat         = 2

	// The top bits of a frame's address say how it was found: they are the same
	// in every user address.
	bpfExactBit = 63
	bpfByFP     = 1 << 62
	bpfExact    = 1 << bpfExactBit
	bpfTagBits  = 3 // with bpfEntry
)

// Stack is the stack that the program found, read from its state.
type Stack struct {
	stack.Stack
	// Unknown is set where the process was not given to Tables: the walk was
	// by frame pointers alone.
	Unknown bool
}

// StateSize returns the size of the state in bytes. The state may be at the beginning of a
// map value or at any multiple of 8 in it.
func (w *Walker) StateSize() int { return stPCs + 8*w.maxFrames() }

// RegsOffset returns the offset in the state of the registers to begin with, for Preset.
func (w *Walker) RegsOffset() int { return stRegs }

// PCsOffset returns the offset of the frames in the state: eight bytes each, innermost
// first; DecodeFrame reads them.
func (w *Walker) PCsOffset() int { return stPCs }

// EndOffset returns the offset of the stack.StopReason in the state, a uint32.
func (w *Walker) EndOffset() int { return stEnd }

// FlagsOffset returns the offset in the state of a uint32: 1 if the process is not known, 2 if the stack is
// of 32-bit code that a CFIWalker walks, which is i386's, and 0 else.
func (w *Walker) FlagsOffset() int { return stFlags }

func (w *Walker) maxFrames() int {
	if w.MaxFrames == 0 {
		return stack.MaxFrames
	}
	return w.MaxFrames
}

// Decode reads a state. It appends the frames to dst.
func (w *Walker) Decode(dst []stack.Frame, state []byte) Stack {
	if len(state) < stPCs {
		return Stack{Stack: stack.Stack{Frames: dst, Stopped: stack.StopTruncated}}
	}
	o := binary.NativeEndian
	n := min(int(o.Uint32(state[stN:])), w.maxFrames(), (len(state)-stPCs)/8)
	for i := range n {
		dst = append(dst, DecodeFrame(o.Uint64(state[stPCs+8*i:]), i == 0))
	}
	return Stack{
		Stack:   stack.Stack{Frames: dst, Stopped: stack.StopReason(o.Uint32(state[stEnd:]))},
		Unknown: o.Uint32(state[stFlags:])&bpfUnknownProcess != 0,
	}
}

// DecodeFrame decodes one frame of the program's. The top bits of the address encode the
// way in which it was found.
func DecodeFrame(v uint64, innermost bool) stack.Frame {
	pc := uint64(int64(v<<bpfTagBits) >> bpfTagBits) // [vsyscall] lies where the kernel does
	f := stack.Frame{PC: pc, Return: v&bpfExact == 0, Source: stack.SourceCFI}
	switch {
	case v&bpfInterpreted == bpfInterpreted:
		f = stack.Frame{PC: pc, Source: stack.SourceInterpreter, Entry: v&bpfEntry != 0}
	case innermost:
		f.Source = stack.SourceRegs
	case v&bpfByFP != 0:
		f.Source = stack.SourceFP
	}
	return f
}

// EncodeFrame is the inverse of DecodeFrame, for frames that were walked in Go.
func EncodeFrame(f *stack.Frame) uint64 {
	v := f.PC << bpfTagBits >> bpfTagBits
	if !f.Return {
		v |= bpfExact
	}
	switch {
	case f.Source == stack.SourceInterpreter:
		v |= bpfInterpreted
		if f.Entry {
			v |= bpfEntry
		}
	case f.Source == stack.SourceFP && f.Return: // both bits are an interpreted frame's
		v |= bpfByFP
	}
	return v
}

// Instructions returns the two functions. They refer to the maps by the names
// that Maps gives them. With bpf_loop the kernel wants BTF for all functions
// of the program: give them the prototypes that WalkFunc, StepFunc and
// PythonFunc state.
func (w *Walker) Instructions() asm.Instructions {
	g := &bpfGen{w: w, arm: w.Machine == elf.EM_AARCH64, regs: wordsOf(w.Machine)}
	g.walk()
	g.step()
	if w.Python {
		g.pythonStep()
	}
	return g.Finish()
}

// bpfGen writes the instructions. R6 is the state throughout.
type bpfGen struct {
	bpfasm.Assembler
	w    *Walker
	arm  bool
	regs *words
}

// lookup leaves in R0 a pointer to the element whose number is in reg, or goes
// to none. It changes R1 to R5.
func (g *bpfGen) lookup(m string, reg asm.Register, none string) {
	g.Add(
		asm.StoreMem(asm.RFP, slotKey, reg, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, slotKey),
		asm.LoadMapPtr(asm.R1, 0).WithReference(m),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
	)
}

// read copies size bytes of user memory at reg to the state's buffer, or goes to
// bad.
func (g *bpfGen) read(reg asm.Register, size int32, bad string) {
	g.readTo(stBuf, reg, size, bad)
}

// readTo is read to another place of the state.
func (g *bpfGen) readTo(off int32, reg asm.Register, size int32, bad string) {
	g.Add(
		asm.Mov.Reg(asm.R3, reg),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, off),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, bad),
	)
}

func (g *bpfGen) load(reg asm.Register, off int16) {
	g.Add(asm.LoadMem(reg, asm.R6, off, asm.DWord))
}

func (g *bpfGen) store(off int16, reg asm.Register) {
	g.Add(asm.StoreMem(asm.R6, off, reg, asm.DWord))
}

// signed loads an int32 of the rule in R7.
func (g *bpfGen) signed(reg asm.Register, off int16) {
	g.Add(asm.LoadMem(reg, asm.R7, off, asm.Word), asm.LSh.Imm(reg, 32), asm.ArSh.Imm(reg, 32))
}

// Stack slots.
const (
	slotKey   = -4
	slotHalf  = -16
	slotState = -8 // walk's only: the context of the callback
)

// walk is the function that callers call.
func (g *bpfGen) walk() {
	g.Label(WalkFunc)
	g.Add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R6, stFirst, asm.R1, asm.DWord),
		asm.StoreMem(asm.R6, stCached, asm.R1, asm.DWord), // and stN
		asm.StoreMem(asm.R6, stEnd, asm.R1, asm.DWord),    // and stFlags
		asm.LoadImm(asm.R1, int64(-1)<<63, asm.DWord),     // bpfExact
		asm.StoreMem(asm.R6, stTag, asm.R1, asm.DWord),
	)
	if !g.w.Preset {
		g.userRegs()
	}
	g.haveAll()
	if g.w.Returns != nil {
		g.walkReturns()
	}
	g.Add(
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
	)
	parent := "stack_walk_unknown"
	if g.w.Task != nil {
		parent = "stack_walk_parent"
	}
	g.lookup(MapProcesses, asm.R0, parent)
	g.Label("stack_walk_known")
	g.Add(
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.StoreMem(asm.R6, stFirst, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R0, 4, asm.Word),
		asm.StoreMem(asm.R6, stCount, asm.R1, asm.Word),
		asm.Ja.Label("stack_walk_go"),
	)
	if g.w.Task != nil {
		g.Label(parent)
		g.parent("stack_walk_unknown")
		g.Add(asm.Ja.Label("stack_walk_known"))
	}
	g.Label("stack_walk_unknown")
	g.Add(
		asm.Mov.Imm(asm.R1, bpfUnknownProcess),
		asm.StoreMem(asm.R6, stFlags, asm.R1, asm.Word),
	)
	g.Label("stack_walk_go")
	g.Add(asm.StoreMem(asm.RFP, slotState, asm.R6, asm.DWord))
	if g.w.PlainLoop {
		g.plainLoop()
	} else {
		g.Add(
			asm.Mov.Imm(asm.R1, int32(g.w.maxFrames()+1)),
			asm.Instruction{
				OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc,
				Constant: -1,
			}.WithReference(StepFunc),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, slotState),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnLoop.Call(),
		)
	}
	g.Label("stack_walk_done")
	if g.w.Python {
		g.python()
	}
	g.Add(asm.LoadMem(asm.R0, asm.R6, stN, asm.Word), asm.Return())
}

func (g *bpfGen) plainLoop() {
	g.Add(asm.Mov.Imm(asm.R7, 0))
	g.Label("stack_walk_round")
	g.Add(
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, slotState),
		asm.Call.Label(StepFunc),
		asm.JNE.Imm(asm.R0, 0, "stack_walk_done"),
		asm.Add.Imm(asm.R7, 1),
		asm.JLE.Imm(asm.R7, int32(g.w.maxFrames()), "stack_walk_round"),
	)
}

// Sizes and offsets of struct pt_regs: arch/x86/include/asm/ptrace.h,
// arch/arm64/include/asm/ptrace.h. The kernel keeps the user's at the top of a
// task's stack, whatever it does in between.
const (
	amd64RegsCall = 120 // orig_ax
	amd64RegsIP   = 128
	amd64RegsSP   = 152
	arm64Regs     = 336 // with what follows struct user_pt_regs
	arm64RegsLen  = 272 // struct user_pt_regs
)

// userRegs finds the registers that the task entered the kernel with; tasks
// that have none (kernel threads) end the walk with StopNone.
func (g *bpfGen) userRegs() {
	g.readUserRegs(stRegs, g.w.TaskStackOffset, "stack_walk_none", "stack_walk_other")
	g.Add(asm.Ja.Label("stack_walk_regs"))
	g.Label("stack_walk_none")
	g.Add(
		asm.Mov.Imm(asm.R1, int32(stack.StopNone)),
		asm.StoreMem(asm.R6, stEnd, asm.R1, asm.Word),
		asm.Ja.Label("stack_walk_done"),
	)
	g.Label("stack_walk_other")
	g.compat("stack_walk_none")
	g.Label("stack_walk_regs")
}

// compat ends the walk of 32-bit code, whose kind is in R1, with its innermost frame, and goes to none for
// other code. Its words have four bytes: to tell would cost each step of a walk.
func (g *bpfGen) compat(none string) {
	g.Add(asm.JNE.Imm(asm.R1, g.compatCode(), none))
	flags, ip := int32(bpfCompat), int16(stRegs+amd64RegsIP)
	if g.arm {
		flags, ip = 0, stRegs+8*stack.ARM64PC
	}
	g.load(asm.R1, ip)
	g.load(asm.R2, stTag) // bpfExact
	g.Add(asm.Or.Reg(asm.R1, asm.R2))
	g.store(stPCs, asm.R1)
	g.Add(
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.R6, stN, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, int32(stack.StopCompat)),
		asm.StoreMem(asm.R6, stEnd, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, flags),
		asm.StoreMem(asm.R6, stFlags, asm.R1, asm.Word),
		asm.Ja.Label("stack_walk_done"),
	)
}

// readUserRegs copies the user's struct pt_regs to an offset of the state, or
// goes to none if the task has none, and to other if they are not of 64-bit code: R1 is compatCode then, if
// they are of 32-bit code.
func (g *bpfGen) readUserRegs(off int16, taskStack int, none, other string) {
	size, total := g.userRegsLen(), int32(rules.AMD64Regs)
	if g.arm {
		total = arm64Regs
	}
	if taskStack == 0 {
		g.Add(
			asm.FnGetCurrentTaskBtf.Call(),
			asm.Mov.Reg(asm.R1, asm.R0),
		)
		if g.w.Task != nil {
			g.Add(
				asm.LoadMem(asm.R2, asm.R1, int16(g.w.Task.MM), asm.DWord),
				asm.JEq.Imm(asm.R2, 0, none), // as perf_callchain has it
			)
		}
		g.Add(
			asm.FnTaskPtRegs.Call(),
			asm.Mov.Reg(asm.R3, asm.R0),
		)
	} else {
		g.Add(
			asm.FnGetCurrentTask.Call(),
			asm.Mov.Reg(asm.R3, asm.R0),
			asm.Add.Imm(asm.R3, int32(taskStack)),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Add.Imm(asm.R1, int32(off)),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, none),
		)
		g.load(asm.R3, off)
		g.Add(asm.Add.Imm(asm.R3, rules.ThreadSize-total))
	}
	g.Add(
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, int32(off)),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, none),
	)
	if g.arm {
		g.load(asm.R1, off+33*8) // pstate: the exception level, and the bit of 32-bit code
		g.Add(asm.And.Imm(asm.R1, 0x1f), asm.JNE.Imm(asm.R1, 0, other))
	} else {
		g.load(asm.R1, off+rules.AMD64RegsCS)
		g.Add(asm.And.Imm(asm.R1, 0xffff), asm.JNE.Imm(asm.R1, userCS, other))
	}
}

// The code segments of 64-bit and of 32-bit programs (arch/x86/include/asm/segment.h), and pstate of arm's
// 32-bit programs, but for flags (PSR_MODE32_BIT).
const (
	userCS   = 0x33 // __USER_CS
	user32CS = 0x23 // __USER32_CS
	armMode  = 0x10
)

func (g *bpfGen) compatCode() int32 {
	if g.arm {
		return armMode
	}
	return user32CS
}

func (g *bpfGen) userRegsLen() int32 {
	if g.arm {
		return arm64RegsLen
	}
	return rules.AMD64Regs
}
