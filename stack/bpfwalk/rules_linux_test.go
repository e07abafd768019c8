package bpfwalk

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// snapshots walks stacks that this process has in its own memory, in BPF and in Go.
type snapshots struct {
	b     *bpfBench
	w     *Walker
	m     elf.Machine
	regs  *words
	mods  *stack.Modules
	mem   stack.MemoryRange // between pages that can't be read
	rnd   *rand.Rand
	state []byte
	codes []uint64 // return addresses
	walks int
	hints *rand.Rand
}

const (
	snapMemory = 128 << 10
	snapGuard  = 64 << 20
	snapCode   = 0x2000_0000_0000 // where files are said to be mapped: nothing is
)

// newSnapshots loads the walker and gives it tables as this process's.
func newSnapshots(t *testing.T, tables ...*stack.CFITable) *snapshots {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	s := &snapshots{w: kernelWalker(t), rnd: rand.New(rand.NewPCG(1, 2)), hints: rand.New(rand.NewPCG(3, 4))}
	s.w.Preset = true
	s.m, s.regs, s.state = s.w.Machine, wordsOf(s.w.Machine), make([]byte, s.w.StateSize())
	area, err := unix.Mmap(-1, 0, snapMemory+2*snapGuard, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(area) })
	s.mem.Data = area[snapGuard:][:snapMemory]
	if err := unix.Mprotect(s.mem.Data, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	s.mem.Addr = uint64(uintptr(unsafe.Pointer(&s.mem.Data[0])))

	var list []stack.Module
	for i, c := range tables {
		list = append(list, stack.Module{
			Start: snapCode + uint64(i)<<33, End: snapCode + uint64(i)<<33 + 1<<32,
			Bias: snapCode + uint64(i)<<33 - c.Rules().Base, CFI: c,
		})
		for pc := range c.Rules().Rows.All() {
			at := list[i].Start + uint64(pc) + 1
			if at&15 == 0 { // code is read there, for a signal's trampoline
				at++
			}
			s.codes = append(s.codes, at)
		}
	}
	s.mods = stack.NewModules(list...)
	s.b = loadBPFAs(t, ebpf.RawTracepoint, s.w.StateSize(), slices.Concat(walkedState("shared"), asm.Instructions{
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	}, s.w.Instructions()), nil)
	if err := s.b.tables.SetProcess(os.Getpid(), s.mods); err != nil {
		t.Fatal(err)
	}
	return s
}

// pointer returns the address of a word of the memory, in its first half.
func (s *snapshots) pointer() uint64 {
	return s.mem.Addr + 8*s.rnd.Uint64N(snapMemory/16)
}

// fill writes what stacks have, and a little of what they do not.
func (s *snapshots) fill() {
	for at := 0; at < snapMemory; at += 8 {
		v := s.pointer()
		switch s.rnd.IntN(16) {
		case 0:
			v = 0
		case 1:
			v = s.rnd.Uint64() >> 17 // the top bits are the tag
		case 2, 3, 4, 5, 6, 7, 8, 9:
			v = s.codes[s.rnd.IntN(len(s.codes))]
		}
		binary.NativeEndian.PutUint64(s.mem.Data[at:], v)
	}
}

// random returns registers for a program counter.
func (s *snapshots) random(pc uint64) *stack.Regs {
	r := &stack.Regs{Machine: s.m}
	for n := range stack.ARM64PC + 1 {
		if _, ok := wordOf(s.m, uint8(n)); ok {
			r.Set(n, s.pointer())
		}
	}
	r.SetPC(pc)
	if n := s.rnd.IntN(4); n == 0 && s.m == elf.EM_X86_64 {
		r.Set(stack.AMD64R9, s.rnd.Uint64N(8)) // it counts words, in rules.CFAIndex
	}
	if s.m == elf.EM_AARCH64 {
		r.Set(stack.ARM64LR, s.codes[s.rnd.IntN(len(s.codes))])
	}
	return r
}

