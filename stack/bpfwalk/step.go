package bpfwalk

import (
	"debug/elf"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// step is one round of the walk: note the frame, find the mapping, the row and
// the rule, and go to the caller. It returns 1 at the end of the stack.
//
// The searches have no branches: with them the verifier would follow every way
// through the table (see kernel/bpf/verifier.c, is_state_visited; measured: more
// than a million instructions instead of two thousand).
func (g *bpfGen) step() {
	g.label(StepFunc)
	g.add(
		asm.LoadMem(asm.R6, asm.R2, 0, asm.DWord),
		asm.LoadMem(asm.R7, asm.R6, stN, asm.Word),
		asm.JGE.Imm(asm.R7, int32(g.w.maxFrames()), "ss_limit"),
	)
	// R8: the address to look up, one less for a return address.
	g.load(asm.R1, stIP)
	g.load(asm.R2, stTag)
	g.add(
		asm.Mov.Reg(asm.R8, asm.R2),
		asm.RSh.Imm(asm.R8, bpfExactBit),
		asm.Add.Reg(asm.R8, asm.R1),
		asm.Add.Imm(asm.R8, -1),
		// An address that is none may have bits set where the tag is.
		asm.LSh.Imm(asm.R1, bpfTagBits),
		asm.RSh.Imm(asm.R1, bpfTagBits),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.LSh.Imm(asm.R3, 3),
		asm.Add.Reg(asm.R3, asm.R6),
		asm.StoreMem(asm.R3, stPCs, asm.R1, asm.DWord),
		asm.Add.Imm(asm.R7, 1),
		asm.StoreMem(asm.R6, stN, asm.R7, asm.Word),
	)
	g.sigreturn()
	g.mapping()
	g.row()
	g.cfa()
	g.callerRA()
	g.callerFP()
	g.byFP()
	g.signalFrame()
	g.growGo()
	g.ends()
}

// sigreturn goes to signal if a return address is that of a signal trampoline.
func (g *bpfGen) sigreturn() {
	g.load(asm.R1, stTag)
	g.add(asm.RSh.Imm(asm.R1, bpfExactBit), asm.JNE.Imm(asm.R1, 0, "ss_mapping"))
	g.load(asm.R3, stIP)
	g.add(asm.Mov.Reg(asm.R1, asm.R3), asm.And.Imm(asm.R1, 15), asm.JNE.Imm(asm.R1, 0, "ss_mapping"))
	g.read(asm.R3, 16, "ss_mapping")
	g.load(asm.R1, stBuf)
	if g.arm {
		insns := uint64(0xd4000001_d2801168)
		g.add(
			asm.LoadImm(asm.R2, int64(insns), asm.DWord), // mov x8, #139; svc #0
			asm.JNE.Reg(asm.R1, asm.R2, "ss_mapping"),
		)
		g.trampoline()
		return
	}
	g.add(
		asm.LoadImm(asm.R2, 0x0f0000000fc0c748, asm.DWord), // mov $15, %rax; syscall
		asm.JNE.Reg(asm.R1, asm.R2, "ss_mapping"),
		asm.LoadMem(asm.R1, asm.R6, stBuf+8, asm.Byte),
		asm.JNE.Imm(asm.R1, 5, "ss_mapping"),
	)
	g.trampoline()
}

// trampoline says of the last frame, of which R7 is the number from 1, that its
// address is no return address: no call comes before a trampoline.
func (g *bpfGen) trampoline() {
	g.add(
		asm.LSh.Imm(asm.R7, 3),
		asm.Add.Reg(asm.R7, asm.R6),
		asm.LoadMem(asm.R1, asm.R7, stPCs-8, asm.DWord),
		asm.LoadImm(asm.R2, -1<<bpfExactBit, asm.DWord),
		asm.Or.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.R7, stPCs-8, asm.R1, asm.DWord),
		asm.Ja.Label("ss_signal"),
	)
}

