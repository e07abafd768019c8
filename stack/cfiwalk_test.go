package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

func ehTable(f *stacktest.EhFrame) *CFITable {
	m := elf.EM_X86_64
	if f.ARM64 {
		m = elf.EM_AARCH64
	}
	b := newCFIBuilder(m, 0, 1<<30)
	b.section(f.Bytes(), 0, false)
	return b.table()
}

// Instructions of test programs: a caller at 0x1000 whose frame is pushed
// below it at 0x2000.
func testModules(t *CFITable) *Modules {
	return NewModules(Module{Start: 0x1000, End: 0x9000, CFI: t})
}

func TestCFIWalker(t *testing.T) {
	const sp = 0x7000
	plain := func() *stacktest.EhFrame {
		return new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP)
	}
	regs := func(pc uint64) *Regs {
		r := fpRegs(elf.EM_X86_64, pc, sp, 0)
		r.Set(AMD64R10, 0x7010)
		r.Set(AMD64R13, 0x7008)
		return r
	}
	for _, c := range []struct {
		name  string
		frame *stacktest.EhFrame
		r     *Regs
		mem   Memory
		want  []uint64
		end   StopReason
	}{
		{"entry", plain().FDE(0x2000, 0x100, ""), regs(0x2000), words(sp, 0x1010), []uint64{0x2000, 0x1010}, StopBottom},
		{"pushed", plain().FDE(0x2000, 0x100, "", 0x41, cfaDefCFAOffset, 24), regs(0x2005), words(sp, 1, 2, 0x1010), []uint64{0x2005, 0x1010}, StopBottom},
		{"by_r10", plain().FDE(0x2000, 0x100, "", cfaDefCFA, AMD64R10, 0), regs(0x2005), words(sp, 1, 0x1010), []uint64{0x2005, 0x1010}, StopBottom},
		{
			"drap", plain().FDE(0x2000, 0x100, "", cfaDefCFAExpr, 3, opBreg0+AMD64R13, 8, opDeref), regs(0x2005),
			words(sp, 0, 0, 0x7028, 0, 0x1010),
			[]uint64{0x2005, 0x1010},
			StopBottom,
		},
		{
			"deref_plus", plain().FDE(0x2000, 0x100, "", cfaDefCFAExpr, 5, opBreg0+AMD64RSP, 8, opDeref, opPlusUC, 8), regs(0x2005),
			words(sp, 0, 0x7018, 0, 0x1010),
			[]uint64{0x2005, 0x1010},
			StopBottom,
		},
		{
			"expression", plain().FDE(0x2000, 0x100, "", cfaDefCFAExpr, 5, opBreg0+AMD64RSP, 8, opLit0+16, opOr, opNop), regs(0x2005),
			words(sp, 0, 0, 0x1010),
			[]uint64{0x2005, 0x1010},
			StopBottom,
		},
		{
			"plt_before_push", plain().FDE(0x2000, 0x100, "", append([]byte{cfaDefCFAExpr, 11}, pltExpr...)...), regs(0x2006),
			words(sp, 0x1010),
			[]uint64{0x2006, 0x1010},
			StopBottom,
		},
		{
			"plt_after_push", plain().FDE(0x2000, 0x100, "", append([]byte{cfaDefCFAExpr, 11}, pltExpr...)...), regs(0x200b),
			words(sp, 5, 0x1010),
			[]uint64{0x200b, 0x1010},
			StopBottom,
		},
		{
			"restores_rbp", plain().FDE(0x2000, 0x100, "", cfaDefCFAOffset, 16, 0x80|AMD64RBP, 2).FDE(0x3000, 0x100, "", cfaDefCFA, AMD64RBP, 16, 0x80|AMD64RBP, 2),
			regs(0x2005), words(sp, 0x7020, 0x3005, 0, 0, 0, 0x1010),
			[]uint64{0x2005, 0x3005, 0x1010},
			StopBottom,
		},
		{
			"popped_rbp", // the slot lies below the stack pointer: rbp holds the caller's value
			plain().FDE(0x2000, 0x100, "", 0x80|AMD64RBP, 3).FDE(0x3000, 0x100, "", cfaDefCFA, AMD64RBP, 16),
			func() *Regs { r := regs(0x2005); r.SetFP(0x7010); return r }(), words(sp, 0x3005, 0, 0, 0x1010),
			[]uint64{0x2005, 0x3005, 0x1010},
			StopBottom,
		},
		{
			// It was taken for known, with the value that it had in the callee.
			"popped_unknown",
			plain().FDE(0x2000, 0x100, "", cfaUndefined, AMD64RBP).FDE(0x3000, 0x100, "", 0x80|AMD64RBP, 3).
				FDE(0x4000, 0x100, "", cfaDefCFA, AMD64RBP, 16),
			func() *Regs { r := regs(0x2005); r.SetFP(0x7010); return r }(), words(sp, 0x3005, 0x4005, 0, 0x1010),
			[]uint64{0x2005, 0x3005, 0x4005},
			StopNoRule,
		},
		{
			"noreturn_at_end", // a call at the very end of a function is looked up there
			plain().FDE(0x2000, 0x100, "").FDE(0x3000, 0x10, "", cfaDefCFAOffset, 16).FDE(0x3010, 0x10, "", cfaDefCFAOffset, 48),
			regs(0x2000), words(sp, 0x3010, 0, 0x1010),
			[]uint64{0x2000, 0x3010, 0x1010},
			StopBottom,
		},
		{
			// A register that no rule needs ended the walk where it could not be restored.
			"saved_in_unknown_register", plain().FDE(0x2000, 0x100, "", cfaRegister, AMD64RBX, AMD64R11), regs(0x2000),
			words(sp, 0x1010),
			[]uint64{0x2000, 0x1010},
			StopBottom,
		},
		{
			"saved_in_no_memory", plain().FDE(0x2000, 0x100, "", cfaExpression, AMD64RBX, 2, opBreg0+AMD64R13, 0x38), regs(0x2000),
			words(sp, 0x1010),
			[]uint64{0x2000, 0x1010},
			StopBottom,
		},
		{
			// It was taken for a register that is popped already.
			"stack_pointer_below", plain().FDE(0x2000, 0x100, "", cfaExpression, AMD64RSP, 2, opBreg0+AMD64R13, 0x68).FDE(0x3000, 0x100, ""),
			regs(0x2000), words(0x6ff0, 0x7018, 0, 0x3005, 0, 0, 0x1010),
			[]uint64{0x2000, 0x3005, 0x1010},
			StopBottom,
		},
		{"no_rule", plain(), regs(0x2005), words(sp, 0x1010), []uint64{0x2005}, StopNoRule},
		{"no_module", plain(), regs(0x9999), words(sp, 0x1010), []uint64{0x9999}, StopNoMapping},
		{"returns_nowhere", plain().FDE(0x2000, 0x100, ""), regs(0x2000), words(sp, 0xffff), []uint64{0x2000, 0xffff}, StopNoMapping},
		{"return_to_zero", plain().FDE(0x2000, 0x100, ""), regs(0x2000), words(sp, 0), []uint64{0x2000}, StopBottom},
		{"no_memory", plain().FDE(0x2000, 0x100, ""), regs(0x2000), words(0, 0), []uint64{0x2000}, StopBadMemory},
		{"down_the_stack", plain().FDE(0x2000, 0x100, "", cfaDefCFASF, AMD64RSP, 1), regs(0x2000), words(0x6ff0, 0x2005, 0x2005), []uint64{0x2000}, StopLoop},
		{"unknown_register", plain().FDE(0x2000, 0x100, "", cfaDefCFA, AMD64R15, 8), regs(0x2000), words(sp, 0x1010), []uint64{0x2000}, StopNoRule},
		{"bad_expression", plain().FDE(0x2000, 0x100, "", cfaDefCFAExpr, 1, opPlus), regs(0x2000), words(sp, 0x1010), []uint64{0x2000}, StopNoRule},
		{
			"endless_expression", plain().FDE(0x2000, 0x100, "", cfaDefCFAExpr, 3, opSkip, 0xfd, 0xff), regs(0x2000), words(sp, 0x1010),
			[]uint64{0x2000},
			StopNoRule,
		},
		{
			"bad_instruction", // what follows it is unknown, what came before is not
			plain().FDE(0x2000, 0x100, "", 0x48, 0x3e), regs(0x2009), words(sp, 0x1010), []uint64{0x2009}, StopNoRule,
		},
		{"before_bad_instruction", plain().FDE(0x2000, 0x100, "", 0x48, 0x3e), regs(0x2007), words(sp, 0x1010), []uint64{0x2007, 0x1010}, StopBottom},
		{
			"over_jit_by_frame_pointer", plain().FDE(0x3000, 0x100, "", cfaDefCFA, AMD64RBP, 16),
			fpRegs(elf.EM_X86_64, 0x5000, sp, 0x7008), words(sp, 0, 0x7018, 0x3005, 0, 0x1010),
			[]uint64{0x5000, 0x3005, 0x1010},
			StopBottom,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := CFIWalker{Modules: testModules(ehTable(c.frame))}
			frames := make([]Frame, 20)
			n, end := w.Walk(frames, c.r, c.mem)
			if got := pcs(frames[:n]); !slices.Equal(got, c.want) || end != c.end {
				t.Errorf("got %#x %v, want %#x %v", got, end, c.want, c.end)
			}
		})
	}
}

