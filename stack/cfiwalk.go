package stack

import (
	"debug/elf"
	"encoding/binary"
	"math"

	"github.com/borescope/borescope/stack/internal/rules"
)

var _ Walker = (*CFIWalker)(nil)

// CFIWalker walks a stack by call frame information, which stripped binaries of
// distributions have where frame pointers are missing. Code without it (JIT code, embedded
// builtins) is walked by frame pointer until call frame information covers an address
// again. A function with neither, like a few of OpenSSL's in assembly, hides its caller.
// The walk crosses the frames of signal handlers: the frame above one has its exact program
// counter. It ends with
//
//   - StopBottom where the rules say that there is no caller, as in _start and clone, and
//     where a coroutine of makecontext or Boost.Context began;
//   - StopLimit where dst is full;
//   - StopNoMapping where a return address lies in no module;
//   - StopNoRule where no rule covers an address and the frame pointer leads
//     nowhere either;
//   - StopBadMemory where a saved register can't be read;
//   - StopLoop where a frame does not lie further up the stack;
//   - StopCompat where the registers are of 32-bit code of arm;
//   - StopNone where the program counter is not known.
//
// Of 32-bit code that runs on a 64-bit kernel it walks that of i386 (Regs.Machine).
//
// The zero value with Modules set is ready for use.
type CFIWalker struct {
	// Modules are the process's executable mappings.
	Modules *Modules
	// NoFP ends a walk with StopNoRule instead of following frame pointers.
	NoFP bool
	// PACMask is as in FPWalker.
	PACMask uint64
	// Returns are the return addresses that return probes have replaced,
	// innermost first; the walk puts them back. It is borrowed for the walk.
	Returns []ReturnProbe

	regs  Regs
	size  uint64 // of an address
	exact bool   // regs' program counter is not a return address
	// trampoline is set if the last step was from a signal handler's trampoline, to which
	// the kernel returned: there is no call before it.
	trampoline bool
	fp         FPWalker
	expr       exprMachine
	buf        [maxBlock]byte
	one        [8]byte // not buf, which may hold a block meanwhile
	vals       [numRegs]uint64
	lost       uint64 // of a rule's registers, those that can't be restored
}

// ReturnProbe is a return address that a uretprobe replaced while the function runs: the
// kernel's struct return_instance (include/linux/uprobes.h).
type ReturnProbe struct {
	// Stack is the stack pointer at the function's entry: on amd64 and i386 the address of
	// the return address.
	Stack uint64
	// Addr is the address that was replaced.
	Addr uint64
}

// putBack returns the true return address of a function for the one found. cfa
// is the stack pointer after the return.
func (w *CFIWalker) putBack(ret, cfa uint64) uint64 {
	entry := cfa
	if w.regs.Machine != elf.EM_AARCH64 {
		entry -= w.size
	}
	for i := range w.Returns {
		if w.Returns[i].Stack == entry {
			return w.Returns[i].Addr
		}
	}
	return ret
}

// maxBlock is the most that is read of a frame at once: the registers in
// arm64's signal frame.
const maxBlock = 34 * 8

// Registers that a called function keeps.
const (
	amd64Kept = 1<<AMD64RBX | 1<<AMD64RBP | 1<<AMD64RSP | 1<<AMD64R12 | 1<<AMD64R13 | 1<<AMD64R14 |
		1<<AMD64R15 | 1<<AMD64RIP
	i386Kept  = 1<<I386EBX | 1<<I386ESP | 1<<I386EBP | 1<<I386ESI | 1<<I386EDI | 1<<I386EIP
	arm64Kept = (1<<ARM64LR+1<<ARM64LR-1)&^(1<<19-1) | 1<<ARM64SP | 1<<ARM64PC
)

// Walk implements Walker.
func (w *CFIWalker) Walk(dst []Frame, r *Regs, mem Memory) (int, StopReason) {
	w.regs, w.exact, w.size = *r, true, wordSize(r.Machine)
	w.fp.PACMask = w.PACMask
	return walk(dst, r, mem, w)
}

