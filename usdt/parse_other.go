package usdt

// riscv parses an operand of riscv64: "a0", "5", "-20(s0)", "%lo(sym)(a5)",
// "sym".
func (p *parser) riscv(a *Arg) error {
	if p.peek() == '%' {
		return p.riscvPart(a)
	}
	if c := p.peek(); isSymbol(c, true) {
		start := p.i
		if r, ok := riscvRegister(p.word()); ok {
			a.Kind, a.Reg = KindReg, r
			if r == zeroRegister {
				a.Operand = Operand{Kind: KindConst}
			}
			return nil
		}
		p.i = start
		return p.bareSymbol(a)
	}
	return p.displaced(a, riscvRegister)
}

// riscvPart parses "%lo(sym+4)(a5)": the psABI's assembler modifiers.
func (p *parser) riscvPart(a *Arg) error {
	start := p.i
	p.take('%')
	name := p.word()
	if err := p.expect('('); err != nil {
		return err
	}
	a.Kind = KindMem
	if err := p.expression(&a.Addr); err != nil {
		return err
	}
	if err := p.expect(')'); err != nil {
		return err
	}
	switch name {
	case "lo":
		a.Addr.Reloc = relocLoSext
	case "pcrel_lo":
		// Its symbol is a label at another instruction.
		a.Kind, a.Reason = KindUnknown, ReasonLabel
	case "tprel_lo":
		a.Kind, a.Reason = KindUnknown, ReasonTLS
	default:
		return p.errorAt(start, "unknown modifier %q", name)
	}
	return p.base(a, riscvRegister)
}

// riscvRegister returns the general or floating point register of that name: RISC-V DWARF
// specification, section "DWARF Register Numbers".
func riscvRegister(name string) (Reg, bool) {
	num := int16(-1)
	switch name {
	case "zero", "x0":
		return zeroRegister, true
	case "ra":
		num = 1
	case "sp":
		num = 2
	case "gp":
		num = 3
	case "tp":
		num = 4
	case "fp":
		num = 8
	}
	if n, rest := numbered(name, "a"); n >= 0 && n <= 7 && rest == "" {
		num = 10 + n
	}
	if n, rest := numbered(name, "s"); n >= 0 && n <= 11 && rest == "" {
		if num = 8 + n; n > 1 {
			num = 16 + n
		}
	}
	if n, rest := numbered(name, "t"); n >= 0 && n <= 6 && rest == "" {
		if num = 5 + n; n > 2 {
			num = 25 + n
		}
	}
	if n, rest := numbered(name, "x"); n >= 1 && n <= 31 && rest == "" {
		num = n
	}
	if num >= 0 {
		return Reg{Num: num, Bytes: 8}, true
	}
	return riscvFloat(name)
}

func riscvFloat(name string) (Reg, bool) {
	num := int16(-1)
	if n, rest := numbered(name, "fa"); n >= 0 && n <= 7 && rest == "" {
		num = 10 + n
	}
	if n, rest := numbered(name, "fs"); n >= 0 && n <= 11 && rest == "" {
		if num = 8 + n; n > 1 {
			num = 16 + n
		}
	}
	if n, rest := numbered(name, "ft"); n >= 0 && n <= 11 && rest == "" {
		if num = n; n > 7 {
			num = 20 + n
		}
	}
	if n, rest := numbered(name, "f"); n >= 0 && n <= 31 && rest == "" {
		num = n
	}
	return Reg{Num: 32 + num, Bytes: 8, Class: classVector}, num >= 0
}

// ppc parses an operand of ppc64: "9" and "%r9" are registers, "i5" is a
// constant (systemtap's "%I[id]" template), "-8(31)" and "9,8" are memory.
func (p *parser) ppc(a *Arg) error {
	c := p.peek()
	if c == 'i' && p.i+1 < len(p.s) && (isDigit(p.s[p.i+1]) || p.s[p.i+1] == '-') {
		p.i++
		return p.constant(a)
	}
	start := p.i
	if r, ok := p.ppcRegister(); ok && p.peek() != '(' && p.peek() != '@' && p.peek() != '+' {
		a.Kind, a.Reg = KindReg, r
		if !p.take(',') {
			return nil
		}
		at := p.i
		index, ok := p.ppcRegister()
		if !ok || index.Class != ClassGeneral || r.Class != ClassGeneral {
			return p.errorAt(at, "not an index register")
		}
		a.Kind, a.Reg = KindMem, Reg{}
		a.Addr.Base, a.Addr.Index, a.Addr.Scale = r, index, 1
		if r.Num == 0 { // the instruction set reads r0 as 0 there
			a.Addr.Base = Reg{}
		}
		return nil
	}
	p.i = start
	if isSymbol(c, true) {
		if err := p.bareSymbol(a); err != nil || p.peek() != '(' {
			return err
		}
		// "sym@toc@l(9)": register and offset make up the symbol's address.
		a.Kind = KindMem
		err := p.base(a, ppcNamed)
		a.Addr.Base = Reg{}
		return err
	}
	return p.displaced(a, ppcNamed)
}

