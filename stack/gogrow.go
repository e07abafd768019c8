package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/stack/internal/rules"
)

// Where a goroutine's stack is too small, runtime.morestack keeps the goroutine's registers
// in its descriptor (runtime.g.sched) and continues on the thread's own stack. A walk that
// reaches morestack from there continues with the registers so kept. All of Go's code has
// the current descriptor in a register of its own; it leads to the thread's (runtime.m) and
// that to the goroutine's.
//
// These offsets are the same from Go 1.17, which gave the descriptor its register
// on amd64, to 1.26 (runtime/runtime2.go); the others are read from the runtime's
// own instructions.
const (
	goG0OfM = 0 // m.g0
)

// goGrow is what a program's runtime.morestack looks like.
type goGrow struct {
	// from is the instruction from which on g.sched is to be used; 0: not known.
	from uint64
	// curg is the offset of m.curg, bp that of g.sched.bp.
	curg, bp int32
}

// findGoGrow reads the instructions of runtime.morestack and runtime.systemstack
// (runtime/asm_amd64.s, asm_arm64.s), which are among the functions of some kinds.
func findGoGrow(f *elffile.File, t *pclntab.Table, kinds []goKind) goGrow {
	if f.Machine == elf.EM_386 {
		return goGrow{}
	}
	code := make(map[goKind][]byte)
	var entry uint64
	for i, kind := range kinds {
		if kind != goLost && kind != goSwitch {
			continue
		}
		fn, ok := t.Func(i)
		if !ok || kind == goSwitch && !bytes.HasPrefix(fn.Name(), []byte("runtime.systemstack")) {
			continue
		}
		if kind == goLost {
			entry = fn.Entry
		}
		if fn.End > fn.Entry {
			code[kind], _ = f.BytesAt(fn.Entry, min(fn.End-fn.Entry, 1024))
		}
	}
	find := goGrowAMD64
	if f.Machine == elf.EM_AARCH64 {
		find = goGrowARM64
	}
	at, grow, ok := find(code[goLost], code[goSwitch])
	if !ok || grow.bp < rules.GoSchedOfG+16 || grow.bp > rules.GoSchedOfG+64 {
		return goGrow{}
	}
	grow.from = entry + uint64(at)
	return grow
}

func goGrowAMD64(morestack, systemstack []byte) (at int, g goGrow, ok bool) {
	bp := find(morestack, "\x48\x89\x6f", 4) // MOVQ BP, (g_sched+gobuf_bp)(DI)
	if bp < 0 {
		bp = find(morestack, "\x48\x89\x6e", 4) // older ones: (SI)
	}
	sp := find(morestack, "\x48\x8b\x63\x38", 4)     // MOVQ (g_sched+gobuf_sp)(BX), SP
	curg := find(systemstack, "\x48\x3b\x83", 7)     // CMPQ AX, m_curg(BX)
	register := find(systemstack, "\x49\x89\xd6", 3) // MOVQ DX, R14
	if bp < 0 || sp < 0 || curg < 0 || register < 0 {
		return 0, g, false
	}
	g.bp = int32(morestack[bp+3])
	g.curg = int32(binary.LittleEndian.Uint32(systemstack[curg+3:]) & 0xffff)
	return sp + 4, g, true
}

// find returns where the instruction is that begins so, and all n bytes of it
// are there; -1 if nowhere.
func find(code []byte, begins string, n int) int {
	for i := 0; i+n <= len(code); i++ {
		if string(code[i:i+len(begins)]) == begins {
			return i
		}
	}
	return -1
}

func goGrowARM64(morestack, systemstack []byte) (at int, g goGrow, ok bool) {
	at = -1
	for i := 0; i+4 <= len(morestack); i += 4 {
		switch off, reg, base := str64(morestack[i:], 0xf9000000); {
		case base == 28 && reg == ARM64FP: // MOVD R29, (g_sched+gobuf_bp)(g)
			g.bp = off
		case base == 28 && reg == 3: // MOVD R3, (g_sched+gobuf_lr)(g), the last that is needed
			at = i + 4
		}
	}
	for i := 0; i+4 <= len(systemstack); i += 4 {
		// MOVD m_curg(R4), R6
		if off, reg, base := str64(systemstack[i:], 0xf9400000); reg == 6 && base == 4 {
			g.curg = off
			return at, g, at > 0 && g.bp > 0
		}
	}
	return 0, g, false
}

// str64 decodes a store or load (by op) of a 64-bit register at an unsigned
// offset; base is -1 if it is none.
func str64(code []byte, op uint32) (off int32, reg, base int) {
	v := binary.LittleEndian.Uint32(code)
	if v&0xffc00000 != op {
		return 0, 0, -1
	}
	return int32(v>>10&0xfff) * 8, int(v & 31), int(v >> 5 & 31)
}

// goGrowRule is the rule for what runtime.morestack calls on the thread's own
// stack.
func (b *cfiBuilder) goGrowRule(grow *goGrow) uint16 {
	reg := uint8(AMD64R14)
	if b.machine == elf.EM_AARCH64 {
		reg = 28
	}
	return b.intern(&cfiState{
		how: SourceGo,
		cfa: rules.CFA{Kind: rules.CFAGrow, Reg: reg, Off: grow.curg, Off2: grow.bp},
	})
}

// grow continues at the function whose stack is too small, with the registers that
// runtime.morestack kept. Without a current goroutine the scheduler has taken over, and the
// stack ends.
func (w *CFIWalker) grow(c *rules.CFA, mem Memory) StopReason {
	r := &w.regs
	g, ok := r.Reg(int(c.Reg))
	if !ok || g == 0 {
		return StopNoRule
	}
	m, err := w.word(g+rules.GoMOfG, mem)
	if err != nil {
		return StopBadMemory
	}
	g0, err := w.word(m+goG0OfM, mem)
	if err != nil {
		return StopBadMemory
	}
	if g == g0 {
		if g, err = w.word(m+uint64(c.Off), mem); err != nil {
			return StopBadMemory
		}
		if g == 0 {
			return StopBottom
		}
	}
	sched := w.buf[:c.Off2+8-rules.GoSchedOfG]
	if mem.ReadMemory(sched, g+rules.GoSchedOfG) != nil {
		return StopBadMemory
	}
	o := binary.LittleEndian
	sp, pc := o.Uint64(sched), o.Uint64(sched[8:])
	if pc == 0 {
		return StopNoRule
	}
	r.Have = 1 << c.Reg
	r.R[c.Reg] = g
	r.SetPC(pc)
	r.SetSP(sp)
	r.SetFP(o.Uint64(sched[len(sched)-8:]))
	if r.Machine == elf.EM_AARCH64 {
		r.Set(ARM64LR, o.Uint64(sched[len(sched)-16:]))
	}
	w.exact = true // it begins anew there
	return StopUnknown
}