// caller implements stepper.
func (w *CFIWalker) caller(f *Frame, mem Memory) (Frame, StopReason) {
	how, end := w.step(mem)
	f.Return = f.Return && !w.trampoline
	return Frame{PC: w.regs.PC(), Return: !w.exact, Source: how}, end
}

// step goes from a frame to its caller's; StopUnknown means that there is one.
func (w *CFIWalker) step(mem Memory) (FrameSource, StopReason) {
	pc := w.regs.PC()
	at := pc
	var off int32
	if w.trampoline = false; !w.exact && (pc&15 == 0 || w.size == 4) {
		off, w.trampoline = w.isSigreturn(mem, pc)
	}
	if w.trampoline {
		return SourceCFI, w.signal(mem, off)
	}
	if !w.exact {
		at--
	}
	m := w.Modules.Find(at)
	switch {
	case m == nil && w.exact && pc < lowestMapping:
		return SourceGuess, w.calledNothing(mem)
	case m == nil:
		return SourceUnknown, StopNoMapping
	}
	if m.CFI != nil {
		if !w.isFor(m.CFI) {
			return SourceUnknown, StopNoRule // the registers are of another time than the mappings
		}
		if rule := m.CFI.rules.Lookup(at - m.Bias); rule.CFA.Kind != rules.CFANone {
			how := FrameSource(rule.How)
			if how == SourceUnknown {
				how = m.CFI.how
			}
			return how, w.apply(m.CFI, rule, mem)
		}
	}
	if w.size == 4 && m.CFI == nil && m.Name == "[vdso]" {
		return SourceUnknown, StopNoRule // system calls begin there, and keep no frame pointer
	}
	if size, ok := w.epilogue(mem, pc); ok {
		return SourceCFI, w.pop(size, mem)
	}
	return SourceFP, w.byFP(mem)
}

// isFor reports whether a table describes code of the kind that the registers are of: programs of 64 and
// of 32 bits execute each other.
func (w *CFIWalker) isFor(t *CFITable) bool {
	return (t.rules.Machine == elf.EM_386) == (w.regs.Machine == elf.EM_386)
}

// epilogue looks for the end of a function behind a call, which shows where its return
// address is. CPython's trampolines (-X perf) have this, and neither call frame information
// nor a frame pointer.
func (w *CFIWalker) epilogue(mem Memory, pc uint64) (size uint64, ok bool) {
	if w.exact || w.regs.Machine != elf.EM_X86_64 {
		return 0, false
	}
	code, err := w.word(pc, mem)
	size = code >> 24 & 0xff
	return size, err == nil && code&rules.EpilogueMask == rules.EpilogueCode && size&0x87 == 0
}

// pop takes the return address above a frame of that size.
func (w *CFIWalker) pop(size uint64, mem Memory) StopReason {
	at := w.regs.SP() + size
	ret, err := w.word(at, mem)
	switch {
	case err != nil:
		return StopBadMemory
	case ret == 0:
		return StopBottom
	}
	w.regs.Have &= amd64Kept
	w.regs.SetPC(ret)
	w.regs.SetSP(at + 8)
	return StopUnknown
}

// strip removes arm64's pointer authentication code from a return address.
func (w *CFIWalker) strip(ret uint64) uint64 {
	if w.regs.Machine == elf.EM_AARCH64 {
		return stripPAC(ret, w.PACMask)
	}
	return ret
}

// lowestMapping is below what any process maps, whatever vm.mmap_min_addr is:
// addresses there are null pointers, or small offsets from them.
const lowestMapping = 0x1000

// calledNothing returns from a null pointer that was called: as at the entry of a
// function, nothing is pushed but the return address.
func (w *CFIWalker) calledNothing(mem Memory) StopReason {
	r := &w.regs
	ret, ok := r.Reg(ARM64LR)
	if r.Machine != elf.EM_AARCH64 {
		var err error
		ret, err = w.word(r.SP(), mem)
		ok = err == nil
	}
	if ret = w.strip(ret); !ok || w.Modules.Find(ret-1) == nil {
		return StopNoMapping // it was not called, or the caller is unknown
	}
	if r.Machine != elf.EM_AARCH64 {
		r.SetSP(r.SP() + w.size)
	}
	r.SetPC(ret)
	w.exact = false
	return StopUnknown
}

