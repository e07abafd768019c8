package stack

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/borescope/borescope/stack/internal/rules"
)

// cie is a common information entry: what its FDEs share.
type cie struct {
	codeAlign  uint64
	dataAlign  int64
	ra         uint64
	fdeEnc     uint8
	augmented  bool // FDEs have augmentation data
	signal     bool
	debugFrame bool
	initial    cfiState
}

var (
	errBadCIE = errors.New("malformed CIE")
	errBadCFA = errors.New("malformed call frame instructions")
)

// section compiles one section's FDEs. addr is the address of its first byte.
// An entry that is malformed is counted and left out; a length that leads out
// of the section ends it.
func (b *cfiBuilder) section(data []byte, addr uint64, debugFrame bool) {
	b.cies = make(map[int]*cie)
	b.cieLeft = len(data)
	b.grow(data)
	for pos := 0; pos+4 <= len(data); {
		rd := dwarfReader{b: data, pos: pos}
		n, wide := uint64(rd.u32()), false
		if n == 0 {
			if debugFrame {
				pos += 4
				continue
			}
			return // .eh_frame's terminator
		}
		if n == 0xffffffff {
			n, wide = rd.u64(), true
		}
		body := rd.pos
		if rd.take(n); rd.err != nil {
			b.stats.Bad++
			return
		}
		if b.entry(data[:rd.pos], body, addr, debugFrame, wide); b.full() {
			return
		}
		pos = rd.pos
	}
}

// grow makes room for a section: a function for each entry, and a row for each seven bytes, as
// compilers write them.
func (b *cfiBuilder) grow(data []byte) {
	entries := 0
	for pos := 0; pos+4 <= len(data); {
		n := binary.LittleEndian.Uint32(data[pos:])
		if n == 0xffffffff {
			break // the rest is few, or very large
		}
		if n > 0 {
			entries++
		}
		pos += 4 + int(min(n, uint32(len(data))))
	}
	half := b.left / 2
	rows := int(min(int64(len(data)/7), half/rowCost))
	b.pcs, b.index = slices.Grow(b.pcs, rows), slices.Grow(b.index, rows)
	b.segs = slices.Grow(b.segs, int(min(int64(entries), half/segCost)))
}

// entry compiles the entry whose id is at body and which ends with data, if it
// is an FDE. CIEs are read when an FDE asks for them.
func (b *cfiBuilder) entry(data []byte, body int, addr uint64, debugFrame, wide bool) {
	rd := dwarfReader{b: data, pos: body, narrow: b.narrow()}
	id, cieID := uint64(0), uint64(0)
	switch {
	case debugFrame && wide:
		id, cieID = rd.u64(), ^uint64(0)
	case debugFrame:
		id, cieID = uint64(rd.u32()), 0xffffffff
	default:
		id = uint64(rd.u32())
	}
	if rd.err == nil && id == cieID {
		return
	}
	at := id
	if !debugFrame {
		at = uint64(body) - id
	}
	c := b.cie(data, at, debugFrame)
	if rd.err != nil || c == nil || !b.fde(&rd, c, addr) {
		b.stats.Bad++
		return
	}
	b.stats.FDEs++
}

// cie returns the CIE at an offset of the section, nil if there is none that can be read. Data
// ends with the FDE that asks: CIEs come before their FDEs in .eh_frame, and in
// what compilers write to .debug_frame.
func (b *cfiBuilder) cie(data []byte, at uint64, debugFrame bool) *cie {
	if at >= uint64(len(data)) {
		return nil
	}
	c, ok := b.cies[int(at)]
	if ok {
		return c
	}
	if b.spare == nil {
		b.spare = new(cie)
	}
	if *b.spare = (cie{debugFrame: debugFrame}); b.parseCIE(b.spare, data, int(at), debugFrame) == nil {
		c, b.spare = b.spare, nil
	}
	b.left -= cieCost
	b.cies[int(at)] = c
	return c
}

