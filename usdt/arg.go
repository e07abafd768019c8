package usdt

import (
	"debug/elf"
	"fmt"
	"strings"
)

// Arg is one argument of a probe at one site: a value of Size bytes, and the operand where
// the compiler kept it. The same argument may differ in all of this at another site.
//
// An Arg is plain data; a copy is independent.
type Arg struct {
	// Text is the argument as in the note: "-4@8(%rbp)".
	Text string
	// Machine is the architecture whose assembler Text is written for, and
	// BigEndian the byte order of memory operands.
	Machine   elf.Machine
	BigEndian bool
	// Size is the value's size in bytes. Sizes other than 1, 2, 4 and 8 are of values that
	// don't fit a register (structures, __int128): at most their address can be read.
	Size int
	// Signed is set for signed integers, Float for float and double. Both are the types
	// that the compiler of the traced program saw; folly's macros mark all arguments signed.
	Signed bool
	Float  bool

	Operand
}

// String returns the argument as in the note; ParseArgs parses it into the same argument.
func (a Arg) String() string { return a.Text }

// Operand says where a value is.
type Operand struct {
	// Kind says which of the other fields count; KindUnknown has a Reason.
	Kind Kind
	// Const is the value of a KindConst. For a Float argument it holds the
	// bits of a float of the argument's size.
	Const int64
	// Reg is the register of a KindReg.
	Reg Reg
	// Addr is the address of a KindMem, or the value of a KindAddr.
	Addr Addr
	// Reason says what is missing to read the value at run time; ReasonNone if nothing is.
	Reason Reason
}

// Kind is the kind of an operand.
type Kind uint8

// The kinds of operands.
const (
	// KindUnknown is an operand whose text does not give its meaning: an assembler's local
	// label, a position-dependent expression. Reason has details.
	KindUnknown Kind = iota
	// KindConst is a number.
	KindConst
	// KindReg is a register's contents.
	KindReg
	// KindMem is the memory at Addr.
	KindMem
	// KindAddr is Addr itself: the address of a symbol.
	KindAddr
)

var kindNames = [...]string{"unknown", "const", "reg", "mem", "addr"}

// String returns "const", "reg", "mem", "addr" or "unknown".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Reason says why a value can't be read at run time, or only with additional information.
type Reason uint8

// The reasons.
const (
	ReasonNone Reason = iota
	// ReasonSymbol: the operand names a symbol with unknown address. It was parsed without
	// a file, or neither the file (stripped) nor its debug file has such a symbol.
	ReasonSymbol
	// ReasonAmbiguous: several local symbols have the name, and none of them belongs to
	// the probe's source file.
	ReasonAmbiguous
	// ReasonVector: the value is in a vector, floating point or x87 register. The kernel
	// doesn't provide these to a probe; Eval reads them if its Registers have them.
	ReasonVector
	// ReasonTLS: the value is in thread-local storage at a place that the dynamic linker
	// chooses.
	ReasonTLS
	// ReasonSegment: the address is relative to the thread pointer (%fs, %gs), which a
	// probe's pt_regs does not hold. Eval reads the value if its Registers have the pointer.
	ReasonSegment
	// ReasonSize: the value has a size that no register has (not 1, 2, 4 or 8). Address
	// returns its address if it is in memory.
	ReasonSize
	// ReasonLabel: the operand names an assembler-local label or an expression
	// that no longer exists in the linked file.
	ReasonLabel
	// ReasonRegister: the operand is a register that probes can't read: a segment, control
	// or mask register.
	ReasonRegister
)

var reasonNames = [...]string{
	"readable", "symbol address is not known", "symbol is ambiguous", "value is in a vector register",
	"thread-local symbol of a shared library", "address is relative to the thread pointer",
	"value has no register's size", "label is not in the linked file",
	"register is not visible to probes",
}

// String returns the reason in words.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Class is the kind of a register.
type Class uint8

// The classes of registers.
const (
	ClassGeneral Class = iota
	classVector        // SIMD, floating point and x87
	classOther         // segment, control, mask
)

// Reg is a register, or a part of one. The zero value is no register.
type Reg struct {
	// Num is the DWARF number of the register: the same numbering as
	// stack.Regs and call frame information. It is -1 for a register that
	// DWARF doesn't number.
	Num int16
	// Bytes is the width of the named part: 1 for %al and %ah, 4 for %eax. It is 0 if and
	// only if there is no register. The value's size is the argument's Size anyway: the named
	// part may be wider or narrower.
	Bytes uint8
	// Shift is the offset of the part in the register, in bits: 8 for %ah, else 0.
	Shift uint8
	Class Class
}

// Ok reports whether r is a register.
func (r Reg) Ok() bool { return r.Bytes != 0 }