// bpf walks in BPF.
func (s *snapshots) bpf(t *testing.T, r *stack.Regs) Stack {
	clear(s.state)
	for n := range stack.ARM64PC + 1 {
		if w, ok := wordOf(s.m, uint8(n)); ok {
			binary.NativeEndian.PutUint64(s.state[8*w:], r.R[n])
		}
	}
	if s.walks++; s.walks%64 == 0 {
		// The hints may be of other files, and of rows that have been replaced since.
		places := make([]uint16, hints)
		for i := range places {
			places[i] = uint16(s.hints.Uint32())
		}
		if err := s.b.maps[nameHints].Put(uint32(0), places); err != nil {
			t.Fatal(err)
		}
	}
	m := s.b.maps["shared"]
	if err := m.Put(uint32(0), s.state); err != nil {
		t.Fatal(err)
	}
	if _, err := s.b.prog.Run(&ebpf.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.Lookup(uint32(0), &s.state); err != nil {
		t.Fatal(err)
	}
	return s.w.Decode(nil, s.state)
}

// compare walks twice, and reports whether the program left the stack for a rule that it
// does not know.
func (s *snapshots) compare(t *testing.T, what string, r *stack.Regs) (leftOut bool) {
	t.Helper()
	got := s.bpf(t, r)
	var dst [stack.MaxFrames]stack.Frame
	goWalker := stack.CFIWalker{Modules: s.mods}
	n, end := goWalker.Walk(dst[:], r, s.mem)
	want := dst[:n]
	switch {
	case got.Stopped == stack.StopLeftOut,
		got.Stopped == stack.StopNoRule && s.restoresOthers(want[:min(n, len(got.Frames))]),
		got.Stopped == stack.StopNoMapping && n > len(got.Frames) && want[len(got.Frames)].Source == stack.SourceGuess:
		// The caller of a null pointer is left out, too.
		want = want[:min(n, len(got.Frames))]
	case got.Stopped != end:
		t.Errorf("%s: BPF %v, Go %v", what, got.Stopped, end)
	}
	if !slices.EqualFunc(got.Frames, want, func(a, b stack.Frame) bool {
		return a.PC == b.PC && a.Return == b.Return && (a.Source == b.Source || b.Source == stack.SourceGo)
	}) {
		t.Errorf("%s:\nBPF %v %v\n Go %v %v", what, got.Frames, got.Stopped, dst[:n], end)
	}
	return got.Stopped == stack.StopLeftOut && len(got.Frames) == 1
}

// restoresOthers reports whether rules of these frames restore registers that a function
// need not keep, which the program leaves out.
func (s *snapshots) restoresOthers(frames []stack.Frame) bool {
	for _, f := range frames {
		m := s.mods.Find(f.LookupPC())
		if m == nil {
			continue
		}
		for _, r := range m.CFI.Rules().Lookup(f.LookupPC() - m.Bias).Saved {
			w, ok := wordOf(s.m, r.Num)
			if ok && w != s.regs.ra && w != s.regs.sp && w != s.regs.fp && !slices.Contains(s.regs.saved, r.Num) {
				return true
			}
		}
	}
	return false
}

// everyRule walks from each rule of the i-th table, as the innermost frame's and as its
// caller's. It returns how many rules there are, and how many the program left out.
func (s *snapshots) everyRule(t *testing.T, i int) (rules, left int) {
	m := &s.mods.All()[i]
	table := m.CFI.Rules()
	at := make([]uint64, len(table.Rules))
	for pc, rule := range table.Rows.All() {
		if at[rule] == 0 || s.rnd.IntN(4) == 0 {
			at[rule] = m.Start + uint64(pc)
		}
	}
	for i, pc := range at {
		if pc == 0 || t.Failed() {
			continue
		}
		rules++
		missing := false
		for range 4 {
			s.fill()
			what := fmt.Sprintf("rule %d %+v at %#x", i, table.Rules[i], pc)
			missing = s.compare(t, what, s.random(pc)) || missing

			// A function that has just been called from there.
			r := s.random(snapCode)
			ret := pc + 1
			if ret&15 == 0 {
				ret++
			}
			if s.m == elf.EM_AARCH64 {
				r.Set(stack.ARM64LR, ret)
			} else {
				binary.NativeEndian.PutUint64(s.mem.Data[r.SP()-s.mem.Addr:], ret)
			}
			s.compare(t, "caller, "+what, r)
		}
		if missing {
			left++
			if e := newEncoder(table).rule(&table.Rules[i]); e[ruleCFA] != bpfCFAHard {
				t.Errorf("left out: %+v", table.Rules[i])
			}
		}
	}
	return rules, left
}

// plainTable has a function at its beginning that has not pushed anything.
func plainTable(t *testing.T, arm bool) *stack.CFITable {
	return readTable(t, (&stacktest.EhFrame{ARM64: arm}).FDE(0x1000, 0x1000, "").ELF())
}

func readTable(t *testing.T, image []byte) *stack.CFITable {
	t.Helper()
	c, err := stack.NewCFI(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ruleFiles are files whose rules are many or rare.
var ruleFiles = []string{
	"/lib/*/libc.so.6", "/lib/*/ld-linux*.so.?", "/usr/bin/python3", "/usr/bin/bash",
	"/usr/lib/*/libcrypto.so.3", "/usr/lib/*/libgcrypt.so.20", "/usr/lib/*/libgmp.so.10",
	"/proc/self/exe",
}

// TestWalkerTakesEveryRule walks from each rule of many files over the same registers and
// stack bytes in BPF and in Go. The program knew eight registers, restored the frame
// pointer alone, and took return addresses from the stack only: of
// glibc's lazy binding (rbx + 56) and vfork (rdi) it found no caller.
func TestWalkerTakesEveryRule(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Ringbuf)
	arm := kernelWalker(t).Machine == elf.EM_AARCH64
	tables := []*stack.CFITable{plainTable(t, arm), readTable(t, oddRules(arm))}
	names := []string{"plain", "odd"}
	for _, pattern := range ruleFiles {
		files, _ := filepath.Glob(pattern)
		for _, f := range files[:min(len(files), 1)] {
			c, err := stack.OpenCFI(f)
			if err != nil {
				t.Fatal(err)
			}
			tables, names = append(tables, c), append(names, f)
		}
	}
	s := newSnapshots(t, tables...)
	for i, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			rules, left := s.everyRule(t, i)
			t.Logf("%d rules, %d left out", rules, left)
		})
	}
}

