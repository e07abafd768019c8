package bpfwalk

import (
	"debug/elf"
	"fmt"

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
	g.Label(StepFunc)
	g.Add(
		asm.LoadMem(asm.R6, asm.R2, 0, asm.DWord),
		asm.LoadMem(asm.R7, asm.R6, stN, asm.Word),
		asm.JGE.Imm(asm.R7, int32(g.w.maxFrames()), "ss_limit"),
	)
	// R8: the address to look up, one less for a return address.
	g.load(asm.R1, g.at(g.regs.ip))
	g.load(asm.R2, stTag)
	g.Add(
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
	g.slots()
	g.caller()
	g.byFP()
	g.signalFrame()
	g.growGo()
	g.ends()
}

// sigreturn goes to signal if a return address is that of a signal trampoline.
func (g *bpfGen) sigreturn() {
	g.load(asm.R1, stTag)
	g.Add(asm.RSh.Imm(asm.R1, bpfExactBit), asm.JNE.Imm(asm.R1, 0, "ss_mapping"))
	g.load(asm.R3, g.at(g.regs.ip))
	g.Add(asm.Mov.Reg(asm.R1, asm.R3), asm.And.Imm(asm.R1, 15), asm.JNE.Imm(asm.R1, 0, "ss_mapping"))
	g.read(asm.R3, 16, "ss_mapping")
	g.load(asm.R1, stBuf)
	if g.arm {
		insns := uint64(0xd4000001_d2801168)
		g.Add(
			asm.LoadImm(asm.R2, int64(insns), asm.DWord), // mov x8, #139; svc #0
			asm.JNE.Reg(asm.R1, asm.R2, "ss_mapping"),
		)
		g.trampoline()
		return
	}
	g.Add(
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
	g.Add(
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
	g.Label("ss_mapping")
	g.Add(asm.LoadMem(asm.R1, asm.R6, stCached, asm.Word))
	g.lookup(nameMappings, asm.R1, "ss_broken")
	g.Add(
		asm.LoadMem(asm.R1, asm.R0, mapStart, asm.DWord),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_search"),
		asm.LoadMem(asm.R1, asm.R0, mapEnd, asm.DWord),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_mapped"),
	)
	g.Label("ss_search")
	g.Add(
		asm.LoadMem(asm.R9, asm.R6, stCount, asm.Word),
		asm.JEq.Imm(asm.R9, 0, "ss_fp"), // nothing is known of the process
		asm.LoadMem(asm.R7, asm.R6, stFirst, asm.Word),
	)
	// It is one of the R9 mappings from R7 on, of which each round keeps a half.
	for n := MaxMappings; n > 1; n = (n + 1) / 2 {
		g.Add(
			asm.Mov.Reg(asm.R1, asm.R9),
			asm.RSh.Imm(asm.R1, 1),
			asm.StoreMem(asm.RFP, slotHalf, asm.R1, asm.DWord),
			asm.Add.Reg(asm.R1, asm.R7),
		)
		g.lookup(nameMappings, asm.R1, "ss_broken")
		g.Add(
			asm.LoadMem(asm.R2, asm.R0, mapStart, asm.DWord),
			asm.Sub.Reg(asm.R2, asm.R8),
			asm.Add.Imm(asm.R2, -1),
			asm.ArSh.Imm(asm.R2, 63), // all ones unless it begins above
			asm.LoadMem(asm.R1, asm.RFP, slotHalf, asm.DWord),
			asm.And.Reg(asm.R2, asm.R1),
			asm.Add.Reg(asm.R7, asm.R2),
			asm.Sub.Reg(asm.R9, asm.R1),
		)
	}
	g.Add(
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.StoreMem(asm.R6, stCached, asm.R1, asm.Word),
	)
	g.lookup(nameMappings, asm.R1, "ss_broken")
	g.Add(
		asm.LoadMem(asm.R1, asm.R0, mapStart, asm.DWord),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_unmapped"),
		asm.LoadMem(asm.R1, asm.R0, mapEnd, asm.DWord),
		asm.JGE.Reg(asm.R8, asm.R1, "ss_unmapped"),
	)
	g.Label("ss_mapped")
}

// row leaves in R7 the rule for R8, given the mapping in R0.
func (g *bpfGen) row() {
	const mask = chunkRows - 1
	g.Add(
		asm.LoadMem(asm.R9, asm.R0, mapRows, asm.Word),
		asm.JEq.Imm(asm.R9, 0, "ss_fp"),
		asm.LoadMem(asm.R1, asm.R0, mapBias, asm.DWord),
		asm.Sub.Reg(asm.R8, asm.R1),
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.RSh.Imm(asm.R1, 32),
		asm.JNE.Imm(asm.R1, 0, "ss_fp"),
		asm.LoadMem(asm.R7, asm.R0, mapFirst, asm.Word),
		asm.LoadMem(asm.R1, asm.R0, mapChunk, asm.Word),
	)
	g.lookup(nameRows, asm.R1, "ss_broken")
	g.hint("ss_find", "ss_row")
	g.Label("ss_find")
	g.Add( // below the first row nothing is known
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.And.Imm(asm.R1, mask),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JLT.Reg(asm.R8, asm.R1, "ss_fp"),
		asm.Mov.Reg(asm.R4, asm.R8),
		asm.Add.Imm(asm.R4, 1),
	)
	// It is one of the R9 rows from R7 on, of which each round keeps a half.
	for n := chunkRows; n > 1; n = (n + 1) / 2 {
		g.Add(
			asm.Mov.Reg(asm.R1, asm.R9),
			asm.RSh.Imm(asm.R1, 1),
			asm.Mov.Reg(asm.R2, asm.R7),
			asm.Add.Reg(asm.R2, asm.R1),
			asm.And.Imm(asm.R2, mask),
			asm.LSh.Imm(asm.R2, 2),
			asm.Add.Reg(asm.R2, asm.R0),
			asm.LoadMem(asm.R2, asm.R2, 0, asm.Word),
			asm.Sub.Reg(asm.R2, asm.R4),
			asm.ArSh.Imm(asm.R2, 63), // all ones unless it begins above
			asm.And.Reg(asm.R2, asm.R1),
			asm.Add.Reg(asm.R7, asm.R2),
			asm.Sub.Reg(asm.R9, asm.R1),
		)
	}
	g.hintAt(asm.R1)
	g.Add(
		asm.StoreMem(asm.R1, 0, asm.R7, asm.Half),
		asm.Mov.Reg(asm.R5, asm.R7),
	)
	g.Label("ss_row")
	g.Add(
		asm.And.Imm(asm.R5, mask),
		asm.LSh.Imm(asm.R5, 1),
		asm.Add.Reg(asm.R5, asm.R0),
		asm.Add.Imm(asm.R5, chunkRules),
		asm.LoadMem(asm.R1, asm.R5, 0, asm.Half),
	)
	g.lookup(nameRules, asm.R1, "ss_broken")
	g.Add(asm.Mov.Reg(asm.R7, asm.R0))
}

// hint goes to found with the row for R8 in R5 if it is where the row for this hash was found
// last, and else to search. A hint may be of another file, or of rows that have been replaced
// since: the row is only taken if it covers the address. R0 are the rows of the chunk, of which
// the R9 from R7 on are the mapping's.
func (g *bpfGen) hint(search, found string) {
	const mask = chunkRows - 1
	g.hintAt(asm.R1)
	g.Add(
		asm.LoadMem(asm.R5, asm.R1, 0, asm.Half),
		asm.And.Imm(asm.R5, mask),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.And.Imm(asm.R1, mask),
		asm.Mov.Reg(asm.R2, asm.R5),
		asm.Sub.Reg(asm.R2, asm.R1), // its number among the mapping's
		asm.JGE.Reg(asm.R2, asm.R9, search),
		asm.Mov.Reg(asm.R1, asm.R5),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JLT.Reg(asm.R8, asm.R1, search),
		asm.Add.Imm(asm.R2, 1),
		asm.JEq.Reg(asm.R2, asm.R9, found), // the last one has no end
		asm.Mov.Reg(asm.R1, asm.R5),
		asm.Add.Imm(asm.R1, 1),
		asm.And.Imm(asm.R1, mask),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.Word),
		asm.JLT.Reg(asm.R8, asm.R1, found),
	)
}

// hintAt leaves in reg the address of the hint for R8, and changes R2.
func (g *bpfGen) hintAt(reg asm.Register) {
	g.Add(
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Mul.Imm(asm.R2, 0x1e3779b1),
		asm.RSh.Imm(asm.R2, 16),
		asm.And.Imm(asm.R2, hints-1),
		asm.LSh.Imm(asm.R2, 1),
		asm.LoadMapValue(reg, 0, 0).WithReference(nameHints),
		asm.Add.Reg(reg, asm.R2),
	)
}

// cfa leaves the canonical frame address in R9.
func (g *bpfGen) cfa() {
	g.Add(
		asm.LoadMem(asm.R1, asm.R7, ruleCFA, asm.Byte),
		asm.And.Imm(asm.R1, bpfCFAKind),
		asm.JEq.Imm(asm.R1, bpfCFANone, "ss_fp"),
		asm.JEq.Imm(asm.R1, bpfCFASig, "ss_signal"),
		asm.JEq.Imm(asm.R1, bpfCFAGrow, "ss_grow"),
		asm.JEq.Imm(asm.R1, bpfCFAHard, "ss_leftout"),
		asm.JEq.Imm(asm.R1, bpfCFABad, "ss_norule"),
		asm.LoadMem(asm.R2, asm.R7, ruleReg, asm.Byte),
	)
	g.known(asm.R2, "ss_unknown")
	g.register(asm.R9, asm.R2)
	g.signed(asm.R2, ruleOff)
	g.Add(
		asm.Add.Reg(asm.R9, asm.R2),
		asm.JEq.Imm(asm.R1, bpfCFARef, "ss_deref"),
		asm.JEq.Imm(asm.R1, bpfCFAPLT, "ss_plt"),
		asm.JEq.Imm(asm.R1, bpfCFAOver, "ss_cfa"),
	)
	if !g.arm {
		g.Add(asm.JEq.Imm(asm.R1, bpfCFAIdx, "ss_index"))
	}
	g.load(asm.R1, g.at(g.regs.sp))
	g.Add(
		asm.JLT.Reg(asm.R9, asm.R1, "ss_loop"),
		asm.Ja.Label("ss_cfa"),
	)
	g.Label("ss_plt")
	g.load(asm.R1, g.at(g.regs.ip))
	g.Add(
		asm.And.Imm(asm.R1, 15),
		asm.LoadMem(asm.R2, asm.R7, ruleOff2, asm.Half),
		asm.JLT.Reg(asm.R1, asm.R2, "ss_cfa"),
		asm.Add.Imm(asm.R9, 8),
		asm.Ja.Label("ss_cfa"),
	)
	if !g.arm {
		g.Label("ss_index")
		r9, _ := wordOf(elf.EM_X86_64, stack.AMD64R9)
		g.Add(asm.Mov.Imm(asm.R2, int32(r9)))
		g.known(asm.R2, "ss_unknown")
		g.load(asm.R1, g.at(r9))
		g.Add(
			asm.LSh.Imm(asm.R1, 3),
			asm.Add.Reg(asm.R9, asm.R1),
		)
	}
	g.Label("ss_deref")
	g.read(asm.R9, 8, "ss_badmem")
	g.load(asm.R9, stBuf)
	g.signedHalf(asm.R1, ruleOff2, 0)
	g.Add(asm.Add.Reg(asm.R9, asm.R1))
	g.Label("ss_cfa")
	g.store(g.at(newSP), asm.R9)
}

// at is the place of a word of the registers.
func (g *bpfGen) at(word int) int16 { return int16(8 * word) }

// known goes to unknown unless the word of the registers that reg numbers is known. It
// leaves nothing but the number in reg, and changes R3.
func (g *bpfGen) known(reg asm.Register, unknown string) {
	g.Add(asm.And.Imm(reg, fromReg))
	g.load(asm.R3, stHave)
	g.Add(
		asm.RSh.Reg(asm.R3, reg),
		asm.And.Imm(asm.R3, 1),
		asm.JEq.Imm(asm.R3, 0, unknown),
	)
}

// register loads the word of the registers that reg numbers into dst. It changes reg.
func (g *bpfGen) register(dst, reg asm.Register) {
	g.Add(
		asm.LSh.Imm(reg, 3),
		asm.Add.Reg(reg, asm.R6),
		asm.LoadMem(dst, reg, 0, asm.DWord),
	)
}

// signedHalf loads an int16 of the rule in R7, shifted to the left.
func (g *bpfGen) signedHalf(reg asm.Register, off int16, shift int32) {
	g.Add(
		asm.LoadMem(reg, asm.R7, off, asm.Half),
		asm.LSh.Imm(reg, 48),
		asm.ArSh.Imm(reg, 48-shift),
	)
}

// slots restores the registers of the rule, by the CFA in R9.
func (g *bpfGen) slots() {
	g.Add(
		asm.LoadMem(asm.R2, asm.R7, ruleCFA, asm.Byte),
		asm.RSh.Imm(asm.R2, 4),
		asm.JEq.Imm(asm.R2, 0, "ss_oneByOne"),
	)
	g.signedHalf(asm.R3, ruleSlot+slotOff, 3)
	g.Add(
		asm.Add.Reg(asm.R3, asm.R9),
		asm.LoadMem(asm.R1, asm.R7, ruleReg, asm.Byte),
		asm.JSet.Imm(asm.R1, ruleAny, "ss_block"),
	)
	g.load(asm.R1, g.at(g.regs.sp))
	g.Add(asm.JLT.Reg(asm.R3, asm.R1, "ss_oneByOne"))
	g.Label("ss_block")
	g.Add(
		asm.LSh.Imm(asm.R2, 3),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, stBuf),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "ss_oneByOne"), // up to the slot that can't be read
		asm.LoadMem(asm.R8, asm.R7, ruleSet, asm.Half),
	)
	for i := range ruleSlots {
		g.target(i, "ss_restored")
		g.Add(
			asm.LoadMem(asm.R2, asm.R7, slotAt(i, slotFrom), asm.Byte),
			asm.Add.Reg(asm.R2, asm.R6),
			asm.LoadMem(asm.R2, asm.R2, stBuf-fromCFA, asm.DWord),
		)
		g.restore()
	}
	g.Add(asm.Ja.Label("ss_restored"))
	g.oneByOne()
	g.Label("ss_restored")
}

