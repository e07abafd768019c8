package symbol

import (
	"debug/elf"
	"errors"
	"runtime/debug"

	"github.com/borescope/borescope/internal/elffile"
)

// Resolve implements Resolver for virtual addresses of the file.
func (e *ELF) Resolve(dst []Frame, pcs []uint64) []Frame {
	for i, pc := range pcs {
		dst = e.append(dst, i, pc)
	}
	return dst
}

// append appends the frames of one virtual address.
func (e *ELF) append(dst []Frame, index int, vaddr uint64) []Frame {
	n := len(dst)
	dst = e.appendNamed(dst, index, vaddr)
	for i := n; i < len(dst); i++ {
		if fr := &dst[i]; fr.Line == 0 && (fr.Kind == KindGo || fr.Kind == KindUser && e.opts.dwarf) {
			fr.NoLine = e.whyNoLine(fr.Kind)
		}
	}
	return dst
}

// whyNoLine returns the reason why code of that kind has no source position.
func (e *ELF) whyNoLine(k Kind) Reason {
	src := e.source.Load()
	switch {
	case e.broken.Load() != 0:
		return Reason(e.broken.Load())
	case src == nil: // not now: there is too much to read
		return ReasonBudget
	case k == KindGo && src.goTab.spent():
		return ReasonBudget
	case k == KindGo:
		return ReasonNoLine
	case src.dwarf == nil:
		return src.noDWARF
	}
	return Reason(src.dwarf.noLine.Load())
}

// appendNamed is append without reasons for positions that are missing.
func (e *ELF) appendNamed(dst []Frame, index int, vaddr uint64) []Frame {
	if out, ok := e.remembered(dst, index, vaddr); ok {
		return out
	}
	n := len(dst)
	why := Reason(e.broken.Load())
	if why == ReasonNone {
		out, err := e.guarded(dst, index, vaddr)
		if err == nil {
			return out
		}
		why = whyBroken(err)
		if !errors.Is(err, errTooMuchWork) { // that error passes
			e.broken.Store(uint32(why))
		}
	}
	return append(dst[:n], Frame{
		Index: index, Module: e.path, ModuleOffset: vaddr, BuildID: e.buildID,
		Kind: KindUser, Reason: why,
	})
}

// whyBroken returns the reason for an error.
func whyBroken(err error) Reason {
	if errors.Is(err, elffile.ErrTooLarge) || errors.Is(err, errTooMuchWork) {
		return ReasonBudget
	}
	return ReasonBadFile
}

// remembered is append for addresses that need nothing of the mapped file: most addresses were
// named before.
func (e *ELF) remembered(dst []Frame, index int, vaddr uint64) ([]Frame, bool) {
	src := e.source.Load()
	if src == nil || e.broken.Load() != 0 {
		return nil, false
	}
	if src.goTab != nil && e.names.frames.NearlyFull() {
		return nil, false // functions that are kept cost less than a lookup that fails
	}
	if src.goTab != nil || src.dwarf != nil {
		return e.appendFrames(dst, index, vaddr)
	}
	t := e.code.Load()
	if t == nil || !e.text.Contains(vaddr) {
		return nil, false
	}
	i, sized := t.lookup(vaddr)
	if !sized {
		return nil, false
	}
	name, ok := e.names.known(e.id, nameTable(t.kind[i]), t.syms[i].name)
	if !ok || name == "" {
		return nil, false
	}
	n := len(dst)
	if n == cap(dst) {
		dst = append(dst, Frame{})
	}
	dst = dst[:n+1]
	e.fill(&dst[n], t, i, sized, name)
	dst[n].Index, dst[n].ModuleOffset, dst[n].Offset = index, vaddr, vaddr-t.at(i)
	return dst, true
}

// fill sets all fields of a frame in symbol i, except those of the address. Setting them one by
// one takes half the time of a new Frame.
func (e *ELF) fill(fr *Frame, t *symTable, i int, sized bool, name string) {
	fr.Inlined = false
	fr.Name = name
	fr.Size = uint64(t.syms[i].size)
	fr.Module, fr.BuildID = e.path, e.buildID
	fr.File, fr.Line, fr.Column = "", 0, 0
	fr.Kind, fr.Confidence, fr.Reason, fr.NoLine = KindUser, ConfidenceExact, ReasonNone, ReasonNone
	if !sized {
		fr.Confidence = ConfidenceNoSize
	}
	switch t.kind[i] & symMask {
	case symObject:
		fr.Kind = KindData
	case symPLT:
		fr.Kind = KindPLT
	}
	if name == "" {
		fr.Reason, fr.Confidence = ReasonBadFile, ConfidenceNone
	}
}

