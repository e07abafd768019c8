package kernel

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// ChainSlots is the number of programs in a chain. The kernel executes at most 33 tail calls
// (MAX_TAIL_CALL_CNT, 32 before 5.16), and counts those to empty slots.
const ChainSlots = 16

// ChainState is the state of a program in a chain, the only value of its array.
type ChainState struct {
	// Runs counts the events that the program handled, Dropped those over its budget.
	Runs, Dropped uint64
	// Window is the second in which Used counts.
	Window, Used uint64
}

const (
	chainEnd  = "chain.end"
	chainSame = "chain.same"
	chainPass = "chain.pass"
)

// Dispatcher returns the program that is attached. It tail-calls the first program of the
// chain in a prog array with n slots.
func Dispatcher(slots, n int, idle int32) asm.Instructions {
	return append(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, tailCalls(slots, 0, n, idle)...)
}

// tailCalls tries the slots from first to last-1, and then returns idle. A tail call to an
// empty slot falls through.
func tailCalls(slots, first, last int, idle int32) asm.Instructions {
	var out asm.Instructions
	for i := first; i < last; i++ {
		out = append(out,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, slots),
			asm.Mov.Imm(asm.R3, int32(i)),
			asm.FnTailCall.Call())
	}
	return append(out, asm.Mov.Imm(asm.R0, idle), asm.Return())
}

// Chain makes a program part of a chain. The program counts its runs, observes a budget of
// events per second (0 is none), and instead of exiting it tail-calls the slots behind its
// own. state is the descriptor of an array with one ChainState.
//
// The program's own return value is lost, so Chain is for types of programs that return
// nothing.
func Chain(ins asm.Instructions, slots, slot, state int, perSecond uint64,
	idle int32,
) (asm.Instructions, error) {
	if len(ins) == 0 {
		return nil, fmt.Errorf("no instructions")
	}
	end := mainEnd(ins)
	save := stackBottom(ins[:end]) - 8 // the slot for the context
	if save < -512 {
		return nil, fmt.Errorf("the program uses all of its 512 bytes of stack; sharing takes 8")
	}
	out := asm.Instructions{asm.StoreMem(asm.RFP, save, asm.R1, asm.DWord)}
	out[0].Metadata = ins[0].Metadata // it is now the function's first instruction
	out = append(out, chainBudget(state, perSecond)...)
	out = append(out, asm.LoadMem(asm.R1, asm.RFP, save, asm.DWord))
	for i := range ins[:end] {
		n := ins[i]
		switch {
		case n.OpCode.JumpOp() == asm.Exit:
			n = asm.Ja.Label(chainEnd)
			if s := ins[i].Symbol(); s != "" && i > 0 {
				n = n.WithSymbol(s)
			}
			n = withSource(n, ins[i])
		case i == 0:
			var err error
			if n, err = bare(n); err != nil {
				return nil, err
			}
		}
		out = append(out, n)
	}
	out = append(out, asm.LoadMem(asm.R6, asm.RFP, save, asm.DWord).WithSymbol(chainEnd))
	out = append(out, tailCalls(slots, slot+1, ChainSlots, idle)...)
	return append(out, ins[end:]...), nil
}

func withSource(n, from asm.Instruction) asm.Instruction {
	if s := from.Source(); s != nil {
		return n.WithSource(s)
	}
	return n
}

// chainBudget counts an event, and jumps to chainEnd if the second's budget is used up. Two
// CPUs may both begin a second, so that a few more events pass.
func chainBudget(state int, perSecond uint64) asm.Instructions {
	const runs, dropped, window, used = 0, 8, 16, 24
	ins := asm.Instructions{asm.LoadMapValue(asm.R2, state, 0), asm.Mov.Imm(asm.R3, 1)}
	if perSecond == 0 {
		return append(ins, asm.AddAtomic.Mem(asm.R2, asm.R3, asm.DWord, runs))
	}
	return asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.Div.Imm(asm.R0, 1e9),
		ins[0],
		asm.LoadMem(asm.R3, asm.R2, window, asm.DWord),
		asm.JEq.Reg(asm.R3, asm.R0, chainSame),
		asm.StoreMem(asm.R2, window, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R3, 0),
		asm.StoreMem(asm.R2, used, asm.R3, asm.DWord),
		ins[1].WithSymbol(chainSame),
		asm.AddAtomic.Mem(asm.R2, asm.R3, asm.DWord, used),
		asm.LoadMem(asm.R4, asm.R2, used, asm.DWord),
		asm.LoadImm(asm.R5, int64(min(perSecond, 1<<62)), asm.DWord),
		asm.JLE.Reg(asm.R4, asm.R5, chainPass),
		asm.AddAtomic.Mem(asm.R2, asm.R3, asm.DWord, dropped),
		asm.Ja.Label(chainEnd),
		asm.AddAtomic.Mem(asm.R2, asm.R3, asm.DWord, runs).WithSymbol(chainPass),
	}
}

