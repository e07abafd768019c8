package insn

// maxLen is the maximum length of an instruction, in bytes. Processors refuse longer ones.
const maxLen = 15

// amd64 is the state of determining an instruction's length. The rules are those of the Intel
// SDM volume 2, chapter 2 and appendix A, and, for AMD's own instructions (3DNow!, SSE4a,
// XOP), of the AMD64 APM volume 3.
type amd64 struct {
	code []byte
	n    int // bytes read so far
	// These are the prefixes.
	opsize, adsize bool // 66, 67
	rep, repne     bool // f3, f2
	lock           bool
	rex            bool
	wide           bool // REX.W and its equivalents: operands of 64 bits
	ret            bool
	bad            bool // unknown instruction
	short          bool // the code is too short
}

// form describes the bytes after an opcode: a combination of parts.
type form uint16

const (
	modRM   form = 1 << iota
	imm8         // 1 byte, and so on
	imm16        //
	imm32        //
	immZ         // 2 bytes with the prefix 66, else 4
	immV         // as immZ, but 8 with REX.W
	immA         // an address: 8 bytes, 4 with the prefix 67
	rel32        // a jump's distance
	regs         // ModRM must name a register
	control      // ModRM names registers, whatever its first two bits are
	group        // ModRM selects between instructions: see grouped
	returns      //
	invalid      //
	none    form = 0
)

// forms maps the letters of the opcode maps to forms.
var forms = [128]form{
	'.': none, 'x': invalid, 'm': modRM, 'b': imm8, 'w': imm16, 'z': immZ, 'v': immV, 'a': immA,
	'r': rel32, 'M': modRM | imm8, 'Z': modRM | immZ, 'g': modRM | group, 'G': modRM | group | imm8,
	'Y': modRM | group | immZ, 'c': modRM | control, 'p': modRM | regs, 'e': imm16 | imm8,
	'R': returns, 'W': returns | imm16,
}

// oneByte and twoByte are the opcode maps without an escape and after 0f, with 16 opcodes per
// string. Prefixes and escapes are x: they are handled before.
const (
	oneByte = "mmmmbzxxmmmmbzxx" + "mmmmbzxxmmmmbzxx" + "mmmmbzxxmmmmbzxx" + "mmmmbzxxmmmmbzxx" +
		"xxxxxxxxxxxxxxxx" + "................" + "xxxmxxxxzZbM...." + "bbbbbbbbbbbbbbbb" +
		"MZxMmmmmmmmmmmmg" + "..........x....." + "aaaa....bz......" + "bbbbbbbbvvvvvvvv" +
		"MMWRxxGYe.w..bx." + "mmmmxxx.mmmmmmmm" + "bbbbbbbbrrxb...." + "x.xx..gg......gg"
	twoByte = "mmmmx.....x.xm.M" + "mmmmmmmmmmmmmmmm" + "ccccxxxxmmmmmmmm" + "......x.xxxxxxxx" +
		"mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "MMMMmmm.mmxxmmmm" +
		"rrrrrrrrrrrrrrrr" + "mmmmmmmmmmmmmmmm" + "...mMmpp...mMmmm" + "mmmmmmmmmmGmmmmm" +
		"mmMmMMMm........" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmx"
)

func decodeAMD64(code []byte) (Inst, error) {
	d := amd64{code: code[:min(len(code), maxLen)]}
	d.operands(d.prefixes())
	switch {
	case d.bad:
		return Inst{}, ErrUnknown
	case d.short && len(code) < maxLen:
		return Inst{}, ErrShort
	case d.short:
		return Inst{}, ErrUnknown // longer than any instruction
	}
	return Inst{d.n, d.ret}, nil
}

// next reads a byte. Beyond the end it returns 0 and sets short.
func (d *amd64) next() byte {
	if d.n >= len(d.code) {
		d.short = true
		return 0
	}
	b := d.code[d.n]
	d.n++
	return b
}

func (d *amd64) skip(n int) {
	if d.n += n; d.n > len(d.code) {
		d.n, d.short = len(d.code), true
	}
}

// prefixes reads the prefixes and the opcode.
func (d *amd64) prefixes() (f form, opcode byte) {
	for {
		b := d.next()
		switch {
		case d.short:
			return invalid, 0
		case b == 0x66:
			d.opsize = true
		case b == 0x67:
			d.adsize = true
		case b == 0xf2:
			d.repne = true
		case b == 0xf3:
			d.rep = true
		case b == 0xf0:
			d.lock = true
		case b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x64 || b == 0x65:
		case b&0xf0 == 0x40:
			d.rex, d.wide = true, b&8 != 0
			continue
		default:
			return d.opcode(b)
		}
		d.rex, d.wide = false, false // REX is only valid directly before the opcode
	}
}

// opcode continues after the prefixes, at byte b.
func (d *amd64) opcode(b byte) (form, byte) {
	switch b {
	case 0x0f:
		return d.escape()
	case 0xc4:
		p := d.next()
		d.next()
		return d.vex(p&0x1f, vexMaps[:])
	case 0xc5:
		d.next()
		return d.vex(1, vexMaps[:])
	case 0x62:
		return d.evex()
	case 0x8f:
		if d.n < len(d.code) && d.code[d.n]&0x1f >= 8 {
			p := d.next()
			d.next()
			return d.vex(p&0x1f, xopMaps[:])
		}
	case 0xd5:
		return d.rex2()
	}
	return forms[oneByte[b]], b
}

func (d *amd64) escape() (form, byte) {
	switch b := d.next(); b {
	case 0x38:
		return modRM, d.next()
	case 0x3a:
		return modRM | imm8, d.next()
	default:
		return d.escaped(b)
	}
}