// pltExpr is what the linker describes a PLT entry by.
var pltExpr = []byte{opBreg0 + AMD64RSP, 8, opBreg0 + AMD64RIP, 0, opLit0 + 15, opAnd, opLit0 + 11, opGe, opLit0 + 3, opShl, opPlus}

// The interrupted function above a signal handler is looked up by its exact
// program counter, and its registers are the saved ones.
func TestCFIWalkerSignal(t *testing.T) {
	sigreturn := []byte{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}
	table := ehTable(new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP).
		FDE(0x2000, 0x100, "").                          // the handler
		FDE(0x3000, 0x100, "", cfaDefCFA, AMD64RBP, 16). // the interrupted function
		FDE(0x4fff, 0x10, "S", append([]byte{cfaDefCFAExpr, 4}, opBreg0+AMD64RSP, 0xa0, 0x01, opDeref)...))
	frame := make([]uint64, 40)
	frame[0] = 0x5000 // the handler returns to the trampoline
	uc := frame[1:]
	uc[rules.AMD64SigRegs/8+10] = 0x8000 // rbp
	uc[rules.AMD64SigRegs/8+15] = 0x7f00 // rsp
	uc[rules.AMD64SigRegs/8+16] = 0x3000 // rip: the first instruction, where pc-1 is no good
	mem := NewRanges(words(0x7000, frame...), words(0x8000, 0, 0x1010))
	code := MemoryRange{0x6000, sigreturn}
	for _, c := range []struct {
		name  string
		frame uint64
		mem   Memory
	}{
		{"by_cfi", 0x5000, mem},
		{"by_code", 0x6000, NewRanges(words(0x7000, frame...), words(0x8000, 0, 0x1010), code)},
	} {
		t.Run(c.name, func(t *testing.T) {
			binary.LittleEndian.PutUint64(c.mem.(*Ranges).list[slices.IndexFunc(c.mem.(*Ranges).list, func(r MemoryRange) bool { return r.Addr == 0x7000 })].Data, c.frame)
			w := CFIWalker{Modules: testModules(table)}
			frames := make([]Frame, 20)
			n, end := w.Walk(frames, fpRegs(elf.EM_X86_64, 0x2000, 0x7000, 0), c.mem)
			if got := pcs(frames[:n]); !slices.Equal(got, []uint64{0x2000, c.frame, 0x3000, 0x1010}) || end != StopBottom {
				t.Fatalf("got %#x %v", got, end)
			}
			// The trampoline was not called: what lies before it is another function.
			if frames[2].Return || frames[1].Return || !frames[3].Return {
				t.Errorf("return addresses: %+v", frames[:n])
			}
		})
	}
}