// oddRules describes functions with each kind of rule for each register.
func oddRules(arm bool) []byte {
	f := &stacktest.EhFrame{ARM64: arm}
	regs, ra, sp := byte(16), byte(stack.AMD64RIP), byte(stack.AMD64RSP)
	saved := savedAMD64
	if arm {
		regs, ra, sp, saved = 32, stack.ARM64LR, stack.ARM64SP, savedARM64
	}
	start := uint64(0x1000)
	fde := func(ins ...byte) {
		f.FDE(start, 0x40, "", ins...)
		start += 0x40
	}
	const (
		undefined, register, defCFA, defCFAExpr, expression, valOffset = 0x07, 0x09, 0x0c, 0x0f, 0x10, 0x14
		valExpression, offset, breg                                    = 0x16, 0x80, 0x70
		deref, plusUC                                                  = 0x06, 0x23
	)
	var all []byte
	for i, reg := range saved {
		all = append(all, offset|reg, byte(i+3))
	}
	for n := range regs {
		fde(defCFA, n, 8)
		fde(defCFA, n, 120, offset|ra, 15)
		fde(defCFAExpr, 2, breg+n, 16)
		fde(defCFAExpr, 3, breg+n, 8, deref)
		fde(defCFAExpr, 5, breg+n, 0x78 /* -8 */, deref, plusUC, 16)
		fde(defCFA, sp, 16, register, ra, n)
		fde(append([]byte{defCFA, sp, 80, register, ra, n}, all...)...)
		fde(expression, ra, 2, breg+n, 24)
	}
	for _, reg := range append(slices.Clone(saved), ra, sp, byte(wordsOfFP(arm))) {
		fde(defCFA, sp, 48, undefined, reg)
		fde(defCFA, sp, 48, offset|reg, 4)
		fde(defCFA, sp, 8, offset|reg, 7) // popped
		fde(defCFA, sp, 48, valOffset, reg, 2)
		fde(defCFA, sp, 48, expression, reg, 2, breg+sp, 4)
		fde(defCFA, sp, 48, valExpression, reg, 2, breg+sp, 4)
		for _, from := range append(slices.Clone(saved), sp, 0, 9, byte(wordsOfFP(arm))) {
			fde(defCFA, sp, 48, register, reg, from)
			fde(defCFA, sp, 48, expression, reg, 2, breg+from, 0x70 /* -16 */)
			fde(defCFA, sp, 48, register, reg, from, register, from, reg) // exchanged
		}
	}
	return f.ELF()
}

func wordsOfFP(arm bool) int {
	if arm {
		return stack.ARM64FP
	}
	return stack.AMD64RBP
}
