package usdt

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxArgs is the maximum number of arguments of a probe: <sys/sdt.h> defines macros up to 12.
const MaxArgs = 12

// maxSize bounds the size of an argument: structures by value are larger than registers, but
// not by that much.
const maxSize = 1 << 20

// SyntaxError reports an error in an argument specification.
type SyntaxError struct {
	Text   string // the whole specification
	Column int    // of the offending byte, from 1
	Msg    string
}

// Error returns "usdt arguments "…": column N: MSG".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("usdt arguments %q: column %d: %s", e.Text, e.Column, e.Msg)
}

// ParseArgs parses the argument specification of a site, such as "8@%rdi -4@-20(%rbp)", in the
// assembler syntax of a machine: EM_X86_64, EM_386, EM_AARCH64, EM_ARM, EM_RISCV (64 bits),
// EM_PPC64, EM_S390 or EM_LOONGARCH. The syntax is that of the "Arguments" part of systemtap's
// UserSpaceProbeImplementation, with operands as gcc and clang print them.
//
// All operands that compilers emit are parsed. Those that can't be read at run time have a
// Reason. For other text the error is a *SyntaxError with the column, and the arguments before
// it are returned too. For other machines it matches errors.ErrUnsupported.
//
// Memory operands are assumed to be little-endian except on s390x; set BigEndian otherwise, as
// File does.
func ParseArgs(machine elf.Machine, s string) ([]Arg, error) {
	operand, wordSize := operandParser(machine)
	if operand == nil {
		return nil, fmt.Errorf("usdt arguments of %v: %w", machine, errors.ErrUnsupported)
	}
	// In old notes systemtap's probes without arguments have "" or ":".
	if s == "" || s[0] == ':' {
		return nil, nil
	}
	p := parser{s: s}
	args := make([]Arg, 0, min(MaxArgs, strings.Count(s, "@")+1))
	for p.skipSpace(); !p.end(); p.skipSpace() {
		if len(args) == MaxArgs {
			return args, p.errorf("more than %d arguments", MaxArgs)
		}
		args = append(args, Arg{Machine: machine, BigEndian: machine == elf.EM_S390})
		a := &args[len(args)-1]
		start := p.i
		err := p.size(a)
		if err == nil {
			err = operand(&p, a)
		}
		if err == nil && !p.end() && p.peek() != ' ' {
			err = p.errorf("unexpected %q after the operand", p.s[p.i])
		}
		if err != nil {
			return args[:len(args)-1], err
		}
		a.Text = s[start:p.i]
		a.finish(wordSize)
	}
	return args, nil
}

// operandParser returns the parser of a machine's operands, and the size of its general
// registers in bytes.
func operandParser(machine elf.Machine) (func(*parser, *Arg) error, int) {
	switch machine {
	case elf.EM_X86_64:
		return (*parser).x86, 8
	case elf.EM_386:
		return (*parser).x86, 4
	case elf.EM_AARCH64:
		return (*parser).arm, 8
	case elf.EM_ARM:
		return (*parser).arm, 4
	case elf.EM_RISCV:
		return (*parser).riscv, 8
	case elf.EM_PPC64:
		return (*parser).ppc, 8
	case elf.EM_S390:
		return (*parser).s390, 8
	case elf.EM_LOONGARCH:
		return (*parser).loongarch, 8
	}
	return nil, 0
}

// finish sets what depends on both the operand and the size.
func (a *Arg) finish(wordSize int) {
	if a.Size == 0 {
		// Before systemtap 1.0 notes had no size: it is that of the register.
		a.Size = wordSize
		if a.Kind == KindReg && a.Reg.Bytes <= 8 {
			a.Size = int(a.Reg.Bytes)
		}
	}
	if a.Reason != ReasonNone {
		return
	}
	switch {
	case a.Kind == KindReg && a.Reg.Class == classVector:
		a.Reason = ReasonVector
	case a.Kind == KindReg && a.Reg.Class == classOther:
		a.Reason = ReasonRegister
	case a.Size != 1 && a.Size != 2 && a.Size != 4 && a.Size != 8:
		a.Reason = ReasonSize
	case a.Addr.Reloc == relocGOTTP:
		a.Reason = ReasonTLS
	case strings.HasPrefix(a.Addr.Symbol, ".L"):
		a.Reason = ReasonLabel // the assembler keeps these out of the symbol table
	case a.Addr.Symbol != "":
		a.Reason = ReasonSymbol
	case a.Addr.Segment != SegmentNone:
		a.Reason = ReasonSegment
	}
}