func slotAt(i int, field int16) int16 { return int16(ruleSlot+4*i) + field }

// target loads into R1 where the rule's i-th register is, or goes to none.
func (g *bpfGen) target(i int, none string) {
	g.Add(
		asm.LoadMem(asm.R1, asm.R7, slotAt(i, slotTarget), asm.Byte),
		asm.JEq.Imm(asm.R1, slotNone, none),
	)
}

// restore stores R2 at the byte of the state that R1 says.
func (g *bpfGen) restore() {
	g.Add(asm.Add.Reg(asm.R1, asm.R6), asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord))
}

// oneByOne finds the registers that a rule restores, each in its own way, and then
// restores them: a rule may use what it replaces. R8 are those restored, as ruleSet.
func (g *bpfGen) oneByOne() {
	g.Label("ss_oneByOne")
	g.Add(
		asm.LoadMem(asm.R8, asm.R7, ruleSet, asm.Half),
		asm.LoadMem(asm.R1, asm.R7, ruleReg, asm.Byte),
		asm.Mov.Imm(asm.R2, 0),
		asm.JSet.Imm(asm.R1, ruleAny, "ss_low"),
	)
	g.load(asm.R2, g.at(g.regs.sp))
	g.Label("ss_low")
	g.store(stLow, asm.R2)
	for i := range ruleSlots {
		g.one(i)
	}
	g.Label("ss_found")
	for i := range ruleSlots {
		g.target(i, "ss_restored")
		g.load(asm.R2, slotValue(i))
		g.restore()
	}
}