// TestCFIWalkerEpilogue goes through code that nothing describes but what it does
// after the call: CPython's trampolines. Frame pointers led astray.
func TestCFIWalkerEpilogue(t *testing.T) {
	table := ehTable(new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP).FDE(0x2000, 0x100, ""))
	for _, c := range []struct {
		name string
		code []byte
		want []uint64
		end  StopReason
	}{
		{"trampoline", []byte{0x48, 0x83, 0xc4, 8, 0xc3, 0xcc, 0xcc, 0xcc}, []uint64{0x2000, 0x8007, 0x1010}, StopBottom},
		{"negative", []byte{0x48, 0x83, 0xc4, 0x88, 0xc3, 0xcc, 0xcc, 0xcc}, []uint64{0x2000, 0x8007}, StopNoRule},
		{"other_code", []byte{0x48, 0x83, 0xc4, 8, 0x90, 0xcc, 0xcc, 0xcc}, []uint64{0x2000, 0x8007}, StopNoRule},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := CFIWalker{Modules: testModules(table)}
			mem := NewRanges(words(0x7000, 0x8007, 0xaaaa, 0x1010), MemoryRange{0x8007, c.code})
			frames := make([]Frame, 20)
			n, end := w.Walk(frames, fpRegs(elf.EM_X86_64, 0x2000, 0x7000, 0x1234), mem)
			if got := pcs(frames[:n]); !slices.Equal(got, c.want) || end != c.end {
				t.Errorf("got %#x %v, want %#x %v", got, end, c.want, c.end)
			}
		})
	}
}

