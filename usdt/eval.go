package usdt

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Registers are a thread's registers by DWARF number, for example a stack.Regs or a core
// file's elfnotes.PRStatus.
type Registers interface {
	// Reg returns a register's value, and false if it is not known. For vector registers
	// it is the low 64 bits.
	Reg(dwarf int) (uint64, bool)
}

// Memory reads a target's memory, for example a stack.Memory.
type Memory interface {
	// ReadMemory fills dst with the len(dst) bytes at addr, or returns an error.
	ReadMemory(dst []byte, addr uint64) error
}

// Symbols returns the addresses of symbols of the probe's file in the target's memory.
type Symbols interface {
	// SymbolAddress returns a symbol's address in the target, and false if it is not known.
	SymbolAddress(name string) (uint64, bool)
}

// Value is an argument's value.
type Value struct {
	// Bits is the value in 64 bits: sign-extended if the argument is Signed,
	// the bits of a float32 or float64 if it is Float, else zero-extended.
	Bits uint64
	// Size, Signed and Float are the argument's.
	Size   int
	Signed bool
	Float  bool
}

// Int returns the value as a signed integer; a Float value is truncated.
func (v Value) Int() int64 {
	if v.Float {
		return int64(v.Float64())
	}
	return int64(v.Bits)
}

// Uint returns the value as an unsigned integer; a Float value is truncated.
func (v Value) Uint() uint64 {
	if v.Float {
		return uint64(v.Float64())
	}
	return v.Bits
}

// Float64 returns the value as a floating point number: exactly for Float
// arguments, converted for integers.
func (v Value) Float64() float64 {
	switch {
	case v.Float && v.Size == 4:
		return float64(math.Float32frombits(uint32(v.Bits)))
	case v.Float:
		return math.Float64frombits(v.Bits)
	case v.Signed:
		return float64(int64(v.Bits))
	}
	return float64(v.Bits)
}

// String returns the value in decimal.
func (v Value) String() string {
	switch {
	case v.Float:
		return fmt.Sprint(v.Float64())
	case v.Signed:
		return fmt.Sprint(int64(v.Bits))
	}
	return fmt.Sprint(v.Bits)
}

// UnreadableError says why an argument has no value, or none in this target.
type UnreadableError struct {
	Arg    string // the argument's text
	Reason Reason
	// Reg is the DWARF number of the unknown register, else -1.
	Reg int
	// Err is the error of Memory, nil if there is none.
	Err error
}

// Error returns "usdt argument TEXT: REASON".
func (e *UnreadableError) Error() string {
	s := "usdt argument " + e.Arg + ": "
	switch {
	case e.Err != nil:
		return s + e.Err.Error()
	case e.Reason != ReasonNone:
		return s + e.Reason.String()
	}
	return s + fmt.Sprintf("register %d is not known", e.Reg)
}

// Unwrap returns the error of Memory, nil if there is none.
func (e *UnreadableError) Unwrap() error { return e.Err }

var errNoMemory = errors.New("no memory to read from")

// Eval evaluates the argument at its site; regs are the thread's registers there. It reads
// exactly Size bytes of memory. mem and syms are used only if the operand needs them; both may
// be nil. An operand whose symbol was resolved from its file (see File) needs the program
// counter; for one that was not resolved, Eval calls syms.
//
// The error is an *UnreadableError.
func (a Arg) Eval(regs Registers, mem Memory, syms Symbols) (Value, error) {
	bits, err := a.eval(regs, mem, syms)
	if err != nil {
		return Value{}, err
	}
	return Value{Bits: a.extend(bits), Size: a.Size, Signed: a.Signed, Float: a.Float}, nil
}

func (a Arg) eval(regs Registers, mem Memory, syms Symbols) (uint64, error) {
	if a.Kind == KindUnknown {
		return 0, a.unreadable(a.Reason)
	}
	switch a.Size {
	case 1, 2, 4, 8:
	default:
		return 0, a.unreadable(ReasonSize)
	}
	switch a.Kind {
	case KindConst:
		return uint64(a.Const), nil
	case KindReg:
		v, err := a.register(regs, a.Reg)
		return v >> a.Reg.Shift, err
	case KindAddr:
		if a.Addr.Reloc == relocGOT && !a.Addr.Resolved {
			return a.symbol(syms)
		}
		return a.Address(regs, syms)
	}
	if a.Addr.Reloc == relocGOT && !a.Addr.Resolved {
		// The slot would hold the symbol's address.
		return a.symbol(syms)
	}
	addr, err := a.Address(regs, syms)
	if err != nil {
		return 0, err
	}
	return a.read(mem, addr)
}

// extend returns the lower Size bytes extended to 64 bits.
func (a Arg) extend(v uint64) uint64 {
	unused := 64 - 8*a.Size
	if a.Signed && !a.Float {
		return uint64(int64(v<<unused) >> unused)
	}
	return v << unused >> unused
}

func (a Arg) read(mem Memory, addr uint64) (uint64, error) {
	if mem == nil {
		return 0, &UnreadableError{Arg: a.Text, Reg: -1, Err: errNoMemory}
	}
	var buf [8]byte
	b := buf[:a.Size]
	if err := mem.ReadMemory(b, addr); err != nil {
		return 0, &UnreadableError{Arg: a.Text, Reg: -1, Err: err}
	}
	var order binary.ByteOrder = binary.LittleEndian
	if a.BigEndian {
		order = binary.BigEndian
	}
	switch a.Size {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(order.Uint16(b)), nil
	case 4:
		return uint64(order.Uint32(b)), nil
	}
	return order.Uint64(b), nil
}

