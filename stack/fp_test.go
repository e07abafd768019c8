package stack

import (
	"debug/elf"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/borescope/borescope/stack/internal/stacktest"
)

// words is memory of 64-bit words from addr on.
func words(addr uint64, w ...uint64) MemoryRange { return MemoryRange{addr, stacktest.Words(w...)} }

func fpRegs(m elf.Machine, pc, sp, fp uint64) *Regs {
	r := &Regs{Machine: m}
	r.SetPC(pc)
	r.SetSP(sp)
	r.SetFP(fp)
	return r
}

func pcs(frames []Frame) []uint64 {
	var out []uint64
	for _, f := range frames {
		out = append(out, f.PC)
	}
	return out
}

func TestFPWalker(t *testing.T) {
	const x86, arm = elf.EM_X86_64, elf.EM_AARCH64
	noKernel := func(a uint64) bool { return a < 1<<47 }
	for _, c := range []struct {
		name string
		r    *Regs
		mem  Memory
		w    FPWalker
		max  int
		want []uint64
		end  StopReason
	}{
		{"bottom_zero_fp", fpRegs(x86, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 0x20, 0, 0x30), FPWalker{}, 9, []uint64{0x10, 0x20, 0x30}, StopBottom},
		{"bottom_zero_return", fpRegs(x86, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 0x20, 7, 0), FPWalker{}, 9, []uint64{0x10, 0x20}, StopBottom},
		{"limit", fpRegs(x86, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 0x20, 0, 0x30), FPWalker{}, 2, []uint64{0x10, 0x20}, StopLimit},
		{"limit_exact", fpRegs(x86, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 0x20, 0, 0x30), FPWalker{}, 3, []uint64{0x10, 0x20, 0x30}, StopBottom},
		{"loop", fpRegs(x86, 0x10, 0x1000, 0x1000), words(0x1000, 0x1000, 0x20), FPWalker{}, 99, []uint64{0x10, 0x20}, StopLoop},
		{"below_sp", fpRegs(x86, 0x10, 0x2000, 0x1000), words(0x1000, 0x1010, 0x20), FPWalker{}, 99, []uint64{0x10}, StopLoop},
		{"not_aligned", fpRegs(x86, 0x10, 0x1000, 0x1003), words(0x1000, 0, 0, 0), FPWalker{}, 99, []uint64{0x10}, StopSuspect},
		{"wraps", fpRegs(x86, 0x10, 0x1000, ^uint64(7)), words(0x1000, 0), FPWalker{}, 99, []uint64{0x10}, StopSuspect},
		{"not_code", fpRegs(x86, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 1<<60), FPWalker{Executable: noKernel}, 99, []uint64{0x10}, StopSuspect},
		{"no_memory", fpRegs(x86, 0x10, 0x1000, 0x1008), words(0x1000, 0, 0), FPWalker{}, 99, []uint64{0x10}, StopBadMemory},
		{"no_pc", &Regs{Machine: x86}, words(0, 0), FPWalker{}, 99, nil, StopNone},
		{"no_space", fpRegs(x86, 0x10, 0, 0), words(0, 0), FPWalker{}, 0, nil, StopLimit},
		// Words of four bytes, two of which are one of eight.
		{"i386", fpRegs(elf.EM_386, 0x10, 0x1000, 0x1004), words(0x1000, 0x100c<<32, 0x20, 0x30), FPWalker{}, 9, []uint64{0x10, 0x20, 0x30}, StopBottom},
		{"i386_not_aligned", fpRegs(elf.EM_386, 0x10, 0x1000, 0x1002), words(0x1000, 0, 0), FPWalker{}, 9, []uint64{0x10}, StopSuspect},
		{"arm", fpRegs(elf.EM_ARM, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 0x20, 0, 0x30), FPWalker{}, 9, []uint64{0x10}, StopCompat},
		{"go_arm64", fpRegs(arm, 0x10, 0x1008, 0x1000), words(0x1000, 0, 0x20), FPWalker{}, 9, []uint64{0x10, 0x20}, StopBottom},
		{"pac", fpRegs(arm, 0x10, 0x1000, 0x1000), words(0x1000, 0x1010, 0x2a7f_ffff_8000_0020, 0, 0x0055_0000_0000_0030), FPWalker{}, 9, []uint64{0x10, 0xffff_8000_0020, 0x30}, StopBottom},
		{"pac_kernel", fpRegs(arm, 0x10, 0x1000, 0x1000), words(0x1000, 0, 0x12f3_8000_1000_0020), FPWalker{}, 9, []uint64{0x10, 0xffff_8000_1000_0020}, StopBottom},
		{"pac_mask", fpRegs(arm, 0x10, 0x1000, 0x1000), words(0x1000, 0, 0x007f_0000_0000_0020), FPWalker{PACMask: 0x0070_0000_0000_0000}, 9, []uint64{0x10, 0x000f_0000_0000_0020}, StopBottom},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames := make([]Frame, c.max)
			n, end := c.w.Walk(frames, c.r, c.mem)
			if got := pcs(frames[:n]); !slices.Equal(got, c.want) || end != c.end {
				t.Errorf("got %#x %v, want %#x %v", got, end, c.want, c.end)
			}
			for i, f := range frames[:n] {
				if f.Return != (i > 0) || f.Source != map[bool]FrameSource{false: SourceRegs, true: SourceFP}[i > 0] {
					t.Errorf("frame %d: %+v", i, f)
				}
			}
		})
	}
}

