package bpfwalk

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/python"
)

// namePython is the map that tells the walker inside BPF which processes run
// CPython, and where its structures lie. See Walker.Python.
const namePython = "stack_python"

// PythonFunc is the callback of bpf_loop that reads interpreted frames.
//
//	static long stack_python_step(u64 index, void *context)
const PythonFunc = "stack_python_step"

// A process in namePython: numbers of 64 bits in the kernel's order.
const (
	pyHead        = 8 * iota // address of the list of interpreters
	pyDev                    // the process's pid namespace
	pyInode                  //
	pyInterpNext             // offsets from here on
	pyThreads                //
	pyThreadNext             //
	pyThreadID               //
	pyThreadFrame            //
	pyCFrame                 // 1: a _PyCFrame is between thread and frame
	pyCFrameFrame            //
	pyCode                   //
	pyPrevious               //
	pyMark                   // the byte of a frame that says where native code entered
	pyMarkIs                 // 0: where the byte is not 0; else frames with this byte mark it
	pyConfigSize
)

// The walker's state while it reads interpreted frames: the native walk no longer
// needs its registers, nor the second half of its buffer.
const (
	pyInterp = stRegs      // uint64: the next interpreter
	pyThread = stRegs + 8  // uint64: the next thread of this one
	pyFrame  = stRegs + 16 // uint64: the next frame; not 0: the thread was found
	pyTID    = stRegs + 24 // uint32: the thread as its process numbers it, then the process
	pyConfig = stBuf + 96
)

// bpfInterpreted marks an interpreted frame, as no native one is; bpfEntry its
// Frame.Entry.
const (
	bpfInterpreted = bpfExact | bpfByFP
	bpfEntry       = 1 << 61
)

// pythonRounds bounds the search for a thread, in threads and interpreters.
const pythonRounds = 256

// PythonMap returns the map of the processes that run CPython. Maps leaves it out: only
// programs with Walker.Python need it.
func PythonMap(limits *Limits) MapSpec {
	l := limits.withDefaults()
	return MapSpec{namePython, bpfMapHash, 4, pyConfigSize, uint32(min(l.Processes, 1<<10))}
}

// SetPython sets the interpreter that a process runs; nil means none (any more). The maps
// must include PythonMap's.
func (t *Tables) SetPython(pid int, p *python.Interpreter) error {
	m := t.maps[namePython]
	if m == nil {
		return fmt.Errorf("BPF stack walker: no map %s", namePython)
	}
	if p == nil {
		if t.python[pid] {
			delete(t.python, pid)
			return m.Delete(uint32(pid))
		}
		return nil
	}
	if err := m.Put(uint32(pid), pythonConfig(p.Rules())); err != nil {
		return fmt.Errorf("process %d: CPython: %w", pid, err)
	}
	t.python[pid] = true
	return nil
}

// pythonConfig is the process's value in namePython.
func pythonConfig(r rules.Python) []byte {
	b := make([]byte, pyConfigSize)
	set := func(off int, v uint64) { binary.NativeEndian.PutUint64(b[off:], v) }
	set(pyHead, r.Interpreters)
	set(pyDev, kernelDev(r.Dev))
	set(pyInode, r.Inode)
	set(pyInterpNext, r.InterpNext)
	set(pyThreads, r.Threads)
	set(pyThreadNext, r.ThreadNext)
	set(pyThreadID, r.ThreadID)
	set(pyThreadFrame, r.ThreadFrame)
	if r.ViaCFrame {
		set(pyCFrame, 1)
	}
	set(pyCFrameFrame, r.CFrameFrame)
	set(pyCode, r.FrameCode)
	set(pyPrevious, r.FramePrevious)
	set(pyMark, r.Mark)
	set(pyMarkIs, r.MarkIs)
	return b
}

