package bpfwalk

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// A rule, as the program reads it: how the CFA is computed, and up to ruleSlots registers
// that are restored.
const (
	ruleCFA     = 0  // uint8: bpfCFA…; in the upper half the words of the block, 0: there is none
	ruleReg     = 1  // uint8: the register's word in the state; above, the flags ruleAny, ruleBottom
	ruleOff2    = 2  // int16
	ruleOff     = 4  // int32
	ruleKeep    = 8  // uint16: registers that have their value still; see maskOf
	ruleSet     = 10 // uint16: registers that are restored
	ruleSlot    = 12 // ruleSlots of them
	ruleSlots   = 7
	bpfRuleSize = ruleSlot + 4*ruleSlots

	ruleAny    = 1 << 6 // saved registers may lie below the stack pointer
	ruleBottom = 1 << 7 // there is no caller

	// A register that is restored. If all are at the CFA and close together, they are sorted
	// by their place, and the program reads them at once: the block.
	slotTarget = 0 // uint8: the byte at which it is in the state; slotNone: there are no more
	slotFrom   = 1 // uint8
	slotOff    = 2 // int16: in words of 8 bytes

	slotNone  = 0xff
	fromCFA   = 1 << 7 // saved at the CFA + off; added to this, the byte of the block
	fromSaved = 1 << 6 // saved at a register + off, else it is register + off
	fromReg   = 1<<6 - 1
	maxBlock  = 15 // words
)

// How the CFA is computed.
const (
	bpfCFANone = iota
	bpfCFAReg
	bpfCFARef
	bpfCFAPLT
	bpfCFASig
	bpfCFAHard // left out: see the package's doc
	bpfCFAOver // as bpfCFAReg, on another stack
	bpfCFAGrow // as Go's descriptor of the goroutine says
	bpfCFAIdx  // as bpfCFARef, with words counted by a register: CFAIndex
	bpfCFABad  // the rule does not say where the return address is
	bpfCFAKind = 15
)

// words are the places of registers in the state, in words. Word newSP comes before the
// kernel's struct.
type words struct {
	ip, sp, fp, ra int
	shift          int // of the masks ruleKeep and ruleSet
	g              int // Go's descriptor of the goroutine
	saved          []uint8
}

// newSP is not a register: the caller's stack pointer, which is the CFA in almost all rules.
const newSP = 0

// savedAMD64 and savedARM64 are the registers that functions keep besides the frame
// pointer: the first is the one that glibc's lazy binding counts from.
var (
	savedAMD64 = []uint8{
		stack.AMD64RBX, stack.AMD64R12, stack.AMD64R13, stack.AMD64R14, stack.AMD64R15,
	}
	savedARM64 = []uint8{19, 20, 21, 22, 23, 24, 25, 26, 27, 28}
)

func wordsOf(m elf.Machine) *words {
	if m == elf.EM_AARCH64 {
		return &words{
			ip: stack.ARM64PC + 1, sp: stack.ARM64SP + 1, fp: stack.ARM64FP + 1,
			ra: stack.ARM64LR + 1, shift: 17, g: 29, saved: savedARM64,
		}
	}
	return &words{ip: 17, sp: 20, fp: 5, ra: 17, g: 2, saved: savedAMD64}
}

// wordOf returns a register's place in the state.
func wordOf(m elf.Machine, reg uint8) (int, bool) {
	if m == elf.EM_AARCH64 {
		return int(reg) + 1, reg <= stack.ARM64PC
	}
	i := slices.Index(rules.KernelEntry[:], int(reg))
	return i + 1, i >= 0
}

// encoder encodes the rules of a table.
type encoder struct {
	m    elf.Machine
	w    *words
	keep uint64 // of w.saved, by DWARF number: what is restored
}

// extraRows is the share of rows that may be added to a table to keep registers, as a
// divisor.
const extraRows = 50

