package stack

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/borescope/borescope/stack/internal/rules"
)

// ORCTable is ORC data in a form to walk by: sorted addresses, and each distinct rule once,
// six bytes an entry. It is immutable and safe for concurrent use.
type ORCTable struct {
	base  uint64
	pcs   []uint32
	index []uint16
	rules []rules.ORC
	// Start and End bound the addresses that the table covers; End is exclusive.
	Start, End uint64
}

// Table returns the entries for addresses from start to end, the kernel's or the module's
// text, ready to walk by. address returns where a module's section was loaded
// (/sys/module/NAME/sections); entries of sections for which it returns false are left out.
// It is not used for a kernel, and may be nil. slide is the offset that KASLR added to a
// kernel's addresses.
func (o *ORCFile) Table(start, end, slide uint64,
	address func(section string) (uint64, bool),
) *ORCTable {
	type row struct {
		addr uint64
		rule rules.ORC
	}
	var rows []row
	for e := range o.All() {
		addr := e.Addr + slide
		if e.Section != "" {
			at, ok := uint64(0), false
			if address != nil {
				at, ok = address(e.Section)
			}
			if !ok {
				continue
			}
			addr = e.Addr + at
		}
		if addr >= start && addr < end {
			rows = append(rows, row{addr, e.Rule})
		}
	}
	// The last of several entries for one address counts; the entry that ends a function
	// comes first (scripts/sorttable.h, orc_sort_cmp).
	ends := func(r row) int {
		if r.rule.SP == rules.ORCUndefined && r.rule.Type != rules.ORCTypeEnd {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(ends(a), ends(b)))
	})
	t := &ORCTable{base: start, Start: start, End: end}
	ids := make(map[rules.ORC]uint16)
	for _, r := range rows {
		if r.addr-start > 1<<32-1 || len(ids) == rules.MaxRules {
			continue
		}
		id, ok := ids[r.rule]
		if !ok {
			id = uint16(len(t.rules))
			ids[r.rule] = id
			t.rules = append(t.rules, r.rule)
		}
		if n := len(t.pcs); n > 0 && t.pcs[n-1] == uint32(r.addr-start) {
			t.index[n-1] = id
			continue
		}
		t.pcs = append(t.pcs, uint32(r.addr-start))
		t.index = append(t.index, id)
	}
	return t
}

// Rule returns the rule for an address, if the table has one.
func (t *ORCTable) Rule(addr uint64) (ORCRule, bool) {
	r, ok := t.lookup(addr)
	if !ok {
		return rules.ORC{}, false
	}
	return *r, true
}

// lookup returns the rule for an address.
func (t *ORCTable) lookup(addr uint64) (*rules.ORC, bool) {
	if addr < t.Start || addr >= t.End {
		return nil, false
	}
	i, found := slices.BinarySearch(t.pcs, uint32(addr-t.base))
	if !found {
		i--
	}
	if i < 0 {
		return nil, false
	}
	return &t.rules[t.index[i]], true
}

var _ Walker = (*ORCWalker)(nil)

// ORCWalker walks kernel stacks of amd64 by ORC, as the kernel itself does
// (arch/x86/kernel/unwind_orc.c). It crosses interrupts, exceptions and changes between the
// kernel's stacks, up to the user's registers or the bottom of a kernel thread's stack,
// which are both StopBottom. Code that no table covers (BPF programs) is walked by frame
// pointer, as in the kernel.
//
// Return addresses that a kretprobe or the function graph tracer replaced are returned as
// they are unless Return is set.
type ORCWalker struct {
	// Tables are the kernel's and the modules'.
	Tables []*ORCTable
	// Return, if set, returns the true return address for addr, found in the stack at
	// address slot: it undoes recorded kretprobes.
	Return func(addr, slot uint64) uint64

	regs  Regs
	exact bool
	buf   [rules.AMD64Regs]byte
}

// The rules that the kernel uses where there is no entry: for a call of a null pointer, and
// for other code.
var (
	orcNull = rules.ORC{SP: rules.ORCSP, SPOffset: 8, Type: rules.ORCTypeCall}
	orcFP   = rules.ORC{
		SP: rules.ORCBP, SPOffset: 16, BP: rules.ORCPrevSP, BPOffset: -16,
		Type: rules.ORCTypeCall,
	}
)

// Walk implements Walker.
func (w *ORCWalker) Walk(dst []Frame, r *Regs, mem Memory) (int, StopReason) {
	if r.Machine != elf.EM_X86_64 {
		return 0, StopNone
	}
	w.regs, w.exact = *r, true
	return walk(dst, r, mem, w)
}

// caller implements stepper.
func (w *ORCWalker) caller(_ *Frame, mem Memory) (Frame, StopReason) {
	how, end := w.step(mem)
	return Frame{PC: w.regs.R[AMD64RIP], Return: !w.exact, Source: how}, end
}

func (w *ORCWalker) rule(pc uint64) (*rules.ORC, FrameSource) {
	if pc == 0 {
		return &orcNull, SourceGuess
	}
	if !w.exact {
		pc--
	}
	for _, t := range w.Tables {
		if r, ok := t.lookup(pc); ok {
			return r, SourceORC
		}
	}
	return &orcFP, SourceFP
}

