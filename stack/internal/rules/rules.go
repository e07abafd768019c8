package rules

import "debug/elf"

// CFAKind says how a rule computes the canonical frame address: the stack
// pointer in the caller, before it called.
type CFAKind uint8

const (
	CFANone   CFAKind = iota // no rule: the address is covered by no FDE
	CFAReg                   // reg + off
	CFADeref                 // *(reg + off) + off2
	CFAPLT                   // reg + off, and 8 more if pc&15 >= off2
	CFAExpr                  // expression number off
	CFASignal                // the frame that the kernel pushed for a signal handler
	CFASwitch                // reg + off, on another stack
	CFAGrow                  // as Go's descriptor of the goroutine says: see goGrow
	CFAIndex                 // *(reg + off + 8 * AMD64R9) + off2
)

// CFA is how a frame's CFA is found.
type CFA struct {
	Kind CFAKind
	Reg  uint8
	Off  int32
	Off2 int32
}

// RegKind says how a rule restores a register of the caller.
type RegKind uint8

const (
	RegSame    RegKind = iota // it still holds the caller's value
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

// SavedReg is a RegRule and the register it is for.
type SavedReg struct {
	Num uint8
	RegRule
}

// Rule is one distinct way to unwind. Tables hold each once.
type Rule struct {
	How   uint8 // the stack.FrameSource that frames found by it say; 0: the table's
	CFA   CFA
	Saved []SavedReg // by number; registers that are not here keep their value
	// Lo and hi bound the slots that are counted from the CFA.
	Lo, Hi int32
}

// Table is a file's rules, and where each holds.
type Table struct {
	Machine elf.Machine
	// Base is the address, in the file's own numbering, that the rows count from.
	Base  uint64
	Rows  Rows
	Rules []Rule // rule 0 says that none is known
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
