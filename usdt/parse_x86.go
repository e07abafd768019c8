package usdt

import (
	"debug/elf"
	"strings"
)

// x86 parses an operand in AT&T syntax: "%rdi", "$5", "$sym", "-8(%rbp)",
// "(%rax,%rcx,8)", "sym+4(%rip)", "%fs:x@tpoff", "arr(,%rdi,8)".
func (p *parser) x86(a *Arg) error {
	switch {
	case p.peek() == '$':
		p.i++
		return p.x86Immediate(a)
	case p.peek() == '%':
		start := p.i
		r, ok := p.x86Register(a.Machine)
		if !ok {
			return p.errorAt(start, "unknown register")
		}
		if !p.take(':') {
			a.Kind, a.Reg = KindReg, r
			return nil
		}
		switch p.s[start+1 : p.i-1] {
		case "fs":
			a.Addr.Segment = segmentFS
		case "gs":
			a.Addr.Segment = segmentGS
		case "cs", "ds", "es", "ss": // flat
		default:
			return p.errorAt(start, "not a segment register")
		}
	}
	return p.x86Memory(a)
}

func (p *parser) x86Immediate(a *Arg) error {
	if c := p.peek(); isDigit(c) || c == '-' {
		start := p.i
		if err := p.constant(a); err != nil {
			return err
		}
		if c := p.peek(); c != '+' && c != '-' {
			return nil
		}
		p.i = start // "$8+sym"
		a.Operand = Operand{}
	}
	a.Kind = KindAddr
	if err := p.expression(&a.Addr); err != nil {
		return err
	}
	if a.Addr.Symbol == "" {
		a.Kind, a.Const, a.Addr = KindConst, a.Addr.Disp, Addr{}
	}
	return nil
}

// x86Memory parses disp(base,index,scale) with all its parts optional.
func (p *parser) x86Memory(a *Arg) error {
	a.Kind = KindMem
	start := p.i
	p.take('*') // an indirect jump's operand, as %P and %a print it
	if p.peek() != '(' {
		if err := p.expression(&a.Addr); err != nil {
			return err
		}
		if p.peek() == '(' && a.Addr.Symbol == "" && p.i == start {
			return p.errorf("want an operand")
		}
	}
	if !p.take('(') {
		if a.Addr.Symbol == "" && a.Addr.Segment == SegmentNone {
			// "123" alone would be an absolute address, which no compiler
			// emits for data: it is a specification for another machine.
			return p.errorAt(start, "want an operand")
		}
		return nil
	}
	rip, err := p.x86Base(a)
	if err != nil {
		return err
	}
	switch {
	case rip && a.Addr.Symbol == "":
		a.Kind, a.Reason = KindUnknown, ReasonLabel // relative to an instruction that does not exist
	case a.Machine == elf.EM_386 && a.Addr.Reloc == relocGOT:
		a.Addr.Base = Reg{} // the table's address
	}
	return nil
}

// x86Base parses the text in parentheses. A base register that only makes the symbol
// position-independent (%rip, and the table register of @GOTOFF) is dropped, because the
// symbol's address is sufficient.
func (p *parser) x86Base(a *Arg) (rip bool, err error) {
	gotoff := a.Addr.Reloc == relocGOTOff
	if p.peek() == '%' {
		start := p.i
		r, ok := p.x86Register(a.Machine)
		if !ok || r.Class != ClassGeneral || r.Bytes < 4 {
			return false, p.errorAt(start, "not a base register")
		}
		rip = p.s[start:p.i] == "%rip" || p.s[start:p.i] == "%eip"
		if !rip && !gotoff {
			a.Addr.Base = r
		}
	}
	if p.take(',') {
		if err := p.x86Index(a); err != nil {
			return rip, err
		}
	} else if !a.Addr.Base.Ok() && !rip && !gotoff {
		return rip, p.errorf("want a register")
	}
	return rip, p.expect(')')
}

func (p *parser) x86Index(a *Arg) error {
	start := p.i
	r, ok := p.x86Register(a.Machine)
	if !ok || r.Class != ClassGeneral || r.Bytes < 4 || p.s[start:p.i] == "%rip" {
		return p.errorAt(start, "not an index register")
	}
	a.Addr.Index, a.Addr.Scale = r, 1
	if !p.take(',') {
		return nil
	}
	switch c := p.peek(); c {
	case '1', '2', '4', '8':
		a.Addr.Scale = c - '0'
		p.i++
		return nil
	}
	return p.errorf("scale is not 1, 2, 4 or 8")
}

// x86Register parses "%rdi".
func (p *parser) x86Register(machine elf.Machine) (Reg, bool) {
	if !p.take('%') {
		return Reg{}, false
	}
	start := p.i
	for !p.end() && isSymbol(p.peek(), false) {
		p.i++
	}
	name := p.s[start:p.i]
	if name == "st" && p.peek() == '(' && p.i+2 < len(p.s) && p.s[p.i+2] == ')' {
		n := p.s[p.i+1] - '0'
		p.i += 3
		return Reg{Num: x87(machine, int16(n)), Bytes: 10, Class: classVector}, n < 8
	}
	if r, ok := x86General(name); ok {
		if machine == elf.EM_386 {
			return i386Number(r)
		}
		return r, true
	}
	return x86Special(machine, name)
}