// byFP follows the frame pointer once.
func (w *CFIWalker) byFP(mem Memory) StopReason {
	if w.NoFP {
		return StopNoRule
	}
	fp, ok := w.regs.Reg(w.regs.fpNum())
	if !ok {
		return StopNoRule
	}
	ret, next, end := w.fp.step(w.regs.Machine, mem, fp, w.regs.SP())
	if w.regs.Machine != elf.EM_AARCH64 && end == StopUnknown { // there the stack pointer is not known
		ret = w.putBack(ret, fp+2*w.size)
	}
	switch {
	case end == StopBottom && !w.exact:
		return StopBottom
	case end != StopUnknown, w.Modules.Find(ret-1) == nil:
		return StopNoRule
	}
	w.regs.Have = 0
	w.regs.SetPC(ret)
	w.regs.SetSP(fp + 2*w.size)
	w.regs.SetFP(next)
	w.exact = false
	return StopUnknown
}

// apply unwinds by a rule.
func (w *CFIWalker) apply(t *CFITable, rule *rules.Rule, mem Memory) StopReason {
	r := &w.regs
	switch rule.CFA.Kind {
	case rules.CFASignal:
		return w.signal(mem, rule.CFA.Off)
	case rules.CFALost:
		return StopNoRule
	case rules.CFAGrow:
		return w.grow(&rule.CFA, mem)
	}
	cfa, end := w.cfa(t, rule, mem)
	if end != StopUnknown {
		return end
	}
	sp := r.SP()
	switch {
	case rule.CFA.Kind == rules.CFASwitch:
		sp = 0 // it says nothing about the other stack
	case rule.CFA.Kind == rules.CFAReg && cfa < sp:
		return StopLoop
	case FrameSource(rule.How) == SourceGo:
		sp = 0 // the table has the end of each slot, and slots below the stack pointer
	}
	block := w.readBlock(rule, cfa, sp, mem)
	w.lost = 0
	for i := range rule.Saved {
		s := &rule.Saved[i]
		if w.unknown(s) {
			w.lost |= 1 << s.Num
			continue
		}
		v, end := w.value(t, s, cfa, sp, block, rule.Lo, mem)
		switch {
		case end == StopUnknown:
			w.vals[i] = v
		case w.needed(int(s.Num)):
			return end
		default:
			w.lost |= 1 << s.Num
		}
	}
	return w.enter(rule, cfa)
}

// unknown reports whether a register is computed from one that is not known.
func (w *CFIWalker) unknown(s *rules.SavedReg) bool {
	return (s.Kind == rules.RegReg || s.Kind == rules.RegAtReg) && w.regs.Have&(1<<s.Reg) == 0
}

// needed reports whether a walk ends where a register can't be restored. Of the others few
// rules make use.
func (w *CFIWalker) needed(n int) bool {
	return n == int(rules.ReturnReg(w.regs.Machine)) || n == w.regs.spNum() || n == w.regs.fpNum()
}

// enter puts the values that apply found into the registers.
func (w *CFIWalker) enter(rule *rules.Rule, cfa uint64) StopReason {
	r := &w.regs
	ret := r.R[ARM64LR]
	known := r.Machine == elf.EM_AARCH64 && r.Have&(1<<ARM64LR) != 0
	pcNum, spNum := uint8(r.pcNum()), uint8(r.spNum())
	kept, raNum := uint64(amd64Kept), uint8(rules.ReturnReg(r.Machine))
	switch r.Machine {
	case elf.EM_AARCH64:
		kept = arm64Kept
	case elf.EM_386:
		kept = i386Kept
	}
	r.Have &= kept
	newSP := cfa
	for i := range rule.Saved {
		s := &rule.Saved[i]
		switch {
		case s.Kind == rules.RegUndef:
			if s.Num == raNum {
				return StopBottom
			}
			r.Have &^= 1 << s.Num
			continue
		case w.lost&(1<<s.Num) != 0:
			if s.Num == raNum || s.Num == spNum {
				return StopNoRule
			}
			r.Have &^= 1 << s.Num
			continue
		case s.Num == spNum:
			newSP = w.vals[i]
			continue
		case s.Num == raNum:
			ret, known = w.vals[i], true
		}
		r.R[s.Num] = w.vals[i]
		r.Have |= 1 << s.Num
	}
	if !known {
		return StopNoRule
	}
	if ret = w.strip(ret); ret == 0 {
		return StopBottom
	}
	ret = w.putBack(ret, cfa)
	if newSP == r.R[spNum] && !w.exact { // only a leaf may have no stack of its own
		return StopLoop
	}
	r.R[pcNum], r.R[spNum] = ret, newSP
	r.Have |= 1<<pcNum | 1<<spNum
	w.exact = false
	return StopUnknown
}

