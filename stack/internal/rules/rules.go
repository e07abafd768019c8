package rules

import "debug/elf"

// CFAKind is how a rule computes the canonical frame address: the stack pointer in the caller,
// before the call.
type CFAKind uint8

const (
	CFANone   CFAKind = iota // no rule: the address is covered by no FDE
	CFAReg                   // reg + off
	CFADeref                 // *(reg + off) + off2
	CFAPLT                   // reg + off, and 8 more if pc&15 >= off2
	CFAExpr                  // expression number off
	CFASignal                // the frame that the kernel pushed for a signal handler; of i386 off says where
	CFASwitch                // reg + off, on another stack
	CFAGrow                  // from Go's descriptor of the goroutine: see stack's goGrow
	CFAIndex                 // *(reg + off + 8 * AMD64R9) + off2
	CFALost                  // the caller is on another stack, to which nothing leads
)

// CFA is how the CFA of a frame is computed.
type CFA struct {
	Kind CFAKind
	Reg  uint8
	Off  int32
	Off2 int32
}

// RegKind is how a rule restores a register of the caller.
type RegKind uint8

const (
	RegSame    RegKind = iota // it still has the caller's value
	RegUndef                  // the value is lost; of the return address: the outermost frame
	RegAtCFA                  // saved at CFA + off
	RegCFA                    // the value is CFA + off
	RegReg                    // in register reg
	RegAtReg                  // saved at reg + off
	RegAtExpr                 // saved at the address that expression number off computes
	RegValExpr                // the value that expression number off computes
)

// RegRule is how a register is restored.
type RegRule struct {
	Kind RegKind
	Reg  uint8
	Off  int32
}

// SavedReg is the RegRule of a register.
type SavedReg struct {
	Num uint8
	RegRule
}

// Rule is one distinct way to unwind. A table contains each once.
type Rule struct {
	How   uint8 // the stack.FrameSource of frames found by it; 0: the table's
	CFA   CFA
	Saved []SavedReg // by number; other registers keep their value
	// Lo and Hi bound the slots that are relative to the CFA.
	Lo, Hi int32
}

// Table is a file's rules, and the addresses at which each holds.
type Table struct {
	Machine elf.Machine
	// Base is the address, in the file's own numbering, that the rows are relative to.
	Base  uint64
	Rows  Rows
	Rules []Rule // rule 0 is the one for addresses without a rule
}

// Lookup returns the rule for an address in the file's own numbering.
func (t *Table) Lookup(vaddr uint64) *Rule {
	off := vaddr - t.Base
	if off > uint64(^uint32(0)) {
		return &t.Rules[0]
	}
	i := t.Rows.Find(uint32(off))
	if i < 0 {
		return &t.Rules[0]
	}
	return &t.Rules[t.Rows.Index[i]]
}