func (w *ORCWalker) step(mem Memory) (FrameSource, StopReason) {
	rule, how := w.rule(w.regs.PC())
	switch rule.Type {
	case rules.ORCTypeEnd:
		return how, StopBottom
	case rules.ORCTypeCall, rules.ORCTypeRegs, rules.ORCTypeRegsPartial:
	default:
		return how, StopNoRule
	}
	cfa, end := w.cfa(rule, mem)
	if end != StopUnknown {
		return how, end
	}
	bp, known := w.regs.Reg(AMD64RBP)
	oldSP := w.regs.SP()
	if end := w.enter(rule, cfa, mem); end != StopUnknown {
		return how, end
	}
	switch rule.BP {
	case rules.ORCUndefined: // unchanged, or in the registers just read
		if rule.Type == rules.ORCTypeCall && known || rule.Type == rules.ORCTypeRegsPartial && known {
			w.regs.SetFP(bp)
		}
	case rules.ORCPrevSP, rules.ORCBP:
		addr := cfa
		if rule.BP == rules.ORCBP {
			addr = bp
		}
		v, ok := w.word(addr+uint64(int64(rule.BPOffset)), mem)
		if !ok {
			return how, StopBadMemory
		}
		w.regs.SetFP(v)
	default:
		return how, StopNoRule
	}
	// On one stack it only goes up; stacks are 16 KiB, aligned.
	if sp := w.regs.SP(); sp <= oldSP && sp/rules.ThreadSize == oldSP/rules.ThreadSize {
		return how, StopLoop
	}
	if w.regs.PC() < 1<<63 && w.regs.PC() != 0 {
		return how, StopNoMapping
	}
	return how, StopUnknown
}

// cfa computes the stack pointer before the call, or where the registers are.
func (w *ORCWalker) cfa(rule *rules.ORC, mem Memory) (uint64, StopReason) {
	reg, indirect := 0, false
	off := uint64(int64(rule.SPOffset))
	switch rule.SP {
	case rules.ORCSP:
		reg = AMD64RSP
	case rules.ORCBP:
		reg = AMD64RBP
	case rules.ORCSPIndirect:
		reg, indirect = AMD64RSP, true
	case rules.ORCBPIndirect:
		reg, indirect = AMD64RBP, true
	case rules.ORCR10:
		reg, off = AMD64R10, 0
	case rules.ORCR13:
		reg, off = AMD64R13, 0
	case rules.ORCDI:
		reg, off = AMD64RDI, 0
	case rules.ORCDX:
		reg, off = AMD64RDX, 0
	case rules.ORCAX:
		reg, off = AMD64RAX, 0
	default:
		return 0, StopNoRule
	}
	v, ok := w.regs.Reg(reg)
	if !ok {
		return 0, StopNoRule
	}
	if !indirect {
		return v + off, StopUnknown
	}
	if rule.SP == rules.ORCBPIndirect { // *(bp + offset); *(sp) + offset
		v, off = v+off, 0
	}
	word, ok := w.word(v, mem)
	if !ok {
		return 0, StopBadMemory
	}
	return word + off, StopUnknown
}

// enter goes to the caller, or to what was interrupted.
func (w *ORCWalker) enter(rule *rules.ORC, cfa uint64, mem Memory) StopReason {
	switch rule.Type {
	case rules.ORCTypeCall:
		ip, ok := w.word(cfa-8, mem)
		if !ok {
			return StopBadMemory
		}
		if w.Return != nil {
			ip = w.Return(ip, cfa-8)
		}
		w.regs.Have = 0
		w.regs.SetPC(ip)
		w.regs.SetSP(cfa)
	case rules.ORCTypeRegs:
		if mem.ReadMemory(w.buf[:], cfa) != nil {
			return StopBadMemory
		}
		if binary.LittleEndian.Uint64(w.buf[rules.AMD64RegsCS:])&3 != 0 {
			return StopBottom // the user's registers
		}
		for i, n := range rules.KernelEntry {
			if n >= 0 {
				w.regs.Set(n, binary.LittleEndian.Uint64(w.buf[8*i:]))
			}
		}
	case rules.ORCTypeRegsPartial:
		if mem.ReadMemory(w.buf[:40], cfa) != nil { // ip, cs, flags, sp, ss
			return StopBadMemory
		}
		if binary.LittleEndian.Uint64(w.buf[8:])&3 != 0 {
			return StopBottom
		}
		w.regs.SetPC(binary.LittleEndian.Uint64(w.buf[:]))
		w.regs.SetSP(binary.LittleEndian.Uint64(w.buf[24:]))
	}
	// Layout 1 has it in the type; the others have a bit for the entry code, where it
	// differs.
	w.exact = rule.Signal
	return StopUnknown
}

func (w *ORCWalker) word(addr uint64, mem Memory) (uint64, bool) {
	err := mem.ReadMemory(w.buf[:8], addr)
	return binary.LittleEndian.Uint64(w.buf[:8]), err == nil
}