// mapping leaves in R0 the mapping that holds R8: the last frame's, or the last
// one of the process that begins at or below R8.
func (g *bpfGen) mapping() {
	g.label("ss_mapping")
	g.add(asm.LoadMem(asm.R1, asm.R6, stCached, asm.Word))
	g.lookup(nameMappings, asm.R1, "ss_broken")
	g.add(
		asm.LoadMem(asm.R1, asm.R0, mapStart, asm.DWord),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_search"),
		asm.LoadMem(asm.R1, asm.R0, mapEnd, asm.DWord),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_mapped"),
	)
	g.label("ss_search")
	g.add(
		asm.LoadMem(asm.R9, asm.R6, stCount, asm.Word),
		asm.JEq.Imm(asm.R9, 0, "ss_fp"), // nothing is known of the process
		asm.Add.Imm(asm.R9, -1),
		asm.LoadMem(asm.R7, asm.R6, stFirst, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, slotPos, asm.R1, asm.DWord),
	)
	for size := int32(MaxMappings / 2); size >= 1; size /= 2 {
		g.add(
			asm.LoadMem(asm.R1, asm.RFP, slotPos, asm.DWord),
			asm.Add.Imm(asm.R1, size),
			asm.Mov.Reg(asm.R2, asm.R9),
			asm.Sub.Reg(asm.R2, asm.R1),
			asm.ArSh.Imm(asm.R2, 63), // all ones if there is no such mapping
			asm.StoreMem(asm.RFP, slotOver, asm.R2, asm.DWord),
			asm.Xor.Imm(asm.R2, -1),
			asm.And.Reg(asm.R1, asm.R2),
			asm.Add.Reg(asm.R1, asm.R7),
		)
		g.lookup(nameMappings, asm.R1, "ss_broken")
		g.add(
			asm.LoadMem(asm.R1, asm.R0, mapStart, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.R8),
			asm.Sub.Reg(asm.R2, asm.R1),
			asm.ArSh.Imm(asm.R2, 63), // all ones if it begins above
			asm.LoadMem(asm.R3, asm.RFP, slotOver, asm.DWord),
			asm.Or.Reg(asm.R2, asm.R3),
			asm.Xor.Imm(asm.R2, -1),
			asm.And.Imm(asm.R2, size),
			asm.LoadMem(asm.R1, asm.RFP, slotPos, asm.DWord),
			asm.Add.Reg(asm.R1, asm.R2),
			asm.StoreMem(asm.RFP, slotPos, asm.R1, asm.DWord),
		)
	}
	g.add(
		asm.LoadMem(asm.R1, asm.RFP, slotPos, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R7),
		asm.StoreMem(asm.R6, stCached, asm.R1, asm.Word),
	)
	g.lookup(nameMappings, asm.R1, "ss_broken")
	g.add(
		asm.LoadMem(asm.R1, asm.R0, mapStart, asm.DWord),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_unmapped"),
		asm.LoadMem(asm.R1, asm.R0, mapEnd, asm.DWord),
		asm.JGE.Reg(asm.R8, asm.R1, "ss_unmapped"),
	)
	g.label("ss_mapped")
}