// newEncoder chooses the registers that are restored. All others are not known in the
// caller.
func newEncoder(t *rules.Table) *encoder {
	e := &encoder{m: t.Machine, w: wordsOf(t.Machine)}
	base := make(map[[bpfRuleSize]byte]int)
	ids := make([]int, len(t.Rules))
	for i := range t.Rules {
		r := e.rule(&t.Rules[i])
		id, ok := base[r]
		if !ok {
			id = len(base)
			base[r] = id
		}
		ids[i] = id
	}
	// Rows that differ from the one before in nothing but some of these registers.
	rows, extra := 0, make([]int, 1<<len(e.w.saved))
	last := uint16(0)
	for _, r := range t.Rows.Index {
		if ids[r] != ids[last] {
			rows++
		} else {
			extra[e.differing(&t.Rules[last], &t.Rules[r])]++
		}
		last = r
	}
	var chosen int
	for _, bit := range e.order(t) {
		try, n := chosen|bit, 0
		for mask := range extra {
			if mask&try != 0 {
				n += extra[mask]
			}
		}
		if n <= rows/extraRows {
			chosen = try
		}
	}
	for i, reg := range e.w.saved {
		if chosen>>i&1 != 0 {
			e.keep |= 1 << reg
		}
	}
	return e
}

// differing returns which registers two rules restore in different ways.
func (e *encoder) differing(a, b *rules.Rule) (mask int) {
	for i, reg := range e.w.saved {
		if savedRule(a, reg) != savedRule(b, reg) {
			mask |= 1 << i
		}
	}
	return mask
}

func savedRule(r *rules.Rule, reg uint8) rules.RegRule {
	for i := range r.Saved {
		if r.Saved[i].Num == reg {
			return r.Saved[i].RegRule
		}
	}
	return rules.RegRule{}
}

// order returns bits of the registers, by their places in w.saved: first those that the
// table's own rules use.
func (e *encoder) order(t *rules.Table) (bits []int) {
	var used uint64
	for i := range t.Rules {
		r := &t.Rules[i]
		if r.CFA.Kind != rules.CFAExpr {
			used |= 1 << r.CFA.Reg
		}
		for _, s := range r.Saved {
			if s.Kind == rules.RegReg || s.Kind == rules.RegAtReg {
				used |= 1 << s.Reg
			}
		}
	}
	for _, want := range []uint64{1, 0} {
		for i, reg := range e.w.saved {
			if used>>reg&1 == want {
				bits = append(bits, 1<<i)
			}
		}
	}
	return bits
}

var cfaKinds = [...]uint8{
	rules.CFANone: bpfCFANone, rules.CFAReg: bpfCFAReg, rules.CFADeref: bpfCFARef,
	rules.CFAIndex: bpfCFAIdx, rules.CFAPLT: bpfCFAPLT, rules.CFASwitch: bpfCFAOver,
	rules.CFAGrow: bpfCFAGrow, rules.CFASignal: bpfCFASig, rules.CFAExpr: bpfCFAHard,
}

// rule keeps of a rule what the program needs.
func (e *encoder) rule(r *rules.Rule) (b [bpfRuleSize]byte) {
	kind := cfaKinds[r.CFA.Kind]
	only := [bpfRuleSize]byte{ruleCFA: kind}
	if kind == bpfCFANone || kind == bpfCFASig || kind == bpfCFAHard {
		return only
	}
	reg, ok := wordOf(e.m, r.CFA.Reg)
	slots, flags, ok2 := e.slots(r)
	switch {
	case !ok || !ok2 || int32(int16(r.CFA.Off2)) != r.CFA.Off2,
		kind == bpfCFAIdx && e.m == elf.EM_AARCH64:
		return [bpfRuleSize]byte{ruleCFA: bpfCFAHard}
	case kind != bpfCFAGrow && e.m != elf.EM_AARCH64 && flags&ruleBottom == 0 &&
		!slices.ContainsFunc(slots, func(s slot) bool { return s.target == e.w.ra }):
		return [bpfRuleSize]byte{ruleCFA: bpfCFABad}
	}
	o := binary.NativeEndian
	b[ruleCFA] = kind | uint8(block(slots))<<4
	b[ruleReg] = uint8(reg) | flags
	o.PutUint16(b[ruleOff2:], uint16(r.CFA.Off2))
	o.PutUint32(b[ruleOff:], uint32(r.CFA.Off))
	keep, set := e.masks(r, slots)
	o.PutUint16(b[ruleKeep:], keep)
	o.PutUint16(b[ruleSet:], set)
	for i := range ruleSlots {
		at := b[ruleSlot+4*i:]
		at[slotTarget] = slotNone
		if i < len(slots) {
			at[slotTarget], at[slotFrom] = uint8(8*slots[i].target), slots[i].from
			o.PutUint16(at[slotOff:], uint16(slots[i].off))
		}
	}
	return b
}