func slotValue(i int) int16 { return int16(stVals + 8*i) }

// one finds one register's value.
func (g *bpfGen) one(i int) {
	name := func(s string) string { return fmt.Sprintf("ss_%s%d", s, i) }
	g.target(i, "ss_found")
	g.signedHalf(asm.R5, slotAt(i, slotOff), 3)
	g.Add(
		asm.LoadMem(asm.R2, asm.R7, slotAt(i, slotFrom), asm.Byte),
		asm.Mov.Reg(asm.R4, asm.R9),
		asm.JSet.Imm(asm.R2, fromCFA, name("slot")),
		asm.Mov.Reg(asm.R0, asm.R2),
	)
	g.known(asm.R2, name("lost"))
	g.register(asm.R4, asm.R2)
	g.Add(
		asm.JSet.Imm(asm.R0, fromSaved, name("slot")),
		asm.Add.Reg(asm.R5, asm.R4),
		asm.Ja.Label(name("value")),
	)

	g.Label(name("lost")) // what it is computed from: then it is not known either
	for _, must := range []int{g.regs.ra, newSP} {
		g.Add(asm.JEq.Imm(asm.R1, int32(8*must), "ss_unknown"))
	}
	g.Add(asm.Ja.Label(name("forget")))
	g.Label(name("unread"))
	g.target(i, "ss_broken")
	for _, must := range []int{g.regs.ra, newSP, g.regs.fp} {
		g.Add(asm.JEq.Imm(asm.R1, int32(8*must), "ss_badmem"))
	}
	g.Label(name("forget"))
	g.Add(asm.RSh.Imm(asm.R1, 3), asm.Mov.Imm(asm.R5, 1), asm.LSh.Reg(asm.R5, asm.R1))
	if g.regs.shift > 0 {
		g.Add(asm.RSh.Imm(asm.R5, int32(g.regs.shift)))
	}
	g.Add(asm.Xor.Imm(asm.R5, -1), asm.And.Reg(asm.R8, asm.R5), asm.Ja.Label(name("value")))

	g.Label(name("slot"))
	g.Add(asm.Add.Reg(asm.R5, asm.R4))
	g.Add(asm.JEq.Imm(asm.R1, 8*newSP, name("read")))
	if !g.arm {
		g.Add(asm.JEq.Imm(asm.R1, int32(8*g.regs.ra), name("read")))
	}
	g.load(asm.R2, stLow)
	g.Add(asm.JGE.Reg(asm.R5, asm.R2, name("read")))
	g.Add(asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 3)) // popped already: see CFIWalker.value
	g.known(asm.R2, name("forget"))
	g.Add(
		asm.Add.Reg(asm.R1, asm.R6),
		asm.LoadMem(asm.R5, asm.R1, 0, asm.DWord),
		asm.Ja.Label(name("value")),
	)
	g.Label(name("read"))
	g.readTo(int32(slotValue(i)), asm.R5, 8, name("unread"))
	g.load(asm.R5, slotValue(i))
	g.Label(name("value"))
	g.store(slotValue(i), asm.R5)
}