// TestCFIWalkerIndex is OpenSSL's bn_mul_mont, compact so that the BPF program
// knows it too (TestEncodeIndex): of P-384, 69 stacks of 100 were cut.
func TestCFIWalkerIndex(t *testing.T) {
	expr := []byte{opBreg0 + AMD64RSP, 8, opBreg0 + AMD64R9, 0, opLit0 + 8, opMul, opPlus, opDeref, opPlusUC, 8}
	table := ehTable(new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP).
		FDE(0x2000, 0x100, "", append([]byte{cfaDefCFAExpr, byte(len(expr))}, expr...)...))
	if rule := table.rules.Lookup(0x2000); rule.CFA.Kind != rules.CFAIndex {
		t.Fatalf("got %+v", rule.CFA)
	}
	regs := fpRegs(elf.EM_X86_64, 0x2000, 0x7000, 0)
	regs.Set(AMD64R9, 6)
	mem := NewRanges(words(0x7000+8+6*8, 0x7100), words(0x7100, 0x1010))
	w := CFIWalker{Modules: testModules(table)}
	dst := make([]Frame, 10)
	n, end := w.Walk(dst, regs, mem)
	if got := pcs(dst[:n]); !slices.Equal(got, []uint64{0x2000, 0x1010}) || end != StopBottom {
		t.Errorf("got %#x %v", got, end)
	}
}

// TestCFIWalkerNull calls a null pointer: the return address is what was pushed
// last, or in the link register. The stack was one frame.
func TestCFIWalkerNull(t *testing.T) {
	table := ehTable(new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP))
	armTable := ehTable((&stacktest.EhFrame{ARM64: true}).FDE(0x1000, 0x100, "", cfaUndefined, ARM64LR))
	arm := fpRegs(elf.EM_AARCH64, 0, 0x7000, 0)
	arm.Set(ARM64LR, 0x1010)
	for _, c := range []struct {
		name  string
		regs  *Regs
		table *CFITable
		mem   Memory
		want  []uint64
		end   StopReason
	}{
		{"amd64", fpRegs(elf.EM_X86_64, 0, 0x7000, 0), table, words(0x7000, 0x1010), []uint64{0, 0x1010}, StopBottom},
		{"offset", fpRegs(elf.EM_X86_64, 0x18, 0x7000, 0), table, words(0x7000, 0x1010), []uint64{0x18, 0x1010}, StopBottom},
		{"arm64", arm, armTable, words(0x7000), []uint64{0, 0x1010}, StopBottom},
		{"jumped", fpRegs(elf.EM_X86_64, 0, 0x7000, 0), table, words(0x7000, 5), []uint64{0}, StopNoMapping},
		{"no_memory", fpRegs(elf.EM_X86_64, 0, 0x7000, 0), table, words(0), []uint64{0}, StopNoMapping},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := CFIWalker{Modules: testModules(c.table)}
			frames := make([]Frame, 20)
			n, end := w.Walk(frames, c.regs, c.mem)
			if got := pcs(frames[:n]); !slices.Equal(got, c.want) || end != c.end {
				t.Errorf("got %#x %v, want %#x %v", got, end, c.want, c.end)
			}
		})
	}
}

