package bpfwalk

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// A copied stack of an interrupt that leads back to the thread's own stack is
// walked over both; a state that is cut off anywhere gives fewer frames and no
// panic.
func TestCopiedKernel(t *testing.T) {
	const irq, thread = stacktest.KernelStack - 0x10000, stacktest.KernelStack
	var c KernelCopier
	state := make([]byte, c.StateSize())
	o := binary.NativeEndian
	put := func(off int, v uint64) { o.PutUint64(state[off:], v) }
	put(kcAddr, irq)
	o.PutUint32(state[kcLen:], kernelStep)
	o.PutUint32(state[kcTaken:], rules.ThreadSize)
	put(kcTask, thread)
	put(kcRegs+amd64RegsIP, stacktest.KernelCode+0x710)
	put(kcRegs+amd64RegsSP, irq+8)
	put(kcData+8, thread+0x100) // where the interrupt came
	put(kcData+kernelStep+0x100, stacktest.KernelCode+0x10)

	k := c.Decode(state)
	if k.Regs.Machine != elf.EM_X86_64 || len(k.Stack.Data) != kernelStep || len(k.Thread.Data) != rules.ThreadSize {
		t.Fatalf("%+v, %d and %d bytes", k.Regs, len(k.Stack.Data), len(k.Thread.Data))
	}
	ip, entries := stacktest.ORC()
	orc, err := stack.NewORC(ip, entries, stacktest.KernelCode, rules.ORC3)
	if err != nil {
		t.Fatal(err)
	}
	w := stack.ORCWalker{Tables: []*stack.ORCTable{orc.Table(stacktest.KernelCode, stacktest.KernelCode+0x2000, 0, nil)}}
	var frames [8]stack.Frame
	n, end := k.Walk(frames[:], &w)
	if got, want := pcs(frames[:n]), []uint64{stacktest.KernelCode + 0x710, stacktest.KernelCode + 0x10}; !slices.Equal(got, want) || end != stack.StopBottom {
		t.Errorf("%#x %v, want %#x", got, end, want)
	}
	if allocs := testing.AllocsPerRun(100, func() { k.Walk(frames[:], &w) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	for size := range kcData + kernelStep + 0x108 {
		k := c.Decode(state[:size])
		if m, end := k.Walk(frames[:], &w); end == stack.StopBottom || m > 1 {
			t.Fatalf("%d bytes: %d frames, %v", size, m, end)
		}
	}
	clear(state[kcRegs:kcData])
	k = c.Decode(state)
	if n, end := k.Walk(frames[:], &w); n != 0 || end != stack.StopNone {
		t.Errorf("in the program's own code: %d frames, %v", n, end)
	}
}

func pcs(frames []stack.Frame) (out []uint64) {
	for _, f := range frames {
		out = append(out, f.PC)
	}
	return out
}