func (b *cfiBuilder) parseCIE(c *cie, data []byte, at int, debugFrame bool) error {
	rd := dwarfReader{b: data, pos: at}
	n, wide := uint64(rd.u32()), false
	if n == 0xffffffff {
		n, wide = rd.u64(), true
	}
	start := rd.pos
	if rd.take(n); rd.err != nil {
		return rd.err
	}
	// CIEs don't overlap, and each is parsed once. Malformed ones that lie inside each
	// other must not multiply the work.
	if b.cieLeft -= int(n); b.cieLeft < 0 {
		return errBadCIE
	}
	rd = dwarfReader{b: data[:rd.pos], pos: start, narrow: b.narrow()}
	id, want := uint64(rd.u32()), uint64(0)
	if debugFrame {
		want = 0xffffffff
		if wide {
			id |= uint64(rd.u32()) << 32
			want = ^uint64(0)
		}
	}
	version := rd.u8()
	if id != want || version != 1 && version != 3 && version != 4 {
		return errBadCIE
	}
	aug := rd.cstring()
	if version == 4 && (uint64(rd.u8()) != wordSize(b.machine) || rd.u8() != 0) { // address and segment size
		return errBadCIE
	}
	c.codeAlign, c.dataAlign = rd.uleb(), rd.sleb()
	if c.ra = uint64(rd.u8()); version != 1 {
		rd.pos--
		c.ra = rd.uleb()
	}
	if rd.err != nil || c.ra >= numRegs {
		return errBadCIE
	}
	if err := c.augmentation(&rd, aug); err != nil {
		return err
	}
	b.exec.begin(b, c, &cfiState{})
	if err := b.exec.run(rd.b[rd.pos:]); err != nil {
		return err
	}
	c.initial = b.exec.state
	return rd.err
}

func (c *cie) augmentation(rd *dwarfReader, aug string) error {
	if aug == "" || aug == "eh" {
		if aug == "eh" {
			rd.address()
		}
		return rd.err
	}
	if !strings.HasPrefix(aug, "z") {
		return errBadCIE
	}
	c.augmented = true
	body := rd.take(rd.uleb())
	if rd.err != nil {
		return rd.err
	}
	d := dwarfReader{b: body, narrow: rd.narrow}
	for _, ch := range aug[1:] {
		switch ch {
		case 'L':
			d.u8()
		case 'P':
			if _, ok := d.pointer(d.u8()&^ehIndirect, 0, 0); !ok {
				return errBadCIE
			}
		case 'R':
			c.fdeEnc = d.u8()
		case 'S':
			c.signal = true
		case 'B', 'G': // arm64: return addresses signed by key B; memory tags
		default:
			return errBadCIE // what follows cannot be found
		}
	}
	return d.err
}

// fde compiles one FDE: rd is behind the CIE pointer.
func (b *cfiBuilder) fde(rd *dwarfReader, c *cie, addr uint64) bool {
	enc := c.fdeEnc
	if c.debugFrame {
		enc = ehAbs
	}
	start, ok := rd.pointer(enc, addr, 0)
	size, ok2 := rd.pointer(enc&0x0f, 0, 0)
	if !ok || !ok2 {
		return false
	}
	if c.augmented {
		rd.take(rd.uleb())
	}
	if rd.err != nil {
		return false
	}
	if size == 0 || start == 0 && c.debugFrame {
		return true // a function that the linker threw away
	}
	from := start - b.base
	if from > 1<<32-1 || size > 1<<32-1 || from+size > 1<<32-1 {
		return false
	}
	if c.signal && b.machine == elf.EM_386 {
		size++ // in the system call the program counter is behind it, where the vDSO has no rule
	}
	first := len(b.pcs)
	b.exec.begin(b, c, &c.initial)
	b.exec.emit = true
	b.exec.pc, b.exec.rowPC, b.exec.end = uint32(from), uint32(from), uint32(from+size)
	err := b.exec.run(rd.b[rd.pos:])
	if err == nil {
		b.exec.flush(b.exec.end)
	} else {
		// Rows before the malformed instruction are good; the rest is unknown.
		b.exec.state = cfiState{}
		b.exec.flush(b.exec.end)
	}
	if n := len(b.pcs) - first; n > 0 {
		b.segs = append(b.segs, cfiSeg{uint32(from), uint32(from + size), uint32(first), uint32(n)})
	}
	return err == nil
}

// maxRemembered bounds DW_CFA_remember_state; real code nests a few deep.
const maxRemembered = 64

// cfiExec runs call frame instructions.
type cfiExec struct {
	b       *cfiBuilder
	cie     *cie
	state   cfiState
	saved   []cfiState
	pc, end uint32
	rowPC   uint32 // where the state as it is now began to hold
	emit    bool   // rows are wanted: this is an FDE
}

// begin is for instructions that emit no rows; it is set field by field, for there are as many as
// functions.
func (x *cfiExec) begin(b *cfiBuilder, c *cie, state *cfiState) {
	x.b, x.cie, x.saved, x.emit = b, c, x.saved[:0], false
	x.pc, x.rowPC, x.end = 0, 0, 0
	x.state = *state
}

// advance moves on to a new address: what was said so far held up to there.
func (x *cfiExec) advance(to uint64) error {
	if !x.emit || to < uint64(x.pc) || x.b.full() {
		return errBadCFA
	}
	if to >= uint64(x.end) {
		to = uint64(x.end) // rows behind the function's end are of no use
	}
	x.flush(uint32(to))
	x.pc = uint32(to)
	return nil
}