// slot is a register that a rule restores.
type slot struct {
	target int
	from   uint8
	off    int16
	must   bool // without it the walk can't go on
}

// slots returns the registers that a rule restores, those first without which there is no
// caller. It reports whether the program can do that.
func (e *encoder) slots(r *rules.Rule) (slots []slot, flags uint8, ok bool) {
	if r.CFA.Kind == rules.CFASwitch || stack.FrameSource(r.How) == stack.SourceGo {
		flags = ruleAny // see CFIWalker.apply
	}
	for i := range r.Saved {
		s := &r.Saved[i]
		w, known := wordOf(e.m, s.Num)
		switch {
		case !known:
			continue
		case w == e.w.ra && s.Kind == rules.RegUndef:
			flags |= ruleBottom
			continue
		case s.Kind == rules.RegUndef:
			continue
		}
		must := w == e.w.ra || w == e.w.sp || w == e.w.fp
		if !must && e.keep>>s.Num&1 == 0 {
			continue
		}
		one, can := e.slot(&s.RegRule)
		if !can && must {
			return nil, flags, false
		}
		if one.target, one.must = w, must; w == e.w.sp {
			one.target = newSP
		}
		if can {
			slots = append(slots, one)
		}
	}
	slices.SortStableFunc(slots, func(a, b slot) int {
		return cmp.Compare(btoi(b.must), btoi(a.must))
	})
	return slots[:min(len(slots), ruleSlots)], flags, true
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// slot encodes how one register is restored, if the program can do that.
func (e *encoder) slot(r *rules.RegRule) (s slot, ok bool) {
	if r.Off%8 != 0 || r.Off/8 < math.MinInt16 || r.Off/8 > math.MaxInt16 {
		return s, false
	}
	s.off = int16(r.Off / 8)
	reg, ok := wordOf(e.m, r.Reg)
	switch r.Kind {
	case rules.RegAtCFA:
		s.from, ok = fromCFA, true
	case rules.RegCFA:
		s.from, ok = uint8(newSP), true
	case rules.RegReg:
		s.from, s.off = uint8(reg), 0
	case rules.RegAtReg:
		s.from = fromSaved | uint8(reg)
	default:
		return s, false
	}
	return s, ok
}

// block sorts slots that can be read at once, and returns the number of words to read; 0 if
// they can't.
func block(slots []slot) int {
	for i := range slots {
		if slots[i].from != fromCFA {
			return 0
		}
	}
	if len(slots) == 0 {
		return 0
	}
	byOff := func(a, b slot) int { return cmp.Compare(a.off, b.off) }
	lo, hi := slices.MinFunc(slots, byOff).off, slices.MaxFunc(slots, byOff).off
	n := int(hi) - int(lo) + 1
	if n > maxBlock {
		return 0
	}
	slices.SortStableFunc(slots, byOff)
	for i := range slots {
		slots[i].from |= uint8(slots[i].off-lo) << 3
	}
	return n
}

// masks returns which registers have their value still in the caller, and which are
// restored.
func (e *encoder) masks(r *rules.Rule, slots []slot) (keep, set uint16) {
	bit := func(w int) uint16 { return uint16(uint64(1) << w >> e.w.shift) }
	keep = bit(e.w.fp)
	if e.m == elf.EM_AARCH64 {
		keep |= bit(e.w.ra)
	}
	for _, reg := range e.w.saved {
		if e.keep>>reg&1 != 0 {
			w, _ := wordOf(e.m, reg)
			keep |= bit(w)
		}
	}
	for i := range r.Saved {
		if w, ok := wordOf(e.m, r.Saved[i].Num); ok {
			keep &^= bit(w)
		}
	}
	for i := range slots {
		if w := slots[i].target; w != newSP {
			set |= bit(w)
		}
	}
	return keep, set
}

// projectRows leaves out what the program does not restore: rows that differ only in that
// become one.
func projectRows(t *rules.Table, rules []uint16) (pcs []uint32, index []uint16) {
	n := len(t.Rows.Offs)
	pcs, index = make([]uint32, 0, n), make([]uint16, 0, n)
	for pc, rule := range t.Rows.All() {
		r := rules[rule]
		if n := len(index); n > 0 && index[n-1] == r {
			continue
		}
		pcs = append(pcs, pc)
		index = append(index, r)
	}
	return pcs, index
}