func x87(machine elf.Machine, n int16) int16 {
	if machine == elf.EM_386 {
		return 11 + n
	}
	return 33 + n
}

// i386Number converts a register's amd64 number to i386's numbering, which differs: System V
// ABI, Intel386 supplement, figure 2.14.
func i386Number(r Reg) (Reg, bool) {
	// rax rdx rcx rbx rsi rdi rbp rsp
	numbers := [...]int16{0, 2, 1, 3, 6, 7, 5, 4}
	switch {
	case r.Bytes == 8:
		return Reg{}, false
	case r.Num == 16:
		r.Num = 8
	case int(r.Num) < len(numbers):
		r.Num = numbers[r.Num]
	default:
		return Reg{}, false
	}
	return r, true
}

// x86General returns the general register of that name: System V ABI, AMD64 supplement,
// figure 3.36.
func x86General(name string) (Reg, bool) {
	switch len(name) {
	case 2:
		if name[1] == 'l' || name[1] == 'h' { // al, ah
			r := Reg{Num: int16(strings.IndexByte("adcb", name[0])), Bytes: 1}
			if name[1] == 'h' {
				r.Shift = 8
			}
			return r, r.Num >= 0
		}
		if n := x86Word(name); n >= 0 && n < 8 { // ip has no 16-bit name
			return Reg{Num: n, Bytes: 2}, true
		}
	case 3:
		if n := x86Word(name[1:]); n >= 0 && name[0] == 'r' {
			return Reg{Num: n, Bytes: 8}, true
		} else if n >= 0 && name[0] == 'e' {
			return Reg{Num: n, Bytes: 4}, true
		}
		if n := x86Word(name[:2]); n >= 4 && n < 8 && name[2] == 'l' { // sil
			return Reg{Num: n, Bytes: 1}, true
		}
	}
	// r8 … r15 with d, w, b. APX's r16 … r31 have DWARF numbers 130 and up, and are not
	// in pt_regs.
	n, rest := numbered(name, "r")
	if n < 8 || n > 15 {
		return Reg{}, false
	}
	r := Reg{Num: n}
	switch rest {
	case "":
		r.Bytes = 8
	case "d":
		r.Bytes = 4
	case "w":
		r.Bytes = 2
	case "b", "l":
		r.Bytes = 1
	}
	return r, r.Ok()
}

// x86Word returns the DWARF number of a register with a 16-bit name, and of ip; else -1.
func x86Word(name string) int16 {
	switch name {
	case "ax":
		return 0
	case "dx":
		return 1
	case "cx":
		return 2
	case "bx":
		return 3
	case "si":
		return 4
	case "di":
		return 5
	case "bp":
		return 6
	case "sp":
		return 7
	case "ip":
		return 16
	}
	return -1
}

// numbered splits "xmm12d" into 12 and "d"; the number is -1 if the name
// doesn't begin with prefix and a number below 1000.
func numbered(name, prefix string) (int16, string) {
	if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
		return -1, ""
	}
	rest := name[len(prefix):]
	n, i := int16(0), 0
	for ; i < len(rest) && i < 3 && isDigit(rest[i]); i++ {
		n = n*10 + int16(rest[i]-'0')
	}
	if i == 0 || i > 1 && rest[0] == '0' {
		return -1, ""
	}
	return n, rest[i:]
}

// x86Special returns the register of that name that may hold a value but that a probe can't
// read.
func x86Special(machine elf.Machine, name string) (Reg, bool) {
	for _, vec := range []struct {
		prefix string
		bytes  uint8
	}{{"xmm", 16}, {"ymm", 32}, {"zmm", 64}} {
		n, rest := numbered(name, vec.prefix)
		if n < 0 || n > 31 || rest != "" || machine == elf.EM_386 && n > 7 {
			continue
		}
		num := 17 + n
		switch {
		case machine == elf.EM_386:
			num = 21 + n
		case n > 15:
			num = 67 + n - 16
		}
		return Reg{Num: num, Bytes: vec.bytes, Class: classVector}, true
	}
	if n, rest := numbered(name, "mm"); n >= 0 && n <= 7 && rest == "" {
		num := 41 + n
		if machine == elf.EM_386 {
			num = 29 + n
		}
		return Reg{Num: num, Bytes: 8, Class: classVector}, true
	}
	if n, rest := numbered(name, "k"); n >= 0 && n <= 7 && rest == "" {
		return Reg{Num: 118 + n, Bytes: 8, Class: classOther}, true
	}
	if n, rest := numbered(name, "cr"); n >= 0 && n <= 15 && rest == "" {
		return Reg{Num: -1, Bytes: 8, Class: classOther}, true
	}
	if n, rest := numbered(name, "r"); n >= 16 && n <= 31 &&
		(rest == "" || rest == "d" || rest == "w" || rest == "b") {
		return Reg{Num: 130 + n - 16, Bytes: 8, Class: classOther}, machine != elf.EM_386
	}
	switch name {
	case "st":
		return Reg{Num: x87(machine, 0), Bytes: 10, Class: classVector}, true
	case "cs", "ds", "es", "fs", "gs", "ss":
		return Reg{Num: -1, Bytes: 2, Class: classOther}, true
	}
	return Reg{}, false
}