// row leaves in R7 the rule for R8, given the mapping in R0.
func (g *bpfGen) row() {
	const mask = chunkRows - 1
	g.add(
		asm.LoadMem(asm.R9, asm.R0, mapRows, asm.Word),
		asm.JEq.Imm(asm.R9, 0, "ss_fp"),
		asm.Add.Imm(asm.R9, -1),
		asm.LoadMem(asm.R1, asm.R0, mapBias, asm.DWord),
		asm.Sub.Reg(asm.R8, asm.R1),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.RSh.Imm(asm.R1, 32),
		asm.JNE.Imm(asm.R1, 0, "ss_fp"),
		asm.LoadMem(asm.R7, asm.R0, mapFirst, asm.Word),
		asm.LoadMem(asm.R1, asm.R0, mapChunk, asm.Word),
	)
	g.lookup(nameRows, asm.R1, "ss_broken")
	g.add( // below the first row nothing is known
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.And.Imm(asm.R1, mask),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_fp"),
		asm.Mov.Imm(asm.R5, 0),
	)
	for size := int32(chunkRows / 2); size >= 1; size /= 2 {
		g.add(
			asm.Mov.Reg(asm.R1, asm.R5),
			asm.Add.Imm(asm.R1, size),
			asm.Mov.Reg(asm.R2, asm.R9),
			asm.Sub.Reg(asm.R2, asm.R1),
			asm.ArSh.Imm(asm.R2, 63), // all ones if there is no such row
			asm.Add.Reg(asm.R1, asm.R7),
			asm.And.Imm(asm.R1, mask),
			asm.LSh.Imm(asm.R1, 2),
			asm.Add.Reg(asm.R1, asm.R0),
			asm.LoadMem(asm.R3, asm.R1, 0, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R8),
			asm.Sub.Reg(asm.R4, asm.R3),
			asm.ArSh.Imm(asm.R4, 63), // all ones if it begins above
			asm.Or.Reg(asm.R4, asm.R2),
			asm.Xor.Imm(asm.R4, -1),
			asm.And.Imm(asm.R4, size),
			asm.Add.Reg(asm.R5, asm.R4),
		)
	}
	g.add(
		asm.Add.Reg(asm.R5, asm.R7),
		asm.And.Imm(asm.R5, mask),
		asm.LSh.Imm(asm.R5, 1),
		asm.Add.Reg(asm.R5, asm.R0),
		asm.Add.Imm(asm.R5, chunkRules),
		asm.LoadMem(asm.R1, asm.R5, 0, asm.Half),
	)
	g.lookup(nameRules, asm.R1, "ss_broken")
	g.add(asm.Mov.Reg(asm.R7, asm.R0))
}

// cfa leaves the canonical frame address in R9.
func (g *bpfGen) cfa() {
	g.add(
		asm.LoadMem(asm.R1, asm.R7, ruleCFA, asm.Byte),
		asm.JEq.Imm(asm.R1, bpfCFANone, "ss_fp"),
		asm.JEq.Imm(asm.R1, bpfCFASig, "ss_signal"),
		asm.JEq.Imm(asm.R1, bpfCFAGrow, "ss_grow"),
		asm.JEq.Imm(asm.R1, bpfCFAHard, "ss_norule"),
		asm.LoadMem(asm.R2, asm.R7, ruleReg, asm.Byte),
		asm.And.Imm(asm.R2, int32(len(bpfRegs)-1)),
		asm.LSh.Imm(asm.R2, 3),
		asm.Add.Reg(asm.R2, asm.R6),
		asm.LoadMem(asm.R9, asm.R2, stRegs, asm.DWord),
		asm.JEq.Imm(asm.R9, 0, "ss_norule"),
	)
	g.signed(asm.R2, ruleOff)
	g.add(
		asm.Add.Reg(asm.R9, asm.R2),
		asm.JEq.Imm(asm.R1, bpfCFARef, "ss_deref"),
		asm.JEq.Imm(asm.R1, bpfCFAPLT, "ss_plt"),
		asm.JEq.Imm(asm.R1, bpfCFAOver, "ss_over"),
	)
	if !g.arm {
		g.add(asm.JEq.Imm(asm.R1, bpfCFAIdx, "ss_index"))
	}
	g.load(asm.R1, stSP)
	g.add(
		asm.JLT.Reg(asm.R9, asm.R1, "ss_loop"),
		asm.Ja.Label("ss_cfa"),
	)
	g.label("ss_over") // the stack pointer says nothing about the other stack
	g.add(asm.Mov.Imm(asm.R1, 0))
	g.store(stSP, asm.R1)
	g.add(asm.Ja.Label("ss_cfa"))
	g.label("ss_plt")
	g.load(asm.R1, stIP)
	g.add(
		asm.And.Imm(asm.R1, 15),
		asm.LoadMem(asm.R2, asm.R7, ruleOff2, asm.Word),
		asm.JLT.Reg(asm.R1, asm.R2, "ss_cfa"),
		asm.Add.Imm(asm.R9, 8),
		asm.Ja.Label("ss_cfa"),
	)
	if i, ok := bpfRegister(elf.EM_X86_64, stack.AMD64R9); ok && !g.arm {
		g.label("ss_index")
		g.load(asm.R1, stRegs+8*int16(i))
		g.add(
			asm.JEq.Imm(asm.R1, 0, "ss_norule"),
			asm.LSh.Imm(asm.R1, 3),
			asm.Add.Reg(asm.R9, asm.R1),
		)
	}
	g.label("ss_deref")
	g.read(asm.R9, 8, "ss_badmem")
	g.load(asm.R9, stBuf)
	g.signed(asm.R1, ruleOff2)
	g.add(asm.Add.Reg(asm.R9, asm.R1))
	g.label("ss_cfa")
}