func TestCFIWalkerARM64(t *testing.T) {
	const sp = 0x7000
	// stp x29, x30, [sp, #-16]!: CFA is sp+16, both saved below it.
	framed := []byte{cfaDefCFAOffset, 16, 0x80 | ARM64FP, 2, 0x80 | ARM64LR, 1}
	table := ehTable((&stacktest.EhFrame{ARM64: true}).
		FDE(0x1000, 0x100, "", cfaUndefined, ARM64LR).
		FDE(0x2000, 0x100, ""). // a leaf: the return address is in x30
		FDE(0x3000, 0x100, "", framed...).
		FDE(0x4000, 0x100, "S", framed...))
	w := CFIWalker{Modules: testModules(table)}
	frames := make([]Frame, 20)

	r := fpRegs(elf.EM_AARCH64, 0x2004, sp, 0)
	r.Set(ARM64LR, 0x0012_0000_0000_3008)
	n, end := w.Walk(frames, r, words(sp, 0, 0x7777_0000_0000_1010))
	if got := pcs(frames[:n]); !slices.Equal(got, []uint64{0x2004, 0x3008, 0x1010}) || end != StopBottom {
		t.Errorf("leaf: got %#x %v", got, end)
	}

	// a "leaf" that calls itself can't be: the same frame again and again
	r.Set(ARM64LR, 0x2004)
	if n, end = w.Walk(frames, r, words(sp, 0)); end != StopLoop || n != 2 {
		t.Errorf("loop: got %#x %v", pcs(frames[:n]), end)
	}

	// a signal frame: all registers from it
	sig := make([]uint64, 100)
	base := rules.ARM64SigRegs / 8
	sig[base+30], sig[base+31], sig[base+32] = 0x3008, 0x9000, 0x2000
	r = fpRegs(elf.EM_AARCH64, 0x4000, sp, 0)
	n, end = w.Walk(frames, r, NewRanges(words(sp, sig...), words(0x9000, 0, 0x1010)))
	if got := pcs(frames[:n]); !slices.Equal(got, []uint64{0x4000, 0x2000, 0x3008, 0x1010}) || end != StopBottom {
		t.Errorf("signal: got %#x %v", got, end)
	}
}

func TestCFITableRows(t *testing.T) {
	table := ehTable(new(stacktest.EhFrame).
		FDE(0x2000, 0x100, "", 0x44, cfaDefCFAOffset, 16, 0x7f, cfaDefCFAOffset, 32).
		FDE(0x1000, 0x20, ""). // out of order
		FDE(0x2000, 0x100, "", cfaDefCFAOffset, 99).
		FDE(0x1028, 0x10, ""). // a gap too short for a row
		FDE(0x3000, 0, ""))
	for addr, want := range map[uint64]int32{
		0xfff: -1, 0x1000: 8, 0x1027: 8, 0x1037: 8, 0x1038: -1, 0x1fff: -1, 0x2000: 8, 0x2003: 8, 0x2004: 16, 0x2042: 16,
		0x2043: 32, 0x20ff: 32, 0x2100: -1, 1 << 40: -1, math.MaxUint64: -1,
	} {
		r := table.rules.Lookup(addr)
		got := r.CFA.Off
		if r.CFA.Kind == rules.CFANone {
			got = -1
		}
		if got != want {
			t.Errorf("%#x: CFA rsp%+d, want rsp%+d", addr, got, want)
		}
		covers := table.rules.Lookup(addr).CFA.Kind != rules.CFANone
		if covers != (want >= 0) {
			t.Errorf("%#x: covers is %v", addr, covers)
		}
	}
}

func TestCFIFileErrors(t *testing.T) {
	if _, err := OpenCFI("/nonexistent"); err == nil {
		t.Error("no error for a file that is not there")
	}
	if _, err := OpenCFI("cfi_test.go"); err == nil || errors.Is(err, ErrNoTable) {
		t.Errorf("a text file: %v", err)
	}
}

