package stack

import (
	"debug/elf"
	"errors"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
)

// goTable adds rows for a Go program's functions, which also a stripped one has:
// the frame sizes in its function table (runtime/symtab.go). They come before
// other descriptions of the same functions, which do not know where the runtime
// changes stacks.
//
// On arm64 frame pointers are followed instead: Go keeps them below the stack
// pointer there, where the walkers take a slot to be given back already.
func (b *cfiBuilder) goTable(f *elffile.File) error {
	if b.machine != elf.EM_X86_64 {
		return nil
	}
	t, err := pclntab.New(f)
	if errors.Is(err, pclntab.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range t.Len() {
		fn, ok := t.Func(i)
		if !ok || fn.Entry < b.base || fn.End <= fn.Entry || fn.End-b.base > 1<<32-1 {
			b.stats.Bad++
			continue
		}
		b.goFunc(&fn)
	}
	return nil
}

// goFunc adds the rows of one function.
func (b *cfiBuilder) goFunc(fn *pclntab.Func) {
	kind := goKindOf(string(fn.Name()))
	first := len(b.pcs)
	fn.SPDeltas(func(from, _ uint64, delta int64) bool {
		b.pcs = append(b.pcs, uint32(from-b.base))
		b.index = append(b.index, b.goRule(kind, delta))
		return true
	})
	n := len(b.pcs) - first
	if n == 0 {
		return // a mark, not a function
	}
	b.segs = append(b.segs, cfiSeg{uint32(fn.Entry - b.base), uint32(fn.End - b.base), first, n})
	b.stats.FDEs++
}

// goKind is what is special about a function of the runtime.
type goKind uint8

const (
	goOrdinary goKind = iota
	goBottom          // begins a goroutine or a thread, or the scheduler's work between goroutines
	goSwitch          // goes on on the thread's own stack, by the frame pointer
	goLost            // goes on on the thread's own stack, and keeps nothing
)

// goKindOf knows the functions by name. Assembly has the ABI in it where there
// are wrappers.
func goKindOf(name string) goKind {
	switch name {
	case "runtime.goexit", "runtime.goexit.abi0", "runtime.mstart", "runtime.mstart.abi0",
		"runtime.rt0_go", "runtime.rt0_go.abi0", "runtime.mcall", "runtime.mcall.abi0":
		return goBottom
	case "runtime.systemstack", "runtime.systemstack.abi0", "runtime.asmcgocall", "runtime.asmcgocall.abi0":
		return goSwitch
	case "runtime.morestack", "runtime.morestack.abi0":
		return goLost
	}
	return goOrdinary
}

// goRule is the rule for an instruction that has the stack pointer delta bytes
// below where it was at the function's entry. The frame pointer's slot is below
// the return address (cmd/internal/obj/x86/obj6.go).
func (b *cfiBuilder) goRule(kind goKind, delta int64) uint16 {
	if kind == goLost || !fitsInt32(delta) || !fitsInt32(-delta) {
		return 0 // no rule
	}
	s := cfiState{how: HowGo, cfa: cfaRule{kind: cfaReg, reg: AMD64RSP, off: int32(delta) + 8}}
	s.setReg(AMD64RIP, regRule{kind: regAtCFA, off: -8})
	if delta >= 8 {
		s.setReg(AMD64RBP, regRule{kind: regAtCFA, off: -16})
	}
	switch {
	case kind == goBottom:
		s.setReg(AMD64RIP, regRule{kind: regUndef})
	case kind == goSwitch && delta >= 8:
		// The stack pointer may be another stack's. The frame pointer stays
		// ("The original frame pointer is stored in BP", runtime/asm_amd64.s).
		s.cfa = cfaRule{kind: cfaSwitch, reg: AMD64RBP, off: 16}
	}
	return b.intern(&s)
}