// callerRA leaves the return address in R8.
func (g *bpfGen) callerRA() {
	g.add(
		asm.LoadMem(asm.R1, asm.R7, ruleRA, asm.Byte),
		asm.JEq.Imm(asm.R1, bpfUndef, "ss_bottom"),
	)
	if g.arm {
		g.load(asm.R8, stLR)
		g.add(asm.JNE.Imm(asm.R1, bpfAtCFA, "ss_ra"))
	} else {
		g.add(asm.JNE.Imm(asm.R1, bpfAtCFA, "ss_norule"))
	}
	g.signed(asm.R8, ruleRAOff)
	g.add(asm.Add.Reg(asm.R8, asm.R9))
	g.read(asm.R8, 8, "ss_badmem")
	g.load(asm.R8, stBuf)
	if g.arm {
		g.label("ss_ra")
		g.stripPAC(asm.R8)
	}
	g.add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"))
	if g.arm {
		g.putBack(0, "ss_ret")
	} else {
		g.putBack(-8, "ss_ret")
	}
}

// stripPAC is that of the walker in Go, with the default mask.
func (g *bpfGen) stripPAC(reg asm.Register) {
	mask := uint64(rules.DefaultPACMask)
	g.add(asm.LoadImm(asm.R1, int64(^mask), asm.DWord), asm.And.Reg(reg, asm.R1))
}

// callerFP restores the frame pointer and goes on to the caller.
func (g *bpfGen) callerFP() {
	// Only a leaf may have no stack of its own.
	g.load(asm.R1, stSP)
	g.add(asm.JNE.Reg(asm.R1, asm.R9, "ss_further"))
	g.load(asm.R1, stTag)
	g.add(asm.RSh.Imm(asm.R1, bpfExactBit), asm.JEq.Imm(asm.R1, 0, "ss_loop"))
	g.label("ss_further")
	g.add(asm.LoadMem(asm.R1, asm.R7, ruleFP, asm.Byte), asm.JEq.Imm(asm.R1, bpfSame, "ss_caller"))
	g.signed(asm.R3, ruleFPOff)
	g.add(asm.Mov.Imm(asm.R2, 0), asm.JEq.Imm(asm.R1, bpfUndef, "ss_newfp"))
	g.load(asm.R2, stFP)
	g.add(
		asm.JEq.Imm(asm.R1, bpfAtFP, "ss_slot"),
		asm.Mov.Reg(asm.R2, asm.R9),
	)
	g.label("ss_slot")
	g.add(asm.Add.Reg(asm.R3, asm.R2))
	if g.arm {
		g.add(asm.JEq.Imm(asm.R1, bpfKept, "ss_kept"))
	}
	g.load(asm.R2, stSP)
	g.add(asm.JLT.Reg(asm.R3, asm.R2, "ss_caller")) // popped already: see CFIWalker.value
	g.label("ss_kept")
	g.read(asm.R3, 8, "ss_badmem")
	g.load(asm.R2, stBuf)
	g.label("ss_newfp")
	g.store(stFP, asm.R2)
	g.label("ss_caller")
	g.add(asm.Mov.Imm(asm.R1, 0))
	g.store(stTag, asm.R1)
	g.enter(asm.R8, asm.R9)
}