// kernelDev is a device's number as the kernel has it inside: stat(2) gives another
// (new_encode_dev, include/linux/kdev_t.h).
func kernelDev(dev uint64) uint64 {
	const minorBits = 20
	major := dev >> 8 & 0xfff
	minor := dev&0xff | dev>>12&0xfff00
	return major<<minorBits | minor
}

// python adds the interpreted frames of the thread behind the native ones.
func (g *bpfGen) python() {
	const done = "stack_python_done"
	g.Add(asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32))
	g.lookup(namePython, asm.R0, done)
	g.Add(asm.Mov.Reg(asm.R7, asm.R0))
	for off := int16(0); off < pyConfigSize; off += 8 {
		g.Add(asm.LoadMem(asm.R1, asm.R7, off, asm.DWord))
		g.store(pyConfig+off, asm.R1)
	}
	g.Add(asm.Mov.Imm(asm.R1, 0))
	g.store(pyThread, asm.R1)
	g.store(pyFrame, asm.R1)
	g.load(asm.R3, pyConfig+pyHead)
	g.read(asm.R3, 8, done)
	g.load(asm.R1, stBuf)
	g.store(pyInterp, asm.R1)
	g.load(asm.R1, pyConfig+pyDev)
	g.load(asm.R2, pyConfig+pyInode)
	g.Add(
		asm.Mov.Reg(asm.R3, asm.R6),
		asm.Add.Imm(asm.R3, pyTID),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnGetNsCurrentPidTgid.Call(),
		asm.JNE.Imm(asm.R0, 0, done),
		asm.StoreMem(asm.RFP, slotState, asm.R6, asm.DWord), // the lookup's key was there
		asm.Mov.Imm(asm.R1, int32(pythonRounds+g.w.maxFrames())),
		asm.Instruction{
			OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc,
			Constant: -1,
		}.WithReference(PythonFunc),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, slotState),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
	)
	g.Label(done)
}

// word reads a word of user memory at base plus an offset of the configuration
// into reg, or goes to bad.
func (g *bpfGen) word(reg, base asm.Register, off int16, bad string) {
	g.load(asm.R3, pyConfig+off)
	g.Add(asm.Add.Reg(asm.R3, base))
	g.read(asm.R3, 8, bad)
	g.load(reg, stBuf)
}

// pythonStep is one round: an interpreter, a thread or a frame. It returns 1 at
// the end.
func (g *bpfGen) pythonStep() {
	const end, next = "sp_end", "sp_next"
	g.Label(PythonFunc)
	g.Add(asm.LoadMem(asm.R6, asm.R2, 0, asm.DWord))
	g.load(asm.R7, pyFrame)
	g.Add(asm.JNE.Imm(asm.R7, 0, "sp_frame"))
	g.load(asm.R7, pyThread)
	g.Add(asm.JNE.Imm(asm.R7, 0, "sp_thread"))

	g.load(asm.R7, pyInterp)
	g.Add(asm.JEq.Imm(asm.R7, 0, end))
	g.word(asm.R8, asm.R7, pyThreads, end)
	g.store(pyThread, asm.R8)
	g.word(asm.R8, asm.R7, pyInterpNext, end)
	g.store(pyInterp, asm.R8)
	g.Add(asm.Ja.Label(next))

	g.Label("sp_thread")
	g.word(asm.R8, asm.R7, pyThreadID, end)
	g.Add(
		asm.LoadMem(asm.R1, asm.R6, pyTID, asm.Word),
		asm.JEq.Reg(asm.R8, asm.R1, "sp_found"),
	)
	g.word(asm.R8, asm.R7, pyThreadNext, end)
	g.store(pyThread, asm.R8)
	g.Add(asm.Ja.Label(next))

	g.Label("sp_found")
	g.word(asm.R8, asm.R7, pyThreadFrame, end)
	g.load(asm.R1, pyConfig+pyCFrame)
	g.Add(asm.JEq.Imm(asm.R1, 0, "sp_direct"), asm.JEq.Imm(asm.R8, 0, end))
	g.word(asm.R8, asm.R8, pyCFrameFrame, end)
	g.Label("sp_direct")
	g.store(pyFrame, asm.R8)
	g.Add(asm.JEq.Imm(asm.R8, 0, end), asm.Ja.Label(next))

	g.pythonFrame(end, next)
	g.Label(next)
	g.Add(asm.Mov.Imm(asm.R0, 0), asm.Return())
	g.Label(end)
	g.Add(asm.Mov.Imm(asm.R0, 1), asm.Return())
}