func (x *cfiExec) flush(to uint32) {
	if to <= x.rowPC {
		return
	}
	x.b.pcs = append(x.b.pcs, x.rowPC)
	x.b.index = append(x.b.index, x.b.rule(&x.state, x.cie))
	x.rowPC = to
}

// narrow reports whether addresses have 32 bits.
func (b *cfiBuilder) narrow() bool { return wordSize(b.machine) == 4 }

// rule numbers the rule that a state stands for.
func (b *cfiBuilder) rule(s *cfiState, c *cie) uint16 {
	if s.cfa.Kind == rules.CFANone {
		return 0
	}
	if c.signal && isSignalCFA(b.machine, s.cfa) {
		sig := cfiState{cfa: rules.CFA{Kind: rules.CFASignal, Reg: s.cfa.Reg}}
		if b.machine == elf.EM_386 {
			sig.cfa.Off = s.cfa.Off - rules.I386SigESP
		}
		return b.intern(&sig)
	}
	if ra := rules.ReturnReg(b.machine); c.ra != ra { // put the rule where walkers look
		other := *s
		s = &other
		if s.setReg(ra, s.regs[c.ra]); s.regs[ra].Kind == rules.RegSame {
			s.setReg(ra, rules.RegRule{Kind: rules.RegReg, Reg: uint8(c.ra)})
		}
	}
	id := b.intern(s)
	if id == 0 { // the table is full: keep what is needed to go on
		small := cfiState{cfa: s.cfa}
		for _, n := range neededRegs(b.machine) {
			small.setReg(n, s.regs[n])
		}
		id = b.intern(&small)
	}
	return id
}

func isSignalCFA(m elf.Machine, c rules.CFA) bool {
	switch m {
	case elf.EM_X86_64:
		return c == rules.CFA{Kind: rules.CFADeref, Reg: AMD64RSP, Off: rules.AMD64SigRSP}
	case elf.EM_386: // its trampolines move the stack pointer
		return c.Kind == rules.CFADeref && c.Reg == I386ESP && c.Off2 == 0 && c.Off >= rules.I386SigESP
	}
	return m == elf.EM_AARCH64
}

// Call frame instructions: DWARF 5, 7.24, and GNU's and Arm's additions.
const (
	cfaNop             = 0x00
	cfaSetLoc          = 0x01
	cfaAdvance1        = 0x02
	cfaAdvance2        = 0x03
	cfaAdvance4        = 0x04
	cfaOffsetExt       = 0x05
	cfaRestoreExt      = 0x06
	cfaUndefined       = 0x07
	cfaSameValue       = 0x08
	cfaRegister        = 0x09
	cfaRememberState   = 0x0a
	cfaRestoreState    = 0x0b
	cfaDefCFA          = 0x0c
	cfaDefCFARegister  = 0x0d
	cfaDefCFAOffset    = 0x0e
	cfaDefCFAExpr      = 0x0f
	cfaExpression      = 0x10
	cfaOffsetExtSF     = 0x11
	cfaDefCFASF        = 0x12
	cfaDefCFAOffsetSF  = 0x13
	cfaValOffset       = 0x14
	cfaValOffsetSF     = 0x15
	cfaValExpression   = 0x16
	cfaMIPSAdvance8    = 0x1d
	cfaSignPC          = 0x2c // DW_CFA_AARCH64_negate_ra_state_with_pc
	cfaSign            = 0x2d // DW_CFA_AARCH64_negate_ra_state; GNU_window_save elsewhere
	cfaGNUArgsSize     = 0x2e
	cfaGNUNegOffsetExt = 0x2f
)

func (x *cfiExec) run(ins []byte) error {
	rd := dwarfReader{b: ins}
	for rd.more() {
		op := rd.u8()
		var err error
		switch low := uint64(op & 0x3f); op & 0xc0 {
		case 0x40:
			err = x.advance(uint64(x.pc) + low*x.cie.codeAlign)
		case 0x80:
			err = x.offset(low, int64(rd.uleb()))
		case 0xc0:
			x.restore(low)
		default:
			err = x.op(op, &rd)
		}
		if err != nil {
			return err
		}
	}
	return rd.err
}