// enter makes the caller's program counter and stack pointer current, and
// forgets registers that a call does not keep.
func (g *bpfGen) enter(pc, sp asm.Register) {
	if g.arm {
		g.store(stLR, pc)
	}
	g.enterAt(pc, sp)
}

// enterAt is enter without a call.
func (g *bpfGen) enterAt(pc, sp asm.Register) {
	g.store(stIP, pc)
	g.store(stSP, sp)
	if !g.arm {
		g.add(asm.Mov.Imm(asm.R1, 0))
		for i := 2; i < len(bpfRegs); i++ {
			g.store(int16(stRegs+8*i), asm.R1)
		}
	}
	g.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// epilogue takes the return address above the frame that the code behind a call
// gives back: see CFIWalker.epilogue.
func (g *bpfGen) epilogue() {
	if g.arm {
		return
	}
	g.load(asm.R1, stTag)
	g.add(asm.RSh.Imm(asm.R1, bpfExactBit), asm.JNE.Imm(asm.R1, 0, "ss_chain"))
	g.load(asm.R3, stIP)
	g.read(asm.R3, 8, "ss_chain")
	g.load(asm.R1, stBuf)
	g.add(
		asm.Mov.Reg(asm.R9, asm.R1),
		asm.LoadImm(asm.R2, rules.EpilogueMask, asm.DWord),
		asm.And.Reg(asm.R1, asm.R2),
		asm.LoadImm(asm.R2, rules.EpilogueCode, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "ss_chain"),
		asm.RSh.Imm(asm.R9, 24),
		asm.And.Imm(asm.R9, 0xff),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.And.Imm(asm.R1, 0x87),
		asm.JNE.Imm(asm.R1, 0, "ss_chain"),
	)
	g.load(asm.R1, stSP)
	g.add(asm.Add.Reg(asm.R9, asm.R1))
	g.read(asm.R9, 8, "ss_badmem")
	g.load(asm.R8, stBuf)
	g.add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"), asm.Add.Imm(asm.R9, 8), asm.Mov.Imm(asm.R1, 0))
	g.store(stTag, asm.R1)
	g.enter(asm.R8, asm.R9)
	g.label("ss_chain")
}

// byFP follows the frame pointer, where no rule is known.
func (g *bpfGen) byFP() {
	g.label("ss_fp")
	g.epilogue()
	g.load(asm.R9, stFP)
	g.add(
		asm.JEq.Imm(asm.R9, 0, "ss_fpend"),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.And.Imm(asm.R1, 7),
		asm.JNE.Imm(asm.R1, 0, "ss_norule"),
	)
	g.load(asm.R1, stSP)
	if g.arm {
		g.add(asm.Add.Imm(asm.R1, -8)) // as in FPWalker.step
	}
	g.add(asm.JLT.Reg(asm.R9, asm.R1, "ss_norule"))
	g.read(asm.R9, 16, "ss_norule")
	g.load(asm.R8, stBuf+8)
	if g.arm {
		g.stripPAC(asm.R8)
	}
	g.add(asm.JEq.Imm(asm.R8, 0, "ss_fpend"))
	g.load(asm.R1, stBuf)
	g.store(stFP, asm.R1)
	if !g.arm { // where the stack pointer was is not known there
		g.putBack(8, "ss_fpret")
	}
	g.add(asm.Add.Imm(asm.R9, 16), asm.LoadImm(asm.R1, bpfByFP, asm.DWord))
	g.store(stTag, asm.R1)
	g.enter(asm.R8, asm.R9)
	g.label("ss_fpend") // the chain's end, unless it never began
	g.load(asm.R1, stTag)
	g.add(
		asm.RSh.Imm(asm.R1, bpfExactBit),
		asm.JNE.Imm(asm.R1, 0, "ss_norule"),
		asm.Ja.Label("ss_bottom"),
	)
}

// signalFrame takes all registers from the frame that the kernel pushed.
func (g *bpfGen) signalFrame() {
	off, size := int32(rules.AMD64SigRegs), int32(8*len(rules.AMD64SigOrder))
	if g.arm {
		off, size = rules.ARM64SigRegs, rules.ARM64SigLen
	}
	g.label("ss_signal")
	g.load(asm.R3, stSP)
	g.add(asm.Add.Imm(asm.R3, off))
	g.read(asm.R3, size, "ss_badmem")
	g.takeRegs(g.regsInSignal())
	g.add(asm.LoadImm(asm.R1, int64(-1)<<63, asm.DWord)) // bpfExact
	g.store(stTag, asm.R1)
	g.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// growGo goes on where a goroutine's descriptor says: see CFIWalker.grow.
func (g *bpfGen) growGo() {
	g.label("ss_grow")
	g.load(asm.R8, stG)
	g.add(
		asm.JEq.Imm(asm.R8, 0, "ss_norule"),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.Add.Imm(asm.R3, rules.GoMOfG),
	)
	g.read(asm.R3, 8, "ss_badmem")
	g.load(asm.R9, stBuf)
	g.read(asm.R9, 8, "ss_badmem") // m.g0
	g.load(asm.R1, stBuf)
	g.add(asm.JNE.Reg(asm.R1, asm.R8, "ss_sched"))
	g.signed(asm.R3, ruleOff)
	g.add(asm.Add.Reg(asm.R3, asm.R9))
	g.read(asm.R3, 8, "ss_badmem") // m.curg
	g.load(asm.R8, stBuf)
	g.add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"))
	g.label("ss_sched")
	g.store(stG, asm.R8)
	g.add(asm.Mov.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, rules.GoSchedOfG))
	g.read(asm.R3, 16, "ss_badmem")
	g.load(asm.R9, stBuf)
	g.load(asm.R1, stBuf+8)
	g.add(asm.JEq.Imm(asm.R1, 0, "ss_norule"))
	g.store(stIP, asm.R1)
	g.signed(asm.R3, ruleOff2)
	g.add(asm.Add.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, -8))
	g.read(asm.R3, 16, "ss_badmem") // lr, bp
	if g.arm {
		g.load(asm.R1, stBuf)
		g.store(stLR, asm.R1)
	}
	g.load(asm.R1, stBuf+8)
	g.store(stFP, asm.R1)
	g.add(asm.LoadImm(asm.R1, int64(-1)<<63, asm.DWord)) // bpfExact
	g.store(stTag, asm.R1)
	g.load(asm.R8, stIP)
	g.enterAt(asm.R8, asm.R9)
}

