package usdt

import "debug/elf"

// arm parses an operand of arm64 or arm: "x0", "5", "#5", "[sp, 16]",
// "[x0, x1, lsl 3]", "[x0, #:lo12:sym]", "sym".
func (p *parser) arm(a *Arg) error {
	c := p.peek()
	switch {
	case c == '[':
		p.i++
		a.Kind = KindMem
		return p.armMemory(a)
	case c == '#':
		p.i++
		return p.constant(a)
	case isDigit(c) || c == '-':
		return p.constant(a)
	case isSymbol(c, true):
		start := p.i
		name := p.word()
		if r, ok := armRegister(a, name); ok {
			a.Kind, a.Reg = KindReg, r
			if r == zeroRegister {
				a.Operand = Operand{Kind: KindConst}
			}
			return nil
		}
		p.i = start
		a.Kind = KindAddr
		if a.Float {
			a.Kind = KindMem // an address is no floating point value
		}
		return p.expression(&a.Addr)
	}
	return p.errorf("want an operand")
}

// word reads a name without interpreting it.
func (p *parser) word() string {
	start := p.i
	for !p.end() && isSymbol(p.peek(), p.i == start) {
		p.i++
	}
	return p.s[start:p.i]
}

// armMemory parses the text after "[".
func (p *parser) armMemory(a *Arg) error {
	start := p.i
	base, ok := armGeneral(a.Machine, p.word())
	if !ok || base == zeroRegister {
		return p.errorAt(start, "not a base register")
	}
	a.Addr.Base = base
	if p.take(',') {
		p.skipSpace()
		if err := p.armOffset(a); err != nil {
			return err
		}
	}
	return p.expect(']')
}

// armOffset parses a number, a part of a symbol's address, or an index.
func (p *parser) armOffset(a *Arg) error {
	p.take('#')
	c := p.peek()
	if c == ':' {
		return p.armPart(a)
	}
	if c == '-' && p.i+1 < len(p.s) && !isDigit(p.s[p.i+1]) {
		p.i++
		a.Addr.IndexSub = true
	} else if isDigit(c) || c == '-' {
		v, err := p.number()
		a.Addr.Disp = v
		return err
	}
	start := p.i
	index, ok := armGeneral(a.Machine, p.word())
	if !ok {
		return p.errorAt(start, "not an index register")
	}
	if index != zeroRegister {
		a.Addr.Index, a.Addr.Scale = index, 1
	}
	if !p.take(',') {
		return nil
	}
	p.skipSpace()
	return p.armShift(a)
}

// armShift parses "lsl 3" or "sxtw #2" of an index.
func (p *parser) armShift(a *Arg) error {
	start := p.i
	switch p.word() {
	case "lsl", "uxtw":
	case "sxtw", "sxtx":
		a.Addr.IndexSigned = true
	default:
		return p.errorAt(start, "unknown shift of an index")
	}
	p.skipSpace()
	if p.peek() == ']' {
		return nil
	}
	p.take('#')
	c := p.peek()
	if c < '0' || c > '4' {
		return p.errorf("shift is not 0 to 4")
	}
	p.i++
	if a.Addr.Index.Ok() {
		a.Addr.Scale = 1 << (c - '0')
	}
	return nil
}

// armPart parses ":lo12:sym+4": ELF for the Arm 64-bit Architecture, section
// 5.7, and the assembler's names for its relocations.
func (p *parser) armPart(a *Arg) error {
	start := p.i
	p.take(':')
	name := p.word()
	if err := p.expect(':'); err != nil {
		return err
	}
	if err := p.expression(&a.Addr); err != nil {
		return err
	}
	if a.Addr.Symbol == "" {
		return p.errorf("want a symbol")
	}
	switch name {
	case "lo12":
		a.Addr.Reloc = relocLo12
	case "got_lo12", "gotpage_lo15":
		// The base register holds the slot's page, which is not needed because the slot's
		// address is known.
		a.Addr.Reloc, a.Addr.Base = relocGOT, Reg{}
	case "tprel_lo12", "tprel_lo12_nc":
		a.Addr.Reloc = relocTPLo12
	case "gottprel_lo12", "tlsdesc_lo12", "dtprel_lo12", "dtprel_lo12_nc":
		a.Addr.Reloc = relocGOTTP
	default:
		return p.errorAt(start, "unknown modifier %q", name)
	}
	return nil
}

// zeroRegister stands for xzr and wzr, which read as 0.
var zeroRegister = Reg{Num: -1, Bytes: 8}

// armRegister parses a register that may hold a value. Functions may have the names of SIMD
// registers too ("b4"). Compilers print vN for any width, so the narrow names are taken as
// registers only if the argument has their size.
func armRegister(a *Arg, name string) (Reg, bool) {
	if r, ok := armGeneral(a.Machine, name); ok {
		return r, true
	}
	if len(name) < 2 {
		return Reg{}, false
	}
	n, rest := numbered(name, name[:1])
	if n < 0 || n > 31 || rest != "" {
		return Reg{}, false
	}
	size := 0
	switch name[0] {
	case 'b':
		size = 1
	case 'h':
		size = 2
	case 's':
		size = 4
	case 'd':
		size = 8
	case 'q':
		size = 16
	case 'v':
		if a.Machine == elf.EM_AARCH64 {
			return Reg{Num: 64 + n, Bytes: 16, Class: classVector}, true
		}
	}
	if size == 0 || size != a.Size {
		return Reg{}, false
	}
	num := 64 + n // AADWARF64, section 4.1; AADWARF32's s0 … s31
	if a.Machine == elf.EM_ARM && (size == 8 || size == 16) {
		num = 256 + n*int16(size/8) // d0 … d31, and q0 … q15 in pairs of them
	}
	return Reg{Num: num, Bytes: uint8(size), Class: classVector}, true
}

// armGeneral parses a general register: AADWARF64 and AADWARF32, section 4.1.
func armGeneral(machine elf.Machine, name string) (Reg, bool) {
	if machine == elf.EM_ARM {
		return arm32General(name)
	}
	switch name {
	case "sp":
		return Reg{Num: 31, Bytes: 8}, true
	case "wsp":
		return Reg{Num: 31, Bytes: 4}, true
	case "lr":
		return Reg{Num: 30, Bytes: 8}, true
	case "fp":
		return Reg{Num: 29, Bytes: 8}, true
	case "xzr", "wzr":
		return zeroRegister, true
	}
	if n, rest := numbered(name, "x"); n >= 0 && n <= 30 && rest == "" {
		return Reg{Num: n, Bytes: 8}, true
	}
	if n, rest := numbered(name, "w"); n >= 0 && n <= 30 && rest == "" {
		return Reg{Num: n, Bytes: 4}, true
	}
	return Reg{}, false
}

func arm32General(name string) (Reg, bool) {
	num := int16(-1)
	switch name {
	case "sb":
		num = 9
	case "sl":
		num = 10
	case "fp":
		num = 11
	case "ip":
		num = 12
	case "sp":
		num = 13
	case "lr":
		num = 14
	case "pc":
		num = 15
	default:
		if n, rest := numbered(name, "r"); n >= 0 && n <= 15 && rest == "" {
			num = n
		}
	}
	return Reg{Num: num, Bytes: 4}, num >= 0
}