// Segment is the base that an address is relative to, in addition to its registers.
type Segment uint8

// The segments. FS on amd64, GS on 386 and TPIDR_EL0 on arm64 hold the thread
// pointer.
const (
	SegmentNone Segment = iota
	segmentFS
	segmentGS
)

// Addr is an address: Base + Index*Scale + Disp, plus the segment's base, plus
// the program counter if PCRel is set.
type Addr struct {
	// Base and Index are the registers, the zero Reg if there is none.
	Base, Index Reg
	// Scale is 1, 2, 4, 8 or 16 with an Index, else 0.
	Scale uint8
	// IndexSub is set if Index is subtracted (arm: "[r1, -r2]"). IndexSigned is set if
	// Index.Bytes of it are sign-extended first (arm64: "sxtw").
	IndexSub    bool
	IndexSigned bool
	// PCRel is set on an address that was resolved from a symbol: it is Disp bytes from the
	// site's PC, wherever the file is loaded. It does not depend on the process.
	PCRel bool
	// Segment is the segment whose base is added.
	Segment Segment
	// Disp is in bytes. Before the symbol is resolved it is the offset from the symbol, as
	// written.
	Disp int64
	// Symbol is the symbol's name, empty if there is none. It remains after the symbol was
	// resolved; Resolved reports that.
	Symbol string
	// Reloc says which value of the symbol is meant. Resolved is set if Disp includes it.
	Reloc    Reloc
	Resolved bool
}

// Reloc says which value of a symbol is in an address: the assembler's modifier.
type Reloc uint8

// The modifiers.
const (
	relocNone   Reloc = iota
	relocAbs          // the symbol's address
	relocGOTOff       // the same: @GOTOFF, without its base register, the table's address, in Base
	// the address of the slot that holds the symbol's address: @GOTPCREL, @GOT, :got_lo12:
	relocGOT
	relocTPOff  // the symbol's offset from the thread pointer: @tpoff, @ntpoff
	relocDTPOff // the symbol's offset in its module's thread-local block: @dtpoff
	relocGOTTP  // the slot that holds the offset from the thread pointer: @gottpoff, @indntpoff
	relocLo12   // the low 12 bits of the address: arm64's :lo12:
	relocLoSext // the low 12 bits, sign-extended: riscv's %lo()
	relocTPLo12 // the low 12 bits of the offset from the thread pointer: :tprel_lo12:
)

var relocNames = [...]string{
	relocNone: "none", relocAbs: "address", relocGOTOff: "address (GOTOFF)", relocGOT: "GOT slot",
	relocTPOff: "TP offset", relocDTPOff: "DTP offset", relocGOTTP: "TP offset's GOT slot",
	relocLo12: "low 12 bits", relocLoSext: "low 12 bits, signed",
	relocTPLo12: "TP offset's low 12 bits",
}

// String returns the symbol's value in words: "address", "GOT slot".
func (r Reloc) String() string {
	if int(r) < len(relocNames) {
		return relocNames[r]
	}
	return "invalid"
}

// String returns the operand in a notation that is the same for all machines, with DWARF
// register numbers: "r5", "*(r6-8)", "*(pc+0x2f10)", "&counter".
func (o Operand) String() string {
	switch o.Kind {
	case KindConst:
		return fmt.Sprint(o.Const)
	case KindReg:
		return o.Reg.String()
	case KindMem:
		return "*(" + o.Addr.String() + ")"
	case KindAddr:
		return "&(" + o.Addr.String() + ")"
	}
	return "?" + o.Addr.Symbol
}

// String returns "r5", "v17" for vector registers, with ".8" for %ah.
func (r Reg) String() string {
	prefix := "r"
	switch {
	case !r.Ok():
		return ""
	case r.Class != ClassGeneral:
		prefix = "v"
	}
	s := fmt.Sprintf("%s%d", prefix, r.Num)
	if r.Shift != 0 {
		s += fmt.Sprintf(".%d", r.Shift)
	}
	return s
}

// String returns the sum.
func (a Addr) String() string {
	var parts []string
	if a.Segment != SegmentNone {
		parts = append(parts, "tp")
	}
	if a.PCRel {
		parts = append(parts, "pc")
	} else if a.Symbol != "" && !a.Resolved {
		parts = append(parts, a.Symbol)
	}
	if a.Base.Ok() {
		parts = append(parts, a.Base.String())
	}
	s := strings.Join(parts, "+")
	if a.Index.Ok() {
		sign := "+"
		if a.IndexSub {
			sign = "-"
		}
		s += fmt.Sprintf("%s%v*%d", sign, a.Index, a.Scale)
	}
	if a.Disp != 0 || s == "" {
		s += fmt.Sprintf("%+d", a.Disp)
	}
	return s
}
