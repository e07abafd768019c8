package symbol

import (
	"debug/elf"

	"github.com/borescope/borescope/internal/elffile"
)

func debugDirs(dirs []string) []string {
	if dirs == nil {
		return []string{elffile.DebugDir}
	}
	return dirs
}

// symbolFile returns the file with the symbol table: this one, its debug file, or the one in
// .gnu_debugdata. The caller holds mu.
func (e *ELF) symbolFile() *elffile.File {
	if e.f.SectionOfType(elf.SHT_SYMTAB) != nil {
		return e.f
	}
	if d := e.debugFile(); d != nil && d.SectionOfType(elf.SHT_SYMTAB) != nil {
		return d
	}
	return e.f
}

// debugFile returns the separate debug file, nil if there is none. The caller
// holds mu.
func (e *ELF) debugFile() *elffile.File {
	if e.debugTried {
		return e.debug
	}
	e.debugTried = true
	if e.debug = e.opts.find.Find(e.f, e.buildID); e.debug == nil {
		e.debug = elffile.MiniDebug(e.f)
	}
	if e.debug != nil {
		e.debug.LayOutAs(e.f)
	}
	return e.debug
}