// escaped returns the form of opcode b after 0f, which may depend on prefixes.
func (d *amd64) escaped(b byte) (form, byte) {
	switch {
	case b == 0x78 && (d.opsize || d.repne): // extrq, insertq: two 8-bit immediates
		return modRM | regs | imm16, b
	case b == 0xb8 && !d.rep: // popcnt without its prefix: a jump to Itanium code
		return invalid, b
	}
	return forms[twoByte[b]], b
}

// vexMaps and xopMaps contain the forms of the opcodes of each map, except for those that vex
// handles.
var (
	vexMaps = [...]form{1: modRM, 2: modRM, 3: modRM | imm8, 5: modRM, 7: modRM | imm32}
	xopMaps = [...]form{8: modRM | imm8, 9: modRM, 10: modRM | imm32}
	// evexMaps also has the legacy instructions of APX (4) and half precision (5, 6).
	evexMaps = [...]form{
		1: modRM, 2: modRM, 3: modRM | imm8, 4: modRM, 5: modRM, 6: modRM,
		7: modRM | imm32,
	}
)

// vex reads the opcode of an instruction with VEX, XOP or EVEX encoding.
func (d *amd64) vex(m byte, maps []form) (form, byte) {
	op := d.next()
	if d.opsize || d.rep || d.repne || d.lock || d.rex || int(m) >= len(maps) || maps[m] == none {
		return invalid, op // these prefixes are part of the encoding
	}
	f := maps[m]
	if m == 1 {
		switch {
		case op == 0x77: // vzeroupper, vzeroall
			f = none
		case op >= 0x70 && op <= 0x73 || op == 0xc2 || op >= 0xc4 && op <= 0xc6:
			f |= imm8
		}
	}
	return f, op
}

// evex reads the three bytes after 62 of an EVEX prefix, and the opcode.
func (d *amd64) evex() (form, byte) {
	m, p := d.next()&7, d.next()
	d.next()
	f, op := d.vex(m, evexMaps[:])
	if m == 1 && op == 0x77 {
		return invalid, op
	}
	if m != 4 || f == invalid {
		return f, op
	}
	// Legacy instructions: the prefix 66 and REX.W are fields of EVEX.
	d.opsize, d.wide = p&3 == 1, p&0x80 != 0
	switch op {
	case 0x24, 0x2c, 0x6b, 0x80, 0x83, 0xc0, 0xc1:
		f |= imm8
	case 0x69, 0x81:
		f |= immZ
	case 0xf6, 0xf7:
		f |= group
	}
	return f, op
}

// rex2 reads the second byte of a REX2 prefix, and the opcode.
func (d *amd64) rex2() (form, byte) {
	p := d.next()
	d.wide = p&8 != 0
	b := d.next()
	if d.rex {
		return invalid, b
	}
	if p&0x80 != 0 {
		if b&0xf0 == 0x30 || b&0xf0 == 0x80 {
			return invalid, b
		}
		return d.escaped(b)
	}
	switch b & 0xf0 {
	case 0x40, 0x70, 0xe0:
		return invalid, b
	case 0xa0:
		if b == 0xa1 { // jmpabs
			return immA, b
		}
		return invalid, b
	}
	switch b {
	case 0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x62, 0x64, 0x65, 0x66, 0x67, 0xc4, 0xc5, 0xd5, 0xf0, 0xf2,
		0xf3:
		return invalid, b
	}
	return forms[oneByte[b]], b
}

// operands reads the bytes after the opcode.
func (d *amd64) operands(f form, op byte) {
	if f&invalid != 0 {
		d.bad = !d.short
		return
	}
	if f&modRM != 0 {
		f = d.modRM(f, op)
	}
	if f&imm8 != 0 {
		d.skip(1)
	}
	if f&imm16 != 0 {
		d.skip(2)
	}
	switch {
	case f&immV != 0 && d.wide, f&immA != 0 && !d.adsize:
		d.skip(8)
	case f&(immV|immZ) != 0 && d.opsize && !d.wide:
		d.skip(2)
	case f&(immV|immZ|immA|imm32|rel32) != 0:
		d.skip(4)
	}
	d.ret = f&returns != 0
	// After the prefix 66, Intel's processors use a 32-bit displacement, AMD's a 16-bit one.
	d.bad = d.bad || f&rel32 != 0 && d.opsize && !d.wide
}

// modRM reads ModRM, SIB and displacement, and determines the form of a group.
func (d *amd64) modRM(f form, op byte) form {
	b := d.next()
	mod, reg, rm := b>>6, b>>3&7, b&7
	if f&group != 0 {
		f = grouped(f, op, reg)
	}
	if f&invalid != 0 || f&regs != 0 && mod != 3 {
		d.bad = !d.short
		return f
	}
	if mod == 3 || f&control != 0 {
		return f
	}
	base := byte(0)
	if rm == 4 {
		base = d.next() & 7
	}
	switch {
	case mod == 1:
		d.skip(1)
	case mod == 2, mod == 0 && (rm == 5 || base == 5):
		d.skip(4)
	}
	return f
}

// grouped returns the form of an opcode that stands for several instructions, by the reg field
// of ModRM.
func grouped(f form, op, reg byte) form {
	switch {
	case op == 0xf6 && reg < 2: // test
		return f | imm8
	case op == 0xf7 && reg < 2:
		return f | immZ
	case op == 0x8f && reg != 0, op == 0xfe && reg > 1, op == 0xff && reg == 7,
		(op == 0xc6 || op == 0xc7) && reg != 0 && reg != 7, op == 0xba && reg < 4:
		return invalid
	}
	return f
}