func (x *cfiExec) op(op uint8, rd *dwarfReader) error {
	s := &x.state
	switch op {
	case cfaNop, cfaSign, cfaSignPC: // signed return addresses are stripped in any case
	case cfaAdvance1:
		return x.advance(uint64(x.pc) + uint64(rd.u8())*x.cie.codeAlign)
	case cfaAdvance2:
		return x.advance(uint64(x.pc) + uint64(rd.u16())*x.cie.codeAlign)
	case cfaAdvance4:
		return x.advance(uint64(x.pc) + uint64(rd.u32())*x.cie.codeAlign)
	case cfaRestoreExt:
		x.restore(rd.uleb())
	case cfaUndefined:
		s.setReg(rd.uleb(), rules.RegRule{Kind: rules.RegUndef})
	case cfaSameValue:
		s.setReg(rd.uleb(), rules.RegRule{})
	case cfaRegister:
		n, from := rd.uleb(), rd.uleb()
		if from >= numRegs {
			return errBadCFA
		}
		s.setReg(n, rules.RegRule{Kind: rules.RegReg, Reg: uint8(from)})
	case cfaRememberState:
		if len(x.saved) == maxRemembered {
			return errBadCFA
		}
		x.saved = append(x.saved, *s)
	case cfaRestoreState:
		if len(x.saved) == 0 {
			return errBadCFA
		}
		*s = x.saved[len(x.saved)-1]
		x.saved = x.saved[:len(x.saved)-1]
	case cfaGNUArgsSize:
		rd.uleb()
	default:
		if done, err := x.cfaOp(op, rd); done {
			return err
		}
		return x.regOp(op, rd)
	}
	return nil
}

// cfaOp does the instructions that define the CFA.
func (x *cfiExec) cfaOp(op uint8, rd *dwarfReader) (bool, error) {
	switch op {
	case cfaDefCFA:
		reg, off := rd.uleb(), int64(rd.uleb())
		return true, x.defCFA(reg, off)
	case cfaDefCFASF:
		reg, off := rd.uleb(), rd.sleb()*x.cie.dataAlign
		return true, x.defCFA(reg, off)
	case cfaDefCFARegister:
		return true, x.defCFA(rd.uleb(), int64(x.state.base.Off))
	case cfaDefCFAOffset:
		return true, x.defCFA(uint64(x.state.base.Reg), int64(rd.uleb()))
	case cfaDefCFAOffsetSF:
		return true, x.defCFA(uint64(x.state.base.Reg), rd.sleb()*x.cie.dataAlign)
	case cfaDefCFAExpr:
		e := rd.take(rd.uleb())
		if rd.err != nil {
			return true, rd.err
		}
		c, ok := compactCFA(e)
		if !ok {
			c = rules.CFA{Kind: rules.CFAExpr, Off: x.b.expr(e)}
		}
		x.state.cfa = c
		return true, nil
	}
	return false, nil
}

func (x *cfiExec) defCFA(reg uint64, off int64) error {
	if reg >= numRegs || !fitsInt32(off) {
		return errBadCFA
	}
	x.state.base = rules.CFA{Kind: rules.CFAReg, Reg: uint8(reg), Off: int32(off)}
	x.state.cfa = x.state.base
	return nil
}

// regOp does the instructions that say where a register is saved.
func (x *cfiExec) regOp(op uint8, rd *dwarfReader) error {
	switch op {
	case cfaOffsetExt:
		reg := rd.uleb()
		return x.offset(reg, int64(rd.uleb()))
	case cfaOffsetExtSF:
		reg := rd.uleb()
		return x.offset(reg, rd.sleb())
	case cfaGNUNegOffsetExt:
		reg := rd.uleb()
		return x.offset(reg, -int64(rd.uleb()))
	case cfaValOffset, cfaValOffsetSF:
		reg, n := rd.uleb(), int64(0)
		if op == cfaValOffset {
			n = int64(rd.uleb())
		} else {
			n = rd.sleb()
		}
		return x.at(rules.RegCFA, reg, n*x.cie.dataAlign)
	case cfaExpression, cfaValExpression:
		reg, e := rd.uleb(), rd.take(rd.uleb())
		if rd.err != nil {
			return rd.err
		}
		if r, ok := compactReg(e); ok && op == cfaExpression {
			x.state.setReg(reg, r)
			return nil
		}
		kind := rules.RegAtExpr
		if op == cfaValExpression {
			kind = rules.RegValExpr
		}
		x.state.setReg(reg, rules.RegRule{Kind: kind, Off: x.b.expr(e)})
		return nil
	case cfaSetLoc:
		return errBadCFA // no compiler writes it; its pointer needs the section's address
	case cfaMIPSAdvance8:
		return x.advance(uint64(x.pc) + rd.u64()*x.cie.codeAlign)
	}
	return errBadCFA
}

func (x *cfiExec) offset(reg uint64, n int64) error {
	return x.at(rules.RegAtCFA, reg, n*x.cie.dataAlign)
}

func (x *cfiExec) at(kind rules.RegKind, reg uint64, off int64) error {
	if !fitsInt32(off) {
		return errBadCFA
	}
	x.state.setReg(reg, rules.RegRule{Kind: kind, Off: int32(off)})
	return nil
}

func (x *cfiExec) restore(reg uint64) {
	if reg < numRegs {
		x.state.setReg(reg, x.cie.initial.regs[reg])
	}
}