// caller goes on to the caller.
func (g *bpfGen) caller() {
	g.Add(
		asm.LoadMem(asm.R2, asm.R7, ruleKeep, asm.Half),
		asm.LoadMem(asm.R3, asm.R7, ruleReg, asm.Byte),
	)
	g.load(asm.R1, stHave)
	if shift := int32(g.regs.shift); shift > 0 {
		g.Add(asm.LSh.Imm(asm.R2, shift), asm.LSh.Imm(asm.R8, shift))
	}
	g.Add(asm.And.Reg(asm.R1, asm.R2), asm.Or.Reg(asm.R1, asm.R8))
	g.have()
	g.Add(asm.JSet.Imm(asm.R3, ruleBottom, "ss_bottom"))
	if g.arm {
		g.Add(asm.RSh.Imm(asm.R1, int32(g.regs.ra)), asm.And.Imm(asm.R1, 1),
			asm.JEq.Imm(asm.R1, 0, "ss_norule"))
	}
	g.load(asm.R8, g.at(g.regs.ra))
	if g.arm {
		g.stripPAC(asm.R8)
	}
	g.Add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"))
	if g.arm {
		g.putBack(0, "ss_ret")
	} else {
		g.putBack(-8, "ss_ret")
	}
	// Only a leaf may have no stack of its own.
	g.load(asm.R9, g.at(newSP))
	g.load(asm.R1, g.at(g.regs.sp))
	g.Add(asm.JNE.Reg(asm.R1, asm.R9, "ss_further"))
	g.load(asm.R1, stTag)
	g.Add(asm.RSh.Imm(asm.R1, bpfExactBit), asm.JEq.Imm(asm.R1, 0, "ss_loop"))
	g.Label("ss_further")
	g.Add(asm.Mov.Imm(asm.R1, 0))
	g.store(stTag, asm.R1)
	g.enter(asm.R8, asm.R9)
}