func TestCFIWalkerAllocatesNothing(t *testing.T) {
	w, r, mem := deepCFIStack(100)
	frames := make([]Frame, MaxFrames)
	if n, end := w.Walk(frames, r, mem); n != 102 || end != StopBottom {
		t.Fatalf("%d frames, %v", n, end)
	}
	if n := testing.AllocsPerRun(100, func() { w.Walk(frames, r, mem) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// deepCFIStack is a stack of n frames of 64 bytes with three saved registers.
func deepCFIStack(n int) (*CFIWalker, *Regs, Memory) {
	f := new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP)
	for i := range 100 {
		f.FDE(0x2000+uint64(i)*32, 32, "", cfaDefCFAOffset, 64, 0x80|AMD64RBP, 2, 0x80|AMD64RBX, 3, 0x80|AMD64R12, 4)
	}
	w := make([]uint64, 8*(n+1))
	for i := range n {
		w[8*i+7] = 0x2010 + uint64(i%100)*32
	}
	w[8*n+7] = 0x1010
	return &CFIWalker{Modules: testModules(ehTable(f))}, fpRegs(elf.EM_X86_64, 0x2004, 0x7000, 0), NewRanges(words(0x7000, w...))
}

func BenchmarkCFIWalker(b *testing.B) {
	w, r, mem := deepCFIStack(100)
	frames := make([]Frame, MaxFrames)
	for b.Loop() {
		w.Walk(frames, r, mem)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/102, "ns/frame")
}

// FuzzCFI compiles any bytes as call frame information and walks by it.
func FuzzCFI(f *testing.F) {
	seed := new(stacktest.EhFrame).FDE(0x1000, 0x100, "", cfaUndefined, AMD64RIP).
		FDE(0x2000, 0x40, "S", 0x41, cfaRememberState, cfaDefCFAOffset, 24, 0x80|AMD64RBP, 2, 0x44, cfaRestoreState, cfaGNUArgsSize, 8).
		FDE(0x2040, 0x40, "", append([]byte{cfaDefCFAExpr, 11}, pltExpr...)...).
		FDE(0x2080, 0x40, "", cfaExpression, AMD64RBP, 2, opBreg0+AMD64RBP, 0, cfaValExpression, AMD64RBX, 1, opDup, cfaRegister, 3, 4)
	f.Add(seed.Bytes(), words(0x7000, 0x1010, 0x2010, 0x7010).Data, uint16(0x2000), uint8(0), false)
	f.Add(seed.Bytes(), words(0x7000, 0x2050, 0x2090, 0x7010).Data, uint16(0x2041), uint8(0), true)
	f.Add((&stacktest.EhFrame{ARM64: true}).FDE(0x2000, 0x40, "").Bytes(), []byte{1}, uint16(0x2000), uint8(1), false)
	if f32, err := elf.NewFile(bytes.NewReader(stacktest.Chain32("amd64"))); err != nil {
		f.Fatal(err)
	} else if frames, err := f32.Section(".eh_frame").Data(); err != nil {
		f.Fatal(err)
	} else {
		f.Add(frames, []byte{1}, uint16(0x2000), uint8(2), false)
	}
	f.Fuzz(func(t *testing.T, section, stack []byte, pc uint16, machine uint8, debugFrame bool) {
		m := []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64, elf.EM_386}[machine%3]
		b := newCFIBuilder(m, 0, 1<<30)
		b.section(section, 0, debugFrame)
		table := b.table()
		if table.stats.Rows > len(section)+2*table.stats.FDEs+2 {
			t.Fatalf("%d rows from %d bytes", table.stats.Rows, len(section))
		}
		pcs, index := unpack(&table.rules.Rows)
		for i := 1; i < len(pcs); i++ {
			if pcs[i] <= pcs[i-1] || index[i] == index[i-1] {
				t.Fatalf("row %d: %#x rule %d after %#x rule %d", i, pcs[i], index[i], pcs[i-1], index[i-1])
			}
		}
		w := CFIWalker{Modules: NewModules(Module{Start: 0, End: 1 << 32, CFI: table})}
		frames := make([]Frame, 200)
		if _, end := w.Walk(frames, fpRegs(m, uint64(pc), 0x7000, 0x7000), MemoryRange{0x7000, stack}); end == StopUnknown {
			t.Fatal("no reason")
		}
	})
}
