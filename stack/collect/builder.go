package collect

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/bpfasm"
	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
)

// Flags of bpf_map_update_elem, include/uapi/linux/bpf.h.
const (
	bpfAny     = 0
	bpfNoExist = 1
)

// builder collects the instructions of a program.
type builder struct {
	bpfasm.Assembler
	key int16 // where in the scratch slot the key lies that is being built
	// windowed are the maps that there are two of: findHalves leaves the ones to write to on
	// the stack.
	windowed []string
}

// begin keeps the context of p, whose program this is.
func (b *builder) begin(p *probe.ProgramPlan) {
	b.Add(asm.Mov.Reg(regCtx, asm.R1))
	if p.Preemptible() {
		b.Add(kernel.OwnStack()...)
	}
}

// loadMap puts a map's address into r.
func (b *builder) loadMap(r asm.Register, name string) {
	if slices.Contains(b.windowed, name) {
		b.Add(asm.LoadMem(r, asm.RFP, slotOf(name), asm.DWord))
		return
	}
	b.Add(asm.LoadMapPtr(r, 0).WithReference(name))
}

// slotOf is where findHalves leaves a map.
func slotOf(name string) int16 {
	if name == mapSegments {
		return slotSegments
	}
	return slotTable
}

// findHalves finds the maps that are written to in the present window, all of the same one,
// or goes to none.
func (b *builder) findHalves(none string) {
	if b.windowed == nil {
		return
	}
	b.lookupIndex(mapMode, 0)
	b.Add(
		asm.JEq.Imm(asm.R0, 0, none),
		asm.LoadMem(asm.R1, asm.R0, wordWindow, asm.Word),
		asm.StoreMem(asm.RFP, slotIndex, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, slotWindow, asm.R1, asm.Word),
	)
	for _, name := range b.windowed {
		b.lookup(whole(name), asm.RFP, slotIndex)
		b.Add(
			asm.JEq.Imm(asm.R0, 0, none),
			asm.StoreMem(asm.RFP, slotOf(name), asm.R0, asm.DWord),
		)
	}
}

// lookup looks up the key at base+off: R0 is its value's address, or 0.
func (b *builder) lookup(name string, base asm.Register, off int32) {
	b.loadMap(asm.R1, name)
	b.Add(
		asm.Mov.Reg(asm.R2, base),
		asm.Add.Imm(asm.R2, off),
		asm.FnMapLookupElem.Call(),
	)
}

// lookupIndex looks up a constant index of an array.
func (b *builder) lookupIndex(name string, index int32) {
	b.Add(asm.StoreImm(asm.RFP, slotIndex, int64(index), asm.Word))
	b.lookup(name, asm.RFP, slotIndex)
}

// update stores the value at from+at under the key at base+off: R0 is 0, or a
// negative errno.
func (b *builder) update(name string, base asm.Register, off int32, from asm.Register, at,
	flags int32,
) {
	b.loadMap(asm.R1, name)
	b.Add(
		asm.Mov.Reg(asm.R2, base),
		asm.Add.Imm(asm.R2, off),
		asm.Mov.Reg(asm.R3, from),
		asm.Add.Imm(asm.R3, at),
		asm.Mov.Imm(asm.R4, flags),
		asm.FnMapUpdateElem.Call(),
	)
}

// remove deletes the key at base+off.
func (b *builder) remove(name string, base asm.Register, off int32) {
	b.loadMap(asm.R1, name)
	b.Add(
		asm.Mov.Reg(asm.R2, base),
		asm.Add.Imm(asm.R2, off),
		asm.FnMapDeleteElem.Call(),
	)
}

// move copies size bytes, a multiple of 8, from one place to another. It changes R1.
func (b *builder) move(to asm.Register, toOff int16, from asm.Register, fromOff int16, size int) {
	for i := int16(0); i < int16(size); i += 8 {
		b.Add(
			asm.LoadMem(asm.R1, from, fromOff+i, asm.DWord),
			asm.StoreMem(to, toOff+i, asm.R1, asm.DWord),
		)
	}
}

// loadField loads a field of the event's context, extended to 64 bits by its
// type. It changes nothing but r.
func (b *builder) loadField(r asm.Register, p *probe.ProgramPlan, name string) error {
	i := slices.IndexFunc(p.Fields, func(a probe.Arg) bool { return a.Name == name })
	if i < 0 {
		have := make([]string, len(p.Fields))
		for i := range p.Fields {
			have[i] = p.Fields[i].Name
		}
		return fmt.Errorf("collect: %v has no field %q: it has %q", p.Sites[0].Target, name, have)
	}
	a := &p.Fields[i]
	sizes := map[int]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word, 8: asm.DWord}
	size, ok := sizes[a.Loc.Size]
	if a.Loc.Kind != probe.LocationContext || a.Loc.Reason != "" || !ok {
		return fmt.Errorf("collect: field %q of %v is not a number that can be read: %v", name,
			p.Sites[0].Target, a.Loc)
	}
	b.Add(asm.LoadMem(r, regCtx, int16(a.Loc.Offset), size))
	if ctype.Signed(a.Type) && size != asm.DWord {
		bits := int32(64 - 8*a.Loc.Size)
		b.Add(asm.LSh.Imm(r, bits), asm.ArSh.Imm(r, bits))
	}
	return nil
}

// count adds one to a counter of this CPU. The add is atomic because an
// interrupt may come between the halves of any other.
func (b *builder) count(counter int32) {
	counted := b.Unique("counter")
	b.lookupIndex(mapCounters, counter)
	b.Add(
		asm.JEq.Imm(asm.R0, 0, counted),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
	b.Label(counted)
}