// cfa computes the canonical frame address.
func (w *CFIWalker) cfa(t *CFITable, rule *rules.Rule, mem Memory) (uint64, StopReason) {
	c := &rule.CFA
	if c.Kind == rules.CFAExpr {
		v, err := w.expr.eval(t.exprs[c.Off], &w.regs, mem, 0, false)
		return v, endOf(err)
	}
	v, ok := w.regs.Reg(int(c.Reg))
	if !ok {
		return 0, StopNoRule
	}
	v = w.plus(v, c.Off)
	switch c.Kind {
	case rules.CFAIndex:
		i, ok := w.regs.Reg(AMD64R9)
		if !ok {
			return 0, StopNoRule
		}
		word, err := w.word(v+8*i, mem)
		return w.plus(word, c.Off2), endOf(err)
	case rules.CFADeref:
		word, err := w.word(v, mem)
		return w.plus(word, c.Off2), endOf(err)
	case rules.CFAPLT:
		if w.regs.PC()&15 >= uint64(c.Off2) {
			v += 8
		}
	}
	return v, StopUnknown
}

func endOf(err error) StopReason {
	switch err {
	case nil:
		return StopUnknown
	case errBadExpr:
		return StopNoRule
	}
	return StopBadMemory
}

// plus adds an offset to an address.
func (w *CFIWalker) plus(addr uint64, off int32) uint64 {
	addr += uint64(int64(off))
	if w.size == 4 {
		addr = uint64(uint32(addr))
	}
	return addr
}

func (w *CFIWalker) word(addr uint64, mem Memory) (uint64, error) {
	if err := mem.ReadMemory(w.one[:w.size], addr); err != nil {
		return 0, err
	}
	return w.address(w.one[:]), nil
}