func TestFPWalkerAllocatesNothing(t *testing.T) {
	r, mem := deepFPStack(100)
	var w FPWalker
	frames := make([]Frame, MaxFrames)
	if n, end := w.Walk(frames, r, mem); n != 101 || end != StopBottom {
		t.Fatalf("%d frames, %v", n, end)
	}
	if n := testing.AllocsPerRun(100, func() { w.Walk(frames, r, mem) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// deepFPStack is a stack of n frames of 32 bytes each above the leaf.
func deepFPStack(n int) (*Regs, Memory) {
	w := make([]uint64, 4*n)
	for i := range n {
		w[4*i], w[4*i+1] = 0x7000_0000+uint64(32*(i+1)), 0x400000+uint64(i)
	}
	w[4*(n-1)] = 0
	return fpRegs(elf.EM_X86_64, 0x400000, 0x7000_0000, 0x7000_0000), NewRanges(words(0x7000_0000, w...))
}

func FuzzFPWalker(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint64(0x1000), uint64(0x1000), false)
	f.Add(words(0x1000, 0x1010, 0x20, 0, 0x30).Data, uint64(0x1000), uint64(0x1000), true)
	f.Fuzz(func(t *testing.T, data []byte, sp, fp uint64, arm bool) {
		r := fpRegs(elf.EM_X86_64, 1, sp, fp)
		if arm {
			r.Machine = elf.EM_AARCH64
		}
		var w FPWalker
		frames := make([]Frame, 1000)
		n, end := w.Walk(frames, r, MemoryRange{0x1000, data})
		if end == StopUnknown {
			t.Fatal("no reason")
		}
		if n-1 > len(data)/8 { // each record is read once, further up
			t.Fatalf("%d frames from %d bytes", n, len(data))
		}
	})
}

func BenchmarkFPWalker(b *testing.B) {
	r, mem := deepFPStack(100)
	var w FPWalker
	frames := make([]Frame, MaxFrames)
	for b.Loop() {
		w.Walk(frames, r, mem)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/frame")
}

func TestRanges(t *testing.T) {
	m := NewRanges(MemoryRange{0x20, []byte("wxyz")}, MemoryRange{0x10, []byte("abcd")}, MemoryRange{0x14, []byte("efgh")}, MemoryRange{0x18, nil},
		MemoryRange{0xffff_ffff_ffff_fffc, []byte("last")})
	for _, c := range []struct {
		addr uint64
		n    int
		want string
	}{
		{0x10, 4, "abcd"},
		{0x12, 4, "cdef"},
		{0x10, 8, "abcdefgh"},
		{0x10, 9, ""},
		{0xf, 2, ""},
		{0x18, 1, ""},
		{0x20, 4, "wxyz"},
		{0x24, 1, ""},
		{0, 1, ""},
		{0xffff_ffff_ffff_fffc, 4, "last"},
		{0xffff_ffff_ffff_fffe, 4, ""},
	} {
		b := make([]byte, c.n)
		err := m.ReadMemory(b, c.addr)
		if c.want == "" {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%#x+%d: error %v", c.addr, c.n, err)
			}
		} else if err != nil || string(b) != c.want {
			t.Errorf("%#x+%d: %q, %v", c.addr, c.n, b, err)
		}
	}
}

func TestMemoryRangeMatchesRanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	one := MemoryRange{1000, []byte("0123456789")}
	many := NewRanges(one)
	for range 1000 {
		addr, b, c := 990+rnd.Uint64N(30), make([]byte, 1+rnd.IntN(12)), make([]byte, 12)
		c = c[:len(b)]
		e1, e2 := one.ReadMemory(b, addr), many.ReadMemory(c, addr)
		if (e1 == nil) != (e2 == nil) || e1 == nil && !slices.Equal(b, c) {
			t.Fatalf("%d+%d: %q %v, %q %v", addr, len(b), b, e1, c, e2)
		}
	}
}