// parser is a position in a specification.
type parser struct {
	s string
	i int
}

func (p *parser) end() bool { return p.i >= len(p.s) }

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *parser) skipSpace() {
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
}

// take skips a byte if it is next.
func (p *parser) take(c byte) bool {
	if p.peek() != c || p.end() {
		return false
	}
	p.i++
	return true
}

// takeString skips a prefix.
func (p *parser) takeString(s string) bool {
	if !strings.HasPrefix(p.s[p.i:], s) {
		return false
	}
	p.i += len(s)
	return true
}

func (p *parser) errorf(format string, args ...any) error {
	return p.errorAt(p.i, format, args...)
}

func (p *parser) errorAt(i int, format string, args ...any) error {
	return &SyntaxError{Text: p.s, Column: i + 1, Msg: fmt.Sprintf(format, args...)}
}

// expect skips a byte that must be next.
func (p *parser) expect(c byte) error {
	if p.take(c) {
		return nil
	}
	if p.end() {
		return p.errorf("want %q, got the end", c)
	}
	return p.errorf("want %q, got %q", c, p.peek())
}

// size parses "-4f@". It may be missing.
func (p *parser) size(a *Arg) error {
	start := p.i
	negative := p.take('-')
	n := 0
	for isDigit(p.peek()) {
		if n = n*10 + int(p.peek()-'0'); n > maxSize {
			return p.errorAt(start, "size is more than %d bytes", maxSize)
		}
		p.i++
	}
	digits := p.i > start && isDigit(p.s[p.i-1])
	float := digits && p.take('f')
	if !digits || !p.take('@') {
		// In "8(%rsp)" and "%rdi" there is no size; the number is part of the operand.
		if float || strings.HasPrefix(p.s[p.i:], "@") {
			return p.errorf("size is missing")
		}
		p.i = start
		return nil
	}
	if n == 0 {
		return p.errorAt(start, "size is 0")
	}
	if float && n != 4 && n != 8 && n > 16 {
		return p.errorAt(start, "floating point value of %d bytes", n)
	}
	a.Size, a.Signed, a.Float = n, negative, float
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// isSymbol reports whether a byte may be in a symbol's name; first is set for the name's first
// byte. Bytes above ASCII are letters of UTF-8 names.
func isSymbol(c byte, first bool) bool {
	switch {
	case c|0x20 >= 'a' && c|0x20 <= 'z', c == '_', c == '.', c == '$', c >= 0x80:
		return true
	case isDigit(c):
		return !first
	}
	return false
}

// number parses a decimal or hexadecimal integer with an optional sign. It accepts all signed
// and unsigned 64-bit values: assemblers print immediates both ways.
func (p *parser) number() (int64, error) {
	start := p.i
	negative := p.take('-')
	if !negative {
		p.take('+')
	}
	var v uint64
	digits := p.i
	if p.takeString("0x") || p.takeString("0X") {
		for digits = p.i; isHex(p.peek()); p.i++ {
			c := p.peek()
			if v>>60 != 0 {
				return 0, p.errorAt(start, "number is larger than 64 bits")
			}
			v <<= 4
			if isDigit(c) {
				v |= uint64(c - '0')
			} else {
				v |= uint64(c|0x20-'a') + 10
			}
		}
	} else {
		for ; isDigit(p.peek()); p.i++ {
			d := uint64(p.peek() - '0')
			if v > (math.MaxUint64-d)/10 {
				return 0, p.errorAt(start, "number is larger than 64 bits")
			}
			v = v*10 + d
		}
	}
	if p.i == digits {
		return 0, p.errorAt(start, "want a number")
	}
	if !negative {
		return int64(v), nil
	}
	if v > 1<<63 {
		return 0, p.errorAt(start, "number is less than 64 bits can hold")
	}
	return -int64(v), nil
}

// constant parses an immediate. Compilers print floating point immediates as their bits, in
// hex or decimal, or as "1.5e+0" (gcc on arm64).
func (p *parser) constant(a *Arg) error {
	start := p.i
	v, err := p.number()
	if err != nil {
		return err
	}
	a.Kind, a.Const = KindConst, v
	if c := p.peek(); c != '.' && c != 'e' && c != 'E' {
		return nil
	}
	for !p.end() && (isDigit(p.peek()) || strings.IndexByte(".eE+-", p.peek()) >= 0) {
		p.i++
	}
	f, perr := strconv.ParseFloat(p.s[start:p.i], 64)
	if perr != nil || !a.Float {
		return p.errorAt(start, "want an integer, got %q", p.s[start:p.i])
	}
	a.Const = int64(math.Float64bits(f))
	if a.Size == 4 {
		a.Const = int64(math.Float32bits(float32(f)))
	}
	return nil
}

// symbol parses a name. Names may contain '.', '$' and, if quoted, anything.
func (p *parser) symbol() (string, error) {
	start := p.i
	if p.take('"') {
		end := strings.IndexByte(p.s[p.i:], '"')
		if end <= 0 {
			return "", p.errorAt(start, "quoted name is not closed")
		}
		name := p.s[p.i : p.i+end]
		p.i += end + 1
		return name, nil
	}
	for !p.end() && isSymbol(p.peek(), p.i == start) {
		p.i++
	}
	if p.i == start {
		return "", p.errorf("want a symbol")
	}
	return p.s[start:p.i], nil
}

// expression parses a sum of at most one symbol and numbers: "8", "glob", "8+glob",
// "glob+8-4", "40+CheckpointStats@GOTOFF". Modifiers follow the symbol after an '@'.
func (p *parser) expression(addr *Addr) error {
	for first := true; ; first = false {
		c := p.peek()
		signed := c == '-' || c == '+'
		if !first && !signed {
			return nil
		}
		after := byte(0)
		if p.i+1 < len(p.s) {
			after = p.s[p.i+1]
		}
		if isDigit(c) || signed && isDigit(after) {
			v, err := p.number()
			if err != nil {
				return err
			}
			addr.Disp += v
			continue
		}
		if c == '-' || addr.Symbol != "" {
			// The assembler could compute a difference of symbols, a reader of the linked file
			// can't.
			return p.errorf("want a number")
		}
		if c == '+' {
			p.i++
		}
		name, err := p.symbol()
		if err != nil {
			return err
		}
		addr.Symbol, addr.Reloc = name, relocAbs
		if err := p.modifier(addr); err != nil {
			return err
		}
	}
}

// modifier parses "@GOTPCREL" after a symbol.
func (p *parser) modifier(addr *Addr) error {
	if !p.take('@') {
		return nil
	}
	start := p.i
	for !p.end() && (isSymbol(p.peek(), false) || p.peek() == '@') {
		p.i++
	}
	switch name := p.s[start:p.i]; strings.ToLower(name) {
	case "gotoff":
		addr.Reloc = relocGOTOff
	case "plt", "toc@l", "l":
		addr.Reloc = relocAbs
	case "gotpcrel", "got", "gotpcrelx":
		addr.Reloc = relocGOT
	case "tpoff", "ntpoff", "tprel":
		addr.Reloc = relocTPOff
	case "dtpoff", "dtprel":
		addr.Reloc = relocDTPOff
	case "gottpoff", "gotntpoff", "indntpoff", "tlsgd", "tlsld", "tlsldm", "tlsdesc":
		addr.Reloc = relocGOTTP
	default:
		return p.errorAt(start, "unknown modifier %q", name)
	}
	return nil
}