// address returns the address that memory begins with.
func (w *CFIWalker) address(b []byte) uint64 {
	if w.size == 4 {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// readBlock reads all slots of a frame at once, which most frames allow.
func (w *CFIWalker) readBlock(rule *rules.Rule, cfa, sp uint64, mem Memory) []byte {
	n := int64(rule.Hi) - int64(rule.Lo)
	lo := cfa + uint64(int64(rule.Lo))
	if n < int64(w.size) || n > maxBlock || lo < sp {
		return nil
	}
	if mem.ReadMemory(w.buf[:n], lo) != nil {
		return nil
	}
	return w.buf[:n]
}

// value restores one register.
func (w *CFIWalker) value(t *CFITable, s *rules.SavedReg, cfa, sp uint64, block []byte, lo int32,
	mem Memory,
) (uint64, StopReason) {
	addr := w.plus(cfa, s.Off)
	switch s.Kind {
	case rules.RegUndef:
		return 0, StopUnknown
	case rules.RegCFA:
		return addr, StopUnknown
	case rules.RegReg:
		return w.regs.R[s.Reg], StopUnknown
	case rules.RegAtCFA:
		if block != nil {
			return w.address(block[s.Off-lo:]), StopUnknown
		}
	case rules.RegAtReg:
		addr = w.plus(w.regs.R[s.Reg], s.Off)
	case rules.RegAtExpr, rules.RegValExpr:
		v, err := w.expr.eval(t.exprs[s.Off], &w.regs, mem, cfa, true)
		if err != nil || s.Kind == rules.RegValExpr {
			return v, endOf(err)
		}
		addr = v
	}
	if addr < sp && int(s.Num) != w.regs.pcNum() && int(s.Num) != w.regs.spNum() {
		// GCC's epilogues do not describe that a register was popped: a slot below the
		// stack pointer is free again, and the register holds its value, if that is known.
		w.lost |= 1 << s.Num &^ w.regs.Have
		return w.regs.R[s.Num], StopUnknown
	}
	v, err := w.word(addr, mem)
	return v, endOf(err)
}

// isSigreturn looks for the instructions of a signal trampoline, to whose first byte
// handlers return, or for the rules of one: core files rarely have programs' code. On i386 off is where
// the registers are.
func (w *CFIWalker) isSigreturn(mem Memory, pc uint64) (off int32, ok bool) {
	if m := w.Modules.Find(pc); m != nil && m.CFI != nil && w.isFor(m.CFI) {
		if cfa := &m.CFI.rules.Lookup(pc - m.Bias).CFA; cfa.Kind == rules.CFASignal {
			return cfa.Off, true
		}
	}
	switch w.regs.Machine {
	case elf.EM_AARCH64:
		// mov x8, #139; svc #0
		return 0, mem.ReadMemory(w.buf[:8], pc) == nil &&
			binary.LittleEndian.Uint64(w.buf[:8]) == 0xd4000001_d2801168
	case elf.EM_386:
		return w.isSigreturn386(mem, pc)
	}
	// mov $15, %rax; syscall
	return 0, mem.ReadMemory(w.buf[:9], pc) == nil &&
		string(w.buf[:9]) == "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
}

func (w *CFIWalker) isSigreturn386(mem Memory, pc uint64) (off int32, ok bool) {
	if mem.ReadMemory(w.buf[:8], pc) != nil {
		return 0, false
	}
	switch {
	case string(w.buf[:8]) == "\x58\xb8\x77\x00\x00\x00\xcd\x80": // pop %eax; mov $119, %eax; int $0x80
		return rules.I386SigContext, true
	case string(w.buf[:7]) == "\xb8\xad\x00\x00\x00\xcd\x80": // mov $173, %eax; int $0x80
		return rules.I386RtSigContext, true
	}
	return 0, false
}

// signal takes all registers from the frame that the kernel pushed. On i386 there are two kinds of them:
// off is where the registers are.
func (w *CFIWalker) signal(mem Memory, off int32) StopReason {
	r := &w.regs
	sp := r.SP()
	if r.Machine == elf.EM_AARCH64 {
		if mem.ReadMemory(w.buf[:rules.ARM64SigLen], sp+rules.ARM64SigRegs) != nil {
			return StopBadMemory
		}
		for i := range rules.ARM64SigLen / 8 { // DWARF numbers follow the kernel's order
			r.R[i] = binary.LittleEndian.Uint64(w.buf[8*i:])
		}
		r.Have = 1<<(rules.ARM64SigLen/8) - 1
	} else if r.Machine == elf.EM_386 {
		b := w.buf[:4*len(rules.I386SigOrder)]
		if mem.ReadMemory(b, sp+uint64(int64(off))+rules.I386SigRegs) != nil {
			return StopBadMemory
		}
		word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(b[4*i:])) }
		// While the kernel leaves a handler it has set the stack pointer, but not yet the rest.
		if cs := word(len(rules.I386SigOrder) - 1); cs&3 != 3 || cs > math.MaxUint16 {
			return StopNoRule
		}
		r.Have = 0
		for i, n := range rules.I386SigOrder {
			if n >= 0 {
				r.Set(n, word(i))
			}
		}
	} else {
		b := w.buf[:8*len(rules.AMD64SigOrder)]
		if mem.ReadMemory(b, sp+rules.AMD64SigRegs) != nil {
			return StopBadMemory
		}
		r.Have = 0
		for i, n := range rules.AMD64SigOrder {
			r.Set(n, binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	w.exact = true
	return StopUnknown
}