// nameTable returns the string table that contains the name of a symbol of that kind.
func nameTable(kind uint8) stringTable {
	if kind&symMask == symPLT {
		return tabPLT
	}
	return tabSym
}

// guarded reads the mapped file, which may be truncated meanwhile.
func (e *ELF) guarded(dst []Frame, index int, vaddr uint64) (out []Frame, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	src := e.source.Load()
	if src == nil {
		src = e.findSource()
	}
	if src.goTab == nil && src.dwarf == nil {
		dst = append(dst, Frame{})
		return dst, e.symbol(&dst[len(dst)-1], index, vaddr)
	}
	n := len(dst)
	if g := src.goTab; g != nil {
		full := e.names.frames.NearlyFull()
		if out, ok := e.appendKnown(g, dst, index, vaddr); ok {
			if !full {
				e.names.offerFrames(frameKey(e.id, vaddr), out[n:])
			}
			return out, nil
		}
		if full {
			if out, ok := e.appendFrames(dst, index, vaddr); ok {
				return out, nil
			}
		}
	}
	dst, err = e.appendSource(src, dst, index, vaddr)
	if err == nil {
		e.names.offerFrames(frameKey(e.id, vaddr), dst[n:])
	}
	return dst, err
}

// appendFrames appends the frames of an address if they are cached.
func (e *ELF) appendFrames(dst []Frame, index int, vaddr uint64) ([]Frame, bool) {
	frames, ok := e.names.getFrames(frameKey(e.id, vaddr))
	if !ok {
		return nil, false
	}
	n := len(dst)
	dst = append(dst, frames...)
	for i := n; i < len(dst); i++ {
		dst[i].Index = index
	}
	return dst, true
}

// appendSource appends the frames of an address for which there may be more than its
// symbol.
func (e *ELF) appendSource(src *source, dst []Frame, index int, vaddr uint64) ([]Frame, error) {
	if src.goTab != nil {
		if out, ok := e.appendGo(src.goTab, dst, index, vaddr); ok {
			return out, nil
		}
	}
	var fr Frame
	if err := e.symbol(&fr, index, vaddr); err != nil {
		return nil, err
	}
	if src.dwarf == nil || fr.Kind == KindData {
		return append(dst, fr), nil
	}
	return e.appendDWARF(src.dwarf, dst, fr), nil
}

// symbol names an address by the symbol tables.
func (e *ELF) symbol(fr *Frame, index int, vaddr uint64) error {
	*fr = Frame{
		Index: index, Module: e.path, ModuleOffset: vaddr, BuildID: e.buildID,
		Kind: KindUser,
	}
	isData := !e.text.Contains(vaddr) && e.inDataSection(vaddr)
	t, err := e.table(isData)
	if err != nil {
		return err
	}
	i, sized := t.lookup(vaddr)
	if i == noSym || !sized && !e.sameSection(t.at(i), vaddr) {
		fr.Reason = ReasonNoSymbol
		if isData {
			fr.Kind = KindData
		}
		if len(t.kind) == 0 {
			fr.Reason = ReasonNoSymbols
		}
		return nil
	}
	e.fill(fr, t, i, sized, e.names.get(e, nameTable(t.kind[i]), t.syms[i].name))
	fr.Offset = vaddr - t.at(i)
	if isData {
		fr.Kind = KindData
	}
	return nil
}

// inDataSection reports whether an address is in a section without code.
func (e *ELF) inDataSection(vaddr uint64) bool {
	s := e.sectionAt(vaddr)
	return s != nil && s.Flags&elf.SHF_EXECINSTR == 0
}

// sameSection reports whether a symbol without a size may cover an address: both are in one
// section.
func (e *ELF) sameSection(a, b uint64) bool {
	s := e.sectionAt(a)
	return s != nil && s.Contains(b)
}

// sectionAt returns the section that is loaded at an address.
func (e *ELF) sectionAt(vaddr uint64) *elffile.Section {
	i := elffile.SectionAt(e.f, vaddr, true)
	if i < 0 {
		return nil
	}
	return &e.f.Sections[i]
}