// mainEnd returns the index behind a program's first function.
func mainEnd(ins asm.Instructions) int {
	called := map[string]bool{}
	for i := range ins {
		if ins[i].IsFunctionReference() {
			called[ins[i].Reference()] = true
		}
	}
	for i := 1; i < len(ins); i++ {
		if s := ins[i].Symbol(); s != "" && called[s] {
			return i
		}
	}
	return len(ins)
}

// stackBottom returns the lowest offset from the frame pointer that instructions may use. It
// assumes that any constant added to a register is such an offset.
func stackBottom(ins asm.Instructions) int16 {
	low := int64(0)
	for i := range ins {
		n := &ins[i]
		class := n.OpCode.Class()
		at := int64(0)
		switch {
		case class.IsALU() && n.OpCode.ALUOp() == asm.Add && n.OpCode.Source() == asm.ImmSource:
			at = n.Constant
		case class.IsALU() && n.OpCode.ALUOp() == asm.Sub && n.OpCode.Source() == asm.ImmSource:
			at = -n.Constant
		case class.IsStore() && n.Dst == asm.RFP,
			class.IsLoad() && n.Src == asm.RFP && !n.OpCode.IsDWordLoad():
			at = int64(n.Offset)
		}
		if at >= -512 {
			low = min(low, at)
		}
	}
	return int16(low &^ 7)
}

// Gated says when a program with a gate runs.
type Gated struct {
	// State is the descriptor of an array. The program runs as long as the first eight bytes
	// of its only value are zero.
	State int
	// PIDs are the processes in which it runs, by their ids in Namespace (OwnIDs).
	PIDs      []int
	Namespace *PIDNamespace
	// UserIP is the offset in the context of an instruction pointer that must not be in the
	// kernel, whose addresses are negative; less than 0 is none.
	UserIP int16
}

// Gate makes a program return idle at once unless g lets it run. Its context remains in R1.
func Gate(ins asm.Instructions, g Gated, idle int32) (asm.Instructions, error) {
	if len(ins) == 0 {
		return nil, fmt.Errorf("no instructions")
	}
	const stop, own = "gate.stop", "gate.own"
	out := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMapValue(asm.R2, g.State, 0),
		asm.LoadMem(asm.R2, asm.R2, 0, asm.DWord),
		asm.JNE.Imm(asm.R2, 0, stop),
	}
	if g.UserIP >= 0 {
		out = append(out, asm.LoadMem(asm.R2, asm.R6, g.UserIP, asm.DWord), asm.JSLT.Imm(asm.R2, 0, stop))
	}
	out = append(out, asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32))
	for _, pid := range g.PIDs {
		out = append(out, asm.JEq.Imm(asm.R0, int32(pid), own))
	}
	out = append(out,
		asm.Mov.Imm(asm.R0, idle).WithSymbol(stop),
		asm.Return(),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(own))
	out[0].Metadata = ins[0].Metadata // it is now the function's first instruction
	first, err := bare(ins[0])
	if err != nil {
		return nil, err
	}
	n := len(out)
	return g.Namespace.ownIDs(append(append(out, first), ins[1:]...), n, true), nil
}

// CloseGate returns a raw tracepoint program for sched_process_exec. It closes the gate of
// state when one of the processes executes a program, before the new program's first
// instruction.
func CloseGate(pids []int, state int) asm.Instructions {
	const found = "gate.close"
	out := asm.Instructions{asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32)}
	for _, pid := range pids {
		out = append(out, asm.JEq.Imm(asm.R0, int32(pid), found))
	}
	return append(out,
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		asm.LoadMapValue(asm.R1, state, 0).WithSymbol(found),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return())
}
