package stack

import (
	"bytes"
	"debug/elf"
	"errors"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/stack/internal/rules"
)

// goTable adds rows for a Go program's functions, by the frame sizes in its function table
// (runtime/symtab.go), which a stripped program has too. They come before other
// descriptions of the same functions, which do not describe where the runtime changes
// stacks.
func (b *cfiBuilder) goTable(f *elffile.File) error {
	t, err := pclntab.New(f)
	if errors.Is(err, pclntab.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	kinds := goKinds(t)
	grow := findGoGrow(f, t, kinds)
	// Functions may share one long table; those of real programs have a row for some
	// 45 bytes of the whole.
	b.goRows = len(b.pcs) + t.Size()/8
	for i := range t.Len() {
		fn, ok := t.Func(i)
		if !ok || fn.Entry < b.base || fn.End <= fn.Entry || fn.End-b.base > 1<<32-1 {
			b.stats.Bad++
			continue
		}
		if b.goFunc(&fn, kinds[i], &grow); b.goFull() {
			return errTooMuch
		}
	}
	return nil
}

// goFull reports whether the memory or the rows of Go's functions are used up.
func (b *cfiBuilder) goFull() bool { return b.full() || len(b.pcs) > b.goRows }

// goFunc adds the rows of one function.
func (b *cfiBuilder) goFunc(fn *pclntab.Func, kind goKind, grow *goGrow) {
	first := len(b.pcs)
	row := func(from uint64, rule uint16) {
		b.pcs = append(b.pcs, uint32(from-b.base))
		b.index = append(b.index, rule)
	}
	fn.SPDeltas(func(from, to uint64, delta int64) bool {
		row(from, b.goRule(kind, delta))
		if kind == goLost && grow.from > from && grow.from < to {
			row(grow.from, b.goGrowRule(grow))
		}
		return !b.goFull()
	})
	n := len(b.pcs) - first
	if n == 0 {
		return // a mark, not a function
	}
	b.segs = append(b.segs,
		cfiSeg{uint32(fn.Entry - b.base), uint32(fn.End - b.base), uint32(first), uint32(n)})
	b.stats.FDEs++
}

// goKind is what is special about a function of the runtime.
type goKind uint8

const (
	goOrdinary goKind = iota
	goBottom          // begins a goroutine or a thread, or the scheduler's work between goroutines
	goSwitch          // continues on the thread's own stack, by the frame pointer
	goLost            // continues on the thread's own stack, and keeps nothing there
	goSignal          // the trampoline that signal handlers return to
)

// goKinds returns the kinds of a program's functions, by their numbers.
func goKinds(t *pclntab.Table) []goKind {
	kinds := make([]goKind, t.Len())
	for i := range kinds {
		if fn, ok := t.Func(i); ok {
			kinds[i] = goKindOf(fn.ShortName(len("runtime.sigreturn__sigaction.abi0")))
		}
	}
	return kinds
}

// goKindOf recognizes the functions by name. An assembly function has the ABI in its name
// where it has a wrapper.
func goKindOf(name []byte) goKind {
	switch string(bytes.TrimSuffix(name, []byte(".abi0"))) {
	case "runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall":
		return goBottom
	case "runtime.systemstack", "runtime.asmcgocall",
		// The vDSO needs more stack than a goroutine may have.
		"time.now", "runtime.walltime", "runtime.nanotime1", "runtime.vgetrandom1":
		return goSwitch
	case "runtime.morestack":
		return goLost
	case "runtime.sigreturn__sigaction", "runtime.sigreturn": // the latter before Go 1.20
		return goSignal
	}
	return goOrdinary
}

// goRule is the rule for an instruction that has the stack pointer delta bytes
// below where it was at the function's entry.
func (b *cfiBuilder) goRule(kind goKind, delta int64) uint16 {
	if !fitsInt32(delta+16) || !fitsInt32(-delta-16) {
		return 0 // no rule
	}
	if kind == goSignal {
		s := cfiState{how: SourceGo, cfa: rules.CFA{Kind: rules.CFASignal}}
		if b.machine == elf.EM_386 {
			s.cfa.Off = rules.I386RtSigContext
		}
		return b.intern(&s)
	}
	switch b.machine {
	case elf.EM_AARCH64:
		return b.goRuleARM64(kind, int32(delta))
	case elf.EM_386:
		return b.goRule386(kind, int32(delta))
	}
	s := cfiState{
		how: SourceGo,
		cfa: rules.CFA{Kind: rules.CFAReg, Reg: AMD64RSP, Off: int32(delta) + 8},
	}
	s.setReg(AMD64RIP, rules.RegRule{Kind: rules.RegAtCFA, Off: -8})
	if delta >= 8 { // below the return address (cmd/internal/obj/x86/obj6.go)
		s.setReg(AMD64RBP, rules.RegRule{Kind: rules.RegAtCFA, Off: -16})
	}
	switch {
	case kind == goBottom:
		s.setReg(AMD64RIP, rules.RegRule{Kind: rules.RegUndef})
	case kind == goSwitch && delta >= 8:
		// The stack pointer may be another stack's. The frame pointer stays
		// ("The original frame pointer is stored in BP", runtime/asm_amd64.s).
		s.cfa = rules.CFA{Kind: rules.CFASwitch, Reg: AMD64RBP, Off: 16}
	}
	return b.intern(&s)
}

// goRule386 is goRule for i386, where Go has no frame pointer: from the thread's own stack nothing leads to
// the goroutine's but the descriptors, for which there is no register either.
func (b *cfiBuilder) goRule386(kind goKind, delta int32) uint16 {
	s := cfiState{how: SourceGo, cfa: rules.CFA{Kind: rules.CFAReg, Reg: I386ESP, Off: delta + 4}}
	s.setReg(I386EIP, rules.RegRule{Kind: rules.RegAtCFA, Off: -4})
	switch kind {
	case goBottom:
		s.setReg(I386EIP, rules.RegRule{Kind: rules.RegUndef})
	case goSwitch, goLost:
		s = cfiState{how: SourceGo, cfa: rules.CFA{Kind: rules.CFALost}}
	}
	return b.intern(&s)
}

// goRuleARM64 is goRule for arm64, where a frame has the return address at its
// lower end, and the frame pointer's slot below that, outside of it
// (cmd/internal/obj/arm64/obj7.go).
func (b *cfiBuilder) goRuleARM64(kind goKind, delta int32) uint16 {
	s := cfiState{how: SourceGo, cfa: rules.CFA{Kind: rules.CFAReg, Reg: ARM64SP, Off: delta}}
	if delta > 0 {
		s.setReg(ARM64LR, rules.RegRule{Kind: rules.RegAtCFA, Off: -delta})
		s.setReg(ARM64FP, rules.RegRule{Kind: rules.RegAtCFA, Off: -delta - 8})
	}
	switch {
	case kind == goLost:
		return 0 // the caller's return address is in R3
	case kind == goBottom:
		s.setReg(ARM64LR, rules.RegRule{Kind: rules.RegUndef})
	case kind == goSwitch && delta > 0:
		s.cfa = rules.CFA{Kind: rules.CFASwitch, Reg: ARM64FP, Off: delta + 8}
	}
	return b.intern(&s)
}