// Address returns the address of an argument in memory, or the value of one that is an
// address (KindAddr). It works for values of any size, such as structures that were passed
// by value. The error is an *UnreadableError, with ReasonSize for other kinds.
func (a Arg) Address(regs Registers, syms Symbols) (uint64, error) {
	if a.Kind == KindUnknown {
		return 0, a.unreadable(a.Reason)
	}
	if a.Kind != KindMem && a.Kind != KindAddr {
		return 0, a.unreadable(ReasonSize)
	}
	addr := uint64(a.Addr.Disp)
	if a.Addr.Base.Ok() {
		v, err := a.register(regs, a.Addr.Base)
		if err != nil {
			return 0, err
		}
		addr += v
	}
	if index := a.Addr.Index; index.Ok() {
		v, err := a.register(regs, index)
		if err != nil {
			return 0, err
		}
		addr += a.Addr.scale(v)
	}
	switch {
	case a.Addr.PCRel:
		pc, err := a.register(regs, Reg{Num: int16(pcRegister(a.Machine)), Bytes: 8})
		if err != nil {
			return 0, err
		}
		addr += pc
	case a.Addr.Symbol != "" && !a.Addr.Resolved:
		v, err := a.symbol(syms)
		if err != nil {
			return 0, err
		}
		addr += v
	}
	if a.Addr.Segment != SegmentNone {
		v, ok := threadPointer(a.Addr.Segment, a.Machine, regs)
		if !ok {
			return 0, a.unreadable(ReasonSegment)
		}
		addr += v
	}
	if a.Machine == elf.EM_386 || a.Machine == elf.EM_ARM {
		addr = uint64(uint32(addr))
	}
	return addr, nil
}

// scale applies an index register's extension, scale and sign.
func (addr *Addr) scale(v uint64) uint64 {
	if addr.Index.Bytes < 8 {
		unused := 64 - 8*addr.Index.Bytes
		if addr.IndexSigned {
			v = uint64(int64(v<<unused) >> unused)
		} else {
			v = v << unused >> unused
		}
	}
	v *= uint64(addr.Scale)
	if addr.IndexSub {
		return -v
	}
	return v
}

func (a Arg) register(regs Registers, r Reg) (uint64, error) {
	if regs != nil && r.Num >= 0 {
		if v, ok := regs.Reg(int(r.Num)); ok {
			return v, nil
		}
	}
	switch {
	case r.Class == classVector:
		return 0, a.unreadable(ReasonVector)
	case r.Class == classOther:
		return 0, a.unreadable(ReasonRegister)
	}
	return 0, &UnreadableError{Arg: a.Text, Reg: int(r.Num)}
}

// symbol returns what the symbol adds to the address. Symbols has plain addresses only:
// offsets in thread-local storage come from the file.
func (a Arg) symbol(syms Symbols) (uint64, error) {
	reason := a.Reason
	if reason == ReasonNone {
		reason = ReasonSymbol
	}
	var v uint64
	ok := false
	if syms != nil {
		v, ok = syms.SymbolAddress(a.Addr.Symbol)
	}
	if !ok {
		return 0, a.unreadable(reason)
	}
	switch a.Addr.Reloc {
	case relocAbs, relocGOTOff, relocGOT:
		return v, nil
	case relocLo12:
		return v & 0xfff, nil
	case relocLoSext:
		return lowSigned(v), nil
	}
	return 0, a.unreadable(ReasonTLS)
}

// lowSigned returns the low 12 bits, sign-extended: the rest that a 20-bit upper immediate
// does not cover.
func lowSigned(v uint64) uint64 { return uint64(int64(v<<52) >> 52) }

func (a Arg) unreadable(r Reason) error { return &UnreadableError{Arg: a.Text, Reason: r, Reg: -1} }

// pcRegister returns the number of the program counter in Registers: DWARF's number if it has
// one, else the number after the last general register's.
func pcRegister(m elf.Machine) int {
	switch m {
	case elf.EM_X86_64:
		return 16
	case elf.EM_386:
		return 8
	case elf.EM_AARCH64:
		return 32
	case elf.EM_ARM:
		return 15
	case elf.EM_S390:
		return 65 // PSW address
	}
	return PCRegister
}

// PCRegister is the number by which Eval asks Registers for the program counter on riscv64,
// ppc64 and loongarch64, whose DWARF mappings have none.
const PCRegister = 0x7fff

// Numbers of the segment bases in the AMD64 ABI's DWARF mapping, figure 3.36;
// the i386 ABI has none for bases, and TPIDR_EL0 is 36 in AADWARF64.
func threadPointer(s Segment, m elf.Machine, regs Registers) (uint64, bool) {
	if regs == nil {
		return 0, false
	}
	switch {
	case m == elf.EM_X86_64 && s == segmentFS:
		return regs.Reg(58)
	case m == elf.EM_X86_64 && s == segmentGS:
		return regs.Reg(59)
	}
	return 0, false
}
