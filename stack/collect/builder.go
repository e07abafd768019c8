package collect

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// Flags of bpf_map_update_elem, include/uapi/linux/bpf.h.
const (
	bpfAny     = 0
	bpfNoExist = 1
)

// builder collects instructions; a label names the next one added.
type builder struct {
	insns   asm.Instructions
	pending string
	labels  int
}

func (b *builder) add(insns ...asm.Instruction) {
	if b.pending != "" {
		insns[0] = insns[0].WithSymbol(b.pending)
		b.pending = ""
	}
	b.insns = append(b.insns, insns...)
}

// label names the next instruction. Two labels on one place get an instruction
// that does nothing between them.
func (b *builder) label(name string) {
	if b.pending != "" {
		b.add(asm.Ja.Label(name))
	}
	b.pending = name
}

// unique returns a label that no other call returns.
func (b *builder) unique(name string) string {
	b.labels++
	return fmt.Sprintf("%s_%d", name, b.labels)
}

// loadMap puts a map's address into r.
func (b *builder) loadMap(r asm.Register, name string) {
	b.add(asm.LoadMapPtr(r, 0).WithReference(name))
}

// lookup looks up the key at base+off: R0 is its value's address, or 0.
func (b *builder) lookup(name string, base asm.Register, off int32) {
	b.loadMap(asm.R1, name)
	b.add(
		asm.Mov.Reg(asm.R2, base),
		asm.Add.Imm(asm.R2, off),
		asm.FnMapLookupElem.Call(),
	)
}

// lookupIndex looks up a constant index of an array.
func (b *builder) lookupIndex(name string, index int32) {
	b.add(asm.StoreImm(asm.RFP, slotIndex, int64(index), asm.Word))
	b.lookup(name, asm.RFP, slotIndex)
}

// update stores the value in slotValue under the key at base+off: R0 is 0, or
// a negative errno.
func (b *builder) update(name string, base asm.Register, off, flags int32) {
	b.loadMap(asm.R1, name)
	b.add(
		asm.Mov.Reg(asm.R2, base),
		asm.Add.Imm(asm.R2, off),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, slotValue),
		asm.Mov.Imm(asm.R4, flags),
		asm.FnMapUpdateElem.Call(),
	)
}

// count adds one to a counter of this CPU. The add is atomic because an
// interrupt may come between the halves of any other.
func (b *builder) count(counter int32) {
	counted := b.unique("counter")
	b.lookupIndex(mapCounters, counter)
	b.add(
		asm.JEq.Imm(asm.R0, 0, counted),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
	b.label(counted)
}