// pythonFrame notes the frame at R7.
func (g *bpfGen) pythonFrame(end, next string) {
	// field leaves in R1 the place in the buffer of a field; the mask is for the
	// verifier.
	field := func(off int16) {
		g.load(asm.R1, pyConfig+off)
		g.Add(asm.And.Imm(asm.R1, 127), asm.JGT.Imm(asm.R1, rules.PythonFrameSize-1, end),
			asm.Add.Reg(asm.R1, asm.R6))
	}
	g.Label("sp_frame")
	g.read(asm.R7, rules.PythonFrameSize, end)
	field(pyPrevious)
	g.Add(asm.LoadMem(asm.R9, asm.R1, stBuf, asm.DWord)) // for the end of this round
	g.store(pyFrame, asm.R9)
	field(pyMark)
	g.Add(
		asm.LoadMem(asm.R2, asm.R1, stBuf, asm.Byte),
		asm.LoadMem(asm.R8, asm.R6, stN, asm.Word),
	)
	g.load(asm.R3, pyConfig+pyMarkIs)
	g.Add(asm.JEq.Imm(asm.R3, 0, "sp_push"), asm.JNE.Reg(asm.R2, asm.R3, "sp_unmarked"))

	// A frame that only marks the entry: the one inside it is the first.
	g.Add(
		asm.JEq.Imm(asm.R8, 0, "sp_noted"),
		asm.Add.Imm(asm.R8, -1),
		asm.JGE.Imm(asm.R8, int32(g.w.maxFrames()), end),
		asm.LSh.Imm(asm.R8, 3),
		asm.Add.Reg(asm.R8, asm.R6),
		asm.LoadMem(asm.R1, asm.R8, stPCs, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.RSh.Imm(asm.R2, 62),
		asm.JNE.Imm(asm.R2, bpfInterpreted>>62, "sp_noted"),
		asm.LoadImm(asm.R2, bpfEntry, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.R8, stPCs, asm.R1, asm.DWord),
		asm.Ja.Label("sp_noted"),
	)
	g.Label("sp_unmarked")
	g.Add(asm.Mov.Imm(asm.R2, 0))
	g.Label("sp_push")
	g.Add(
		asm.JGE.Imm(asm.R8, int32(g.w.maxFrames()), "sp_limit"),
		asm.JEq.Imm(asm.R2, 0, "sp_code"),
		asm.LoadImm(asm.R2, bpfEntry, asm.DWord),
	)
	g.Label("sp_code")
	g.Add(asm.LoadImm(asm.R3, int64(-1)<<62, asm.DWord), asm.Or.Reg(asm.R2, asm.R3)) // bpfInterpreted
	field(pyCode)
	g.Add(
		asm.LoadMem(asm.R1, asm.R1, stBuf, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.LSh.Imm(asm.R3, 3),
		asm.Add.Reg(asm.R3, asm.R6),
		asm.StoreMem(asm.R3, stPCs, asm.R1, asm.DWord),
		asm.Add.Imm(asm.R8, 1),
		asm.StoreMem(asm.R6, stN, asm.R8, asm.Word),
	)
	g.Label("sp_noted")
	g.Add(asm.JEq.Imm(asm.R9, 0, end), asm.Ja.Label(next))
	g.Label("sp_limit")
	g.Add(
		asm.Mov.Imm(asm.R1, int32(stack.StopLimit)),
		asm.StoreMem(asm.R6, stEnd, asm.R1, asm.Word),
		asm.Ja.Label(end),
	)
}