// ppcRegister parses a register's name or bare number.
func (p *parser) ppcRegister() (Reg, bool) {
	p.take('%')
	start := p.i
	for !p.end() && isSymbol(p.peek(), false) {
		p.i++
	}
	return ppcNamed(p.s[start:p.i])
}

// ppcNamed returns the register of that name: Power Architecture 64-bit ELF V2 ABI, table 2.33.
func ppcNamed(name string) (Reg, bool) {
	if n, rest := numbered(name, ""); n >= 0 && n <= 31 && rest == "" {
		return Reg{Num: n, Bytes: 8}, true
	}
	if n, rest := numbered(name, "r"); n >= 0 && n <= 31 && rest == "" {
		return Reg{Num: n, Bytes: 8}, true
	}
	if n, rest := numbered(name, "f"); n >= 0 && n <= 31 && rest == "" {
		return Reg{Num: 32 + n, Bytes: 8, Class: classVector}, true
	}
	if n, rest := numbered(name, "vs"); n >= 0 && n <= 63 && rest == "" {
		return Reg{Num: 77 + n, Bytes: 16, Class: classVector}, true
	}
	return Reg{}, false
}

// s390 parses an operand of s390x: "%r2", "5", "160(%r15)", "0(%r3,%r1)", "sym".
func (p *parser) s390(a *Arg) error {
	c := p.peek()
	if c == '%' {
		start := p.i
		p.i++
		r, ok := s390Register(p.word())
		if !ok {
			return p.errorAt(start, "unknown register")
		}
		a.Kind, a.Reg = KindReg, r
		return nil
	}
	if isSymbol(c, true) {
		return p.bareSymbol(a)
	}
	return p.displaced(a, s390Register)
}

// s390Register returns the register of that name: s390x ELF ABI, section "DWARF register
// numbers".
func s390Register(name string) (Reg, bool) {
	if n, rest := numbered(name, "r"); n >= 0 && n <= 15 && rest == "" {
		return Reg{Num: n, Bytes: 8}, true
	}
	if n, rest := numbered(name, "f"); n >= 0 && n <= 15 && rest == "" {
		order := [...]int16{16, 20, 17, 21, 18, 22, 19, 23, 24, 28, 25, 29, 26, 30, 27, 31}
		return Reg{Num: order[n], Bytes: 8, Class: classVector}, true
	}
	if n, rest := numbered(name, "v"); n >= 16 && n <= 31 && rest == "" {
		order := [...]int16{68, 72, 69, 73, 70, 74, 71, 75, 76, 80, 77, 81, 78, 82, 79, 83}
		return Reg{Num: order[n-16], Bytes: 16, Class: classVector}, true
	}
	if n, rest := numbered(name, "a"); n >= 0 && n <= 15 && rest == "" {
		return Reg{Num: 48 + n, Bytes: 4, Class: classOther}, true
	}
	return Reg{}, false
}

// loongarch parses an operand of loongarch64: "$a0", "5", "$r22,-20",
// "$r4,$r5", "%pc_lo12(sym)" after a register, "sym".
func (p *parser) loongarch(a *Arg) error {
	switch c := p.peek(); {
	case c == '$':
		return p.loongRegister(a)
	case isSymbol(c, true):
		return p.bareSymbol(a)
	case c == '[': // as BCC reads them: "[$r22, -20]"
		p.i++
		if err := p.loongRegister(a); err != nil {
			return err
		}
		if a.Kind == KindReg {
			a.Kind, a.Addr.Base, a.Reg = KindMem, a.Reg, Reg{}
		}
		return p.expect(']')
	}
	return p.constant(a)
}

