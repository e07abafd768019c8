package perfdata

import (
	"bytes"
	"debug/elf"
	"iter"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/stack"
)

// perfSamples are two samples of one process, between which it maps another file.
func perfSamples() iter.Seq[*Sample] {
	one := stack.NewModules(stack.Module{Start: 0x1000, End: 0x2000, Offset: 0x3000, Name: "/bin/one"})
	two := stack.NewModules(one.All()[0], stack.Module{Start: 0x4000, End: 0x6000, Name: "/lib/two"})
	return slices.Values([]*Sample{
		{
			PID: 7, TID: 8, CPU: 1, Comm: "bash", Time: 10, Period: 3, IP: 0x1010, Chain: []uint64{^uint64(0xfff), 0x1010, 0x1020}, KernelFrames: 1,
			Kernel: true, Modules: one,
		},
		{PID: 7, TID: 8, Comm: "sh", Time: 20, Period: 1, IP: 0x4010, Modules: two},
	})
}

// What was written is read back.
func TestWritePerfData(t *testing.T) {
	for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		var b bytes.Buffer
		if err := Write(&b, perfSamples(), &Options{Machine: m}); err != nil {
			t.Fatal(err)
		}
		p, err := New(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		p.Root = fstest.MapFS{}
		want := slices.Collect(perfSamples())
		samples, _ := p.Samples()
		n := 0
		for s := range samples {
			w := want[n]
			n++
			if s.PID != w.PID || s.TID != w.TID || s.CPU != w.CPU || s.Comm != w.Comm || s.Time != w.Time || s.Period != w.Period || s.IP != w.IP || s.Kernel != w.Kernel {
				t.Errorf("%v: got %+v, want %+v", m, s, w)
			}
			if w.Chain == nil {
				w.Chain = []uint64{w.IP}
			}
			if !slices.Equal(s.Chain, w.Chain) || s.KernelFrames != w.KernelFrames {
				t.Errorf("%v: chain %#x, %d of the kernel", m, s.Chain, s.KernelFrames)
			}
			mod := s.Modules.Find(w.IP)
			if wm := w.Modules.Find(w.IP); mod == nil || mod.Start != wm.Start || mod.End != wm.End || mod.Offset != wm.Offset || mod.Name != wm.Name {
				t.Errorf("%v: module %+v, want %+v", m, mod, wm)
			}
		}
		if n != len(want) || p.Machine != m {
			t.Errorf("%d samples of %v", n, p.Machine)
		}
	}
	if err := Write(nil, nil, &Options{Machine: elf.EM_RISCV}); err == nil {
		t.Error("riscv accepted")
	}
}

// Registers and stacks are read back as they were written, cut off where a
// record ends; the chain is then the kernel's part.
func TestWritePerfDataUserStacks(t *testing.T) {
	mods := stack.NewModules(stack.Module{Start: 0x1000, End: 0x2000, Name: "/bin/one"}).WithData(
		stack.Module{Start: 0x3000, End: 0x4000, Offset: 0x2000, Name: "/bin/one"}, stack.Module{Start: 0x800, End: 0x1000, Name: "/bin/one"})
	for m, machine := range map[elf.Machine]elf.Machine{ // the latter is the system's
		elf.EM_X86_64: elf.EM_X86_64, elf.EM_AARCH64: elf.EM_AARCH64, elf.EM_386: elf.EM_X86_64, elf.EM_ARM: elf.EM_AARCH64,
	} {
		regs := &stack.Regs{Machine: m}
		regs.SetPC(0x1010)
		regs.SetSP(0x7080)
		regs.SetFP(0x7100)
		long := make([]byte, 70_000)
		for i := range long {
			long[i] = byte(i)
		}
		written := []*Sample{
			{PID: 7, TID: 7, Comm: "a", IP: 0x1010, Time: 1, Regs: regs, Stack: stack.MemoryRange{Addr: 0x7000, Data: long[:1024]}, Modules: mods},
			{PID: 7, TID: 7, Comm: "a", IP: 0x1010, Time: 2, Regs: regs, Stack: stack.MemoryRange{Addr: 0x7080, Data: long}, Modules: mods},
			{PID: 7, TID: 7, Comm: "a", IP: 0x1010, Time: 3, Regs: regs, Stack: stack.MemoryRange{Addr: 0x8000, Data: long}, Modules: mods},
			{
				PID: 7, TID: 7, Comm: "a", IP: ^uint64(0xfff), Time: 4, Kernel: true, Modules: mods,
				Regs: regs, Stack: stack.MemoryRange{Addr: 0x7080, Data: long[:8]}, Chain: []uint64{^uint64(0xfff), 0x1010}, KernelFrames: 1,
			},
			{PID: 7, TID: 7, Comm: "a", IP: 0x1010, Time: 5, Chain: []uint64{0x1010, 0x1020}, Modules: mods},
		}
		var b bytes.Buffer
		if err := Write(&b, slices.Values(written), &Options{Machine: machine, UserStacks: true}); err != nil {
			t.Fatal(err)
		}
		p, err := New(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		p.Root = fstest.MapFS{}
		samples, _ := p.Samples()
		n := 0
		for s := range samples {
			w := written[n]
			n++
			if s.Time != w.Time || s.KernelFrames != w.KernelFrames || (s.Regs == nil) != (w.Regs == nil) {
				t.Fatalf("%v: got %+v, want %+v", m, s, w)
			}
			if data := s.Modules.Data(); len(data) != 2 || data[1].Start != 0x3000 || data[1].Offset != 0x2000 || data[1].Name != "/bin/one" {
				t.Errorf("%v: data %+v", m, data)
			}
			if s.Regs == nil {
				if !slices.Equal(s.Chain, w.Chain) {
					t.Errorf("%v: chain %#x", m, s.Chain)
				}
				continue
			}
			if s.Regs.Machine != m || s.Regs.PC() != regs.PC() || s.Regs.SP() != regs.SP() || s.Regs.FP() != regs.FP() || !slices.Equal(s.Chain, w.Chain[:w.KernelFrames]) {
				t.Errorf("%v: registers %+v, chain %#x", m, s.Regs, s.Chain)
			}
			if n == 3 { // perf has no place for a stack that begins further up
				w.Stack = stack.MemoryRange{}
			}
			// What lies at an address is what lay there.
			got, want := make([]byte, 8), make([]byte, 8)
			for _, off := range []uint64{0, 8, 888, 60_000} {
				errGot, errWant := s.Stack.ReadMemory(got, regs.SP()+off), w.Stack.ReadMemory(want, regs.SP()+off)
				if (errGot == nil) != (errWant == nil) || errGot == nil && !bytes.Equal(got, want) {
					t.Errorf("%v: sample %d: at %d %x %v, want %x %v", m, n, off, got, errGot, want, errWant)
				}
			}
		}
		if n != len(written) {
			t.Errorf("%v: %d samples", m, n)
		}
	}
}
