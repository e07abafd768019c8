package stack

import (
	"bytes"
	"debug/elf"
	"iter"
	"slices"
	"testing"
	"testing/fstest"
)

// perfSamples are two samples of one process, between which it maps another file.
func perfSamples() iter.Seq[*PerfSample] {
	one := NewModules(Module{Start: 0x1000, End: 0x2000, Offset: 0x3000, Name: "/bin/one"})
	two := NewModules(one.list[0], Module{Start: 0x4000, End: 0x6000, Name: "/lib/two"})
	return slices.Values([]*PerfSample{
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
		if err := WritePerfData(&b, perfSamples(), &PerfDataOptions{Machine: m}); err != nil {
			t.Fatal(err)
		}
		p, err := NewPerfData(bytes.NewReader(b.Bytes()), int64(b.Len()))
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
	if err := WritePerfData(nil, nil, &PerfDataOptions{Machine: elf.EM_RISCV}); err == nil {
		t.Error("riscv accepted")
	}
}