// loongRegister parses a register, or the memory that a register and an offset
// or a second register point to.
func (p *parser) loongRegister(a *Arg) error {
	start := p.i
	p.take('$')
	r, ok := loongarchRegister(p.word())
	if !ok {
		return p.errorAt(start, "unknown register")
	}
	if !p.take(',') {
		a.Kind, a.Reg = KindReg, r
		if r == zeroRegister {
			a.Operand = Operand{Kind: KindConst}
		}
		return nil
	}
	if r.Class != ClassGeneral || r == zeroRegister {
		return p.errorAt(start, "not a base register")
	}
	a.Kind, a.Addr.Base = KindMem, r
	p.skipSpace()
	switch {
	case p.take('$'):
		index, ok := loongarchRegister(p.word())
		if !ok || index.Class != ClassGeneral {
			return p.errorf("not an index register")
		}
		a.Addr.Index, a.Addr.Scale = index, 1
		return nil
	case p.take('%'):
		at := p.i
		switch p.word() {
		case "pc_lo12":
			a.Addr.Reloc = relocLoSext
		default:
			return p.errorAt(at, "unknown modifier")
		}
		if err := p.expect('('); err != nil {
			return err
		}
		if err := p.expression(&a.Addr); err != nil {
			return err
		}
		a.Addr.Reloc = relocLoSext
		return p.expect(')')
	}
	v, err := p.number()
	a.Addr.Disp = v
	return err
}

// loongarchRegister returns the register of that name: LoongArch ELF psABI, section "Register
// Convention", and DWARF's numbering, which is the hardware's.
func loongarchRegister(name string) (Reg, bool) {
	num := int16(-1)
	switch name {
	case "zero", "r0":
		return zeroRegister, true
	case "ra":
		num = 1
	case "tp":
		num = 2
	case "sp":
		num = 3
	case "fp":
		num = 22
	}
	for _, set := range []struct {
		prefix string
		last   int16
		num    int16
	}{{"r", 31, 0}, {"a", 7, 4}, {"t", 8, 12}, {"s", 8, 23}} {
		if n, rest := numbered(name, set.prefix); n >= 0 && n <= set.last && rest == "" {
			num = set.num + n
		}
	}
	if name == "s9" {
		num = 22
	}
	if num >= 0 {
		return Reg{Num: num, Bytes: 8}, true
	}
	for _, set := range []struct {
		prefix string
		last   int16
		num    int16
	}{{"f", 31, 32}, {"fa", 7, 32}, {"ft", 15, 40}, {"fs", 7, 56}} {
		if n, rest := numbered(name, set.prefix); n >= 0 && n <= set.last && rest == "" {
			return Reg{Num: set.num + n, Bytes: 8, Class: classVector}, true
		}
	}
	return Reg{}, false
}

// bareSymbol parses "sym+4": the address of a symbol or, for a floating point value, which is
// never an address, the memory there.
func (p *parser) bareSymbol(a *Arg) error {
	a.Kind = KindAddr
	if a.Float {
		a.Kind = KindMem
	}
	return p.expression(&a.Addr)
}

// displaced parses "5" or "-20(reg)".
func (p *parser) displaced(a *Arg, register func(string) (Reg, bool)) error {
	if p.peek() != '(' {
		if err := p.constant(a); err != nil || p.peek() != '(' {
			return err
		}
	}
	disp := a.Const
	a.Operand = Operand{Kind: KindMem}
	a.Addr.Disp = disp
	return p.base(a, register)
}

// base parses "(reg)" or "(index,base)".
func (p *parser) base(a *Arg, register func(string) (Reg, bool)) error {
	if err := p.expect('('); err != nil {
		return err
	}
	r, err := p.general(register)
	if err != nil {
		return err
	}
	a.Addr.Base = r
	if p.take(',') {
		if a.Addr.Index, err = p.general(register); err != nil {
			return err
		}
		a.Addr.Scale = 1
	}
	return p.expect(')')
}

// general parses a general register with or without '%'.
func (p *parser) general(register func(string) (Reg, bool)) (Reg, error) {
	p.take('%')
	start := p.i
	for !p.end() && isSymbol(p.peek(), false) {
		p.i++
	}
	r, ok := register(p.s[start:p.i])
	if !ok || r.Class != ClassGeneral || r == zeroRegister {
		return Reg{}, p.errorAt(start, "not a base register")
	}
	return r, nil
}
