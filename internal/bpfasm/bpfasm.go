// Package bpfasm collects BPF instructions and their labels, for what generates programs.
package bpfasm

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// Assembler collects instructions. The zero value has none.
//
// A symbol of package asm belongs to one instruction, and an instruction has one symbol. Of
// several labels of one instruction, the first is its symbol, and Finish directs jumps to the
// others there.
type Assembler struct {
	// Insns are the instructions so far. A generator may change them in place.
	Insns  asm.Instructions
	labels []string          // of the next instruction
	same   map[string]string // labels to the symbols of their instructions
	unique int
}

// Add appends instructions. The first has the labels since the last call.
func (a *Assembler) Add(insns ...asm.Instruction) {
	if len(insns) == 0 {
		return
	}
	n := len(a.Insns)
	a.Insns = append(a.Insns, insns...)
	if len(a.labels) == 0 {
		return
	}
	first := &a.Insns[n]
	if s := first.Symbol(); s != "" {
		a.labels = slices.Insert(a.labels, 0, s)
	}
	*first = first.WithSymbol(a.labels[0])
	for _, l := range a.labels[1:] {
		if a.same == nil {
			a.same = map[string]string{}
		}
		a.same[l] = a.labels[0]
	}
	a.labels = a.labels[:0]
}

// Label names the next instruction.
func (a *Assembler) Label(name string) { a.labels = append(a.labels, name) }

// Unique returns a name that no other call returns and that begins with prefix.
func (a *Assembler) Unique(prefix string) string {
	a.unique++
	return fmt.Sprint(prefix, a.unique)
}

// Finish returns the instructions. Jumps to a label that no instruction follows stay as they
// are, and package asm reports them.
func (a *Assembler) Finish() asm.Instructions {
	for i, in := range a.Insns {
		if to, ok := a.same[in.Reference()]; ok && !in.IsLoadFromMap() {
			a.Insns[i] = in.WithReference(to)
		}
	}
	return a.Insns
}

// Atomic returns a 64-bit atomic operation. It also sets the operation as the constant, where
// the kernel expects it: cilium/ebpf v0.22.0 loses it when it encodes the instruction, which
// turns every operation into an addition.
func Atomic(op asm.AtomicOp, dst, src asm.Register, off int16) asm.Instruction {
	in := op.Mem(dst, src, asm.DWord, off)
	in.Constant = int64(op >> 8)
	return in
}

// StoreImm is asm.StoreImm, which refuses 64 bits although the kernel has that form: it
// sign-extends the immediate (BPF_ST | BPF_DW).
func StoreImm(dst asm.Register, off int, v int32, size asm.Size) asm.Instruction {
	return asm.Instruction{
		OpCode: asm.StoreImmOp(size), Dst: dst, Offset: int16(off),
		Constant: int64(v),
	}
}