// ends notes why there is no caller.
func (g *bpfGen) ends() {
	// A return address that a frame pointer led to and that is no code is not
	// a frame.
	g.label("ss_unmapped")
	g.load(asm.R1, stTag)
	g.add(
		asm.RSh.Imm(asm.R1, 62),
		asm.And.Imm(asm.R1, 1),
		asm.JEq.Imm(asm.R1, 0, "ss_nomapping"),
		asm.LoadMem(asm.R1, asm.R6, stN, asm.Word),
		asm.Add.Imm(asm.R1, -1),
		asm.StoreMem(asm.R6, stN, asm.R1, asm.Word),
	)
	for _, e := range []struct {
		label string
		end   stack.StopReason
	}{
		{"ss_norule", stack.StopNoRule},
		{"ss_nomapping", stack.StopNoMapping},
		{"ss_badmem", stack.StopBadMemory},
		{"ss_loop", stack.StopLoop},
		{"ss_limit", stack.StopLimit},
		{"ss_bottom", stack.StopBottom},
		{"ss_broken", stack.StopUnknown},
	} {
		g.label(e.label)
		g.add(asm.Mov.Imm(asm.R1, int32(e.end)))
		if e.label != "ss_broken" {
			g.add(asm.Ja.Label("ss_end"))
		}
	}
	g.label("ss_end")
	g.add(
		asm.StoreMem(asm.R6, stEnd, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
	)
}