// stripPAC is that of the walker in Go, with the default mask.
func (g *bpfGen) stripPAC(reg asm.Register) {
	mask := uint64(rules.DefaultPACMask)
	g.Add(asm.LoadImm(asm.R1, int64(^mask), asm.DWord), asm.And.Reg(reg, asm.R1))
}

// haveAll notes that all registers are known.
func (g *bpfGen) haveAll() {
	g.Add(asm.Mov.Imm(asm.R1, -1))
	g.store(stHave, asm.R1)
}

// have notes that the registers in R1 are known, and those that always are.
func (g *bpfGen) have() {
	always := uint64(1)<<g.regs.ip | 1<<g.regs.sp | 1<<newSP
	g.Add(asm.LoadImm(asm.R2, int64(always), asm.DWord), asm.Or.Reg(asm.R1, asm.R2))
	g.store(stHave, asm.R1)
}

// haveOnly notes that no other registers are known.
func (g *bpfGen) haveOnly(words ...int) {
	var bits uint64
	for _, w := range words {
		bits |= 1 << w
	}
	g.Add(asm.LoadImm(asm.R1, int64(bits), asm.DWord))
	g.have()
}

// enter makes a program counter and stack pointer current.
func (g *bpfGen) enter(pc, sp asm.Register) {
	g.store(g.at(g.regs.ip), pc)
	g.store(g.at(g.regs.sp), sp)
	g.Add(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// epilogue takes the return address above the frame that the code behind a call
// gives back: see CFIWalker.epilogue.
func (g *bpfGen) epilogue() {
	if g.arm {
		return
	}
	g.load(asm.R1, stTag)
	g.Add(asm.RSh.Imm(asm.R1, bpfExactBit), asm.JNE.Imm(asm.R1, 0, "ss_chain"))
	g.load(asm.R3, g.at(g.regs.ip))
	g.read(asm.R3, 8, "ss_chain")
	g.load(asm.R1, stBuf)
	g.Add(
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
	g.load(asm.R1, g.at(g.regs.sp))
	g.Add(asm.Add.Reg(asm.R9, asm.R1))
	g.read(asm.R9, 8, "ss_badmem")
	g.load(asm.R8, stBuf)
	g.Add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"), asm.Add.Imm(asm.R9, 8), asm.Mov.Imm(asm.R1, 0))
	g.store(stTag, asm.R1)
	kept := uint64(1) << g.regs.fp
	for _, reg := range g.regs.saved {
		w, _ := wordOf(elf.EM_X86_64, reg)
		kept |= 1 << w
	}
	g.load(asm.R1, stHave)
	g.Add(asm.And.Imm(asm.R1, int32(kept)))
	g.have()
	g.enter(asm.R8, asm.R9)
	g.Label("ss_chain")
}

// byFP follows the frame pointer, where no rule is known.
func (g *bpfGen) byFP() {
	g.Label("ss_fp")
	if g.w.Entry {
		g.atEntry()
	}
	g.epilogue()
	g.Add(asm.Mov.Imm(asm.R2, int32(g.regs.fp)))
	g.known(asm.R2, "ss_norule")
	g.load(asm.R9, g.at(g.regs.fp))
	g.Add(
		asm.JEq.Imm(asm.R9, 0, "ss_fpend"),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.And.Imm(asm.R1, 7),
		asm.JNE.Imm(asm.R1, 0, "ss_norule"),
	)
	g.load(asm.R1, g.at(g.regs.sp))
	if g.arm {
		g.Add(asm.Add.Imm(asm.R1, -8)) // as in FPWalker.step
	}
	g.Add(asm.JLT.Reg(asm.R9, asm.R1, "ss_norule"))
	g.read(asm.R9, 16, "ss_norule")
	g.load(asm.R8, stBuf+8)
	if g.arm {
		g.stripPAC(asm.R8)
	}
	g.Add(asm.JEq.Imm(asm.R8, 0, "ss_fpend"))
	g.load(asm.R1, stBuf)
	g.store(g.at(g.regs.fp), asm.R1)
	if !g.arm { // where the stack pointer was is not known there
		g.putBack(8, "ss_fpret")
	}
	g.Add(asm.Add.Imm(asm.R9, 16), asm.LoadImm(asm.R1, bpfByFP, asm.DWord))
	g.store(stTag, asm.R1)
	g.haveOnly(g.regs.fp)
	g.enter(asm.R8, asm.R9)
	g.Label("ss_fpend") // the chain's end, unless it never began
	g.load(asm.R1, stTag)
	g.Add(
		asm.RSh.Imm(asm.R1, bpfExactBit),
		asm.JNE.Imm(asm.R1, 0, "ss_norule"),
		asm.Ja.Label("ss_bottom"),
	)
}

// atEntry goes to the caller of the first frame, whose function has just been entered: its return
// address is on top of the stack, on arm64 in the link register.
func (g *bpfGen) atEntry() {
	g.Add(asm.LoadMem(asm.R1, asm.R6, stN, asm.Word), asm.JNE.Imm(asm.R1, 1, "ss_inside"))
	g.load(asm.R9, g.at(g.regs.sp))
	if g.arm {
		g.load(asm.R8, g.at(g.regs.ra))
		g.stripPAC(asm.R8)
	} else {
		g.read(asm.R9, 8, "ss_badmem")
		g.load(asm.R8, stBuf)
	}
	g.Add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"))
	g.putBack(0, "ss_entryret")
	if !g.arm {
		g.Add(asm.Add.Imm(asm.R9, 8))
	}
	g.Add(asm.LoadImm(asm.R1, bpfByFP, asm.DWord))
	g.store(stTag, asm.R1)
	g.haveOnly(g.regs.fp)
	g.enter(asm.R8, asm.R9)
	g.Label("ss_inside")
}

// signalFrame takes all registers from the frame that the kernel pushed.
func (g *bpfGen) signalFrame() {
	g.Label("ss_signal")
	g.load(asm.R3, g.at(g.regs.sp))
	if g.arm { // in the order of struct user_pt_regs
		g.Add(asm.Add.Imm(asm.R3, rules.ARM64SigRegs))
		g.readTo(stRegs, asm.R3, rules.ARM64SigLen, "ss_badmem")
	} else {
		g.Add(asm.Add.Imm(asm.R3, rules.AMD64SigRegs))
		g.read(asm.R3, int32(8*len(rules.AMD64SigOrder)), "ss_badmem")
		for i, reg := range rules.AMD64SigOrder {
			w, _ := wordOf(elf.EM_X86_64, uint8(reg))
			g.load(asm.R1, stBuf+8*int16(i))
			g.store(g.at(w), asm.R1)
		}
	}
	g.haveAll()
	g.Add(asm.LoadImm(asm.R1, int64(-1)<<63, asm.DWord)) // bpfExact
	g.store(stTag, asm.R1)
	g.Add(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// growGo goes on where a goroutine's descriptor says: see CFIWalker.grow.
func (g *bpfGen) growGo() {
	g.Label("ss_grow")
	g.Add(asm.Mov.Imm(asm.R2, int32(g.regs.g)))
	g.known(asm.R2, "ss_unknown")
	g.load(asm.R8, g.at(g.regs.g))
	g.Add(
		asm.JEq.Imm(asm.R8, 0, "ss_norule"),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.Add.Imm(asm.R3, rules.GoMOfG),
	)
	g.read(asm.R3, 8, "ss_badmem")
	g.load(asm.R9, stBuf)
	g.read(asm.R9, 8, "ss_badmem") // m.g0
	g.load(asm.R1, stBuf)
	g.Add(asm.JNE.Reg(asm.R1, asm.R8, "ss_sched"))
	g.signed(asm.R3, ruleOff)
	g.Add(asm.Add.Reg(asm.R3, asm.R9))
	g.read(asm.R3, 8, "ss_badmem") // m.curg
	g.load(asm.R8, stBuf)
	g.Add(asm.JEq.Imm(asm.R8, 0, "ss_bottom"))
	g.Label("ss_sched")
	g.store(g.at(g.regs.g), asm.R8)
	g.Add(asm.Mov.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, rules.GoSchedOfG))
	g.read(asm.R3, 16, "ss_badmem")
	g.load(asm.R9, stBuf)
	g.load(asm.R1, stBuf+8)
	g.Add(asm.JEq.Imm(asm.R1, 0, "ss_norule"))
	g.store(g.at(g.regs.ip), asm.R1)
	g.signedHalf(asm.R3, ruleOff2, 0)
	g.Add(asm.Add.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, -8))
	g.read(asm.R3, 16, "ss_badmem") // lr, bp
	known := []int{g.regs.g, g.regs.fp}
	if g.arm {
		g.load(asm.R1, stBuf)
		g.store(g.at(g.regs.ra), asm.R1)
		known = append(known, g.regs.ra)
	}
	g.load(asm.R1, stBuf+8)
	g.store(g.at(g.regs.fp), asm.R1)
	g.Add(asm.LoadImm(asm.R1, int64(-1)<<63, asm.DWord)) // bpfExact
	g.store(stTag, asm.R1)
	g.haveOnly(known...)
	g.load(asm.R8, g.at(g.regs.ip))
	g.enter(asm.R8, asm.R9)
}

// ends notes why there is no caller.
func (g *bpfGen) ends() {
	// A register of those that tables leave out may not be known for that reason.
	g.Label("ss_unknown")
	for _, reg := range g.regs.saved {
		w, _ := wordOf(g.w.Machine, reg)
		g.Add(asm.JEq.Imm(asm.R2, int32(w), "ss_leftout"))
	}
	g.Add(asm.Ja.Label("ss_norule"))
	// A return address that a frame pointer led to and that is no code is not
	// a frame.
	g.Label("ss_unmapped")
	g.load(asm.R1, stTag)
	g.Add(
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
		{"ss_leftout", stack.StopLeftOut},
		{"ss_badmem", stack.StopBadMemory},
		{"ss_loop", stack.StopLoop},
		{"ss_limit", stack.StopLimit},
		{"ss_bottom", stack.StopBottom},
		{"ss_broken", stack.StopUnknown},
	} {
		g.Label(e.label)
		g.Add(asm.Mov.Imm(asm.R1, int32(e.end)))
		if e.label != "ss_broken" {
			g.Add(asm.Ja.Label("ss_end"))
		}
	}
	g.Label("ss_end")
	g.Add(
		asm.StoreMem(asm.R6, stEnd, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
	)
}
