package stack

import (
	"cmp"
	"slices"
)

// Module is a range of executable memory with its unwind information.
type Module struct {
	// Start and End bound the addresses; End is exclusive.
	Start, End uint64
	// Bias is subtracted from an address, modulo 2^64, to get the address in the file's own
	// numbering.
	Bias uint64
	// Offset is the offset in the file that is mapped at Start, in bytes. The walker does
	// not use it; perfdata.Write does.
	Offset uint64
	// CFI is the file's call frame information; nil if it has none, as JIT code.
	CFI *CFITable
	// Name is the file's path, or "[vdso]".
	Name string
}

// Modules are a process's executable mappings. It is immutable and safe for
// concurrent use.
type Modules struct {
	list []Module
	data []Module // mappings of files that hold no code: see WithData
}

// NewModules returns the mappings in order. Where two overlap, the one that
// begins last counts.
func NewModules(list ...Module) *Modules {
	return &Modules{list: ordered(list)}
}

func ordered(list []Module) []Module {
	list = slices.DeleteFunc(slices.Clone(list), func(m Module) bool { return m.End <= m.Start })
	slices.SortStableFunc(list, func(a, b Module) int { return cmp.Compare(a.Start, b.Start) })
	return list
}

// WithData returns the same modules with mappings of files that hold no code added. The
// walkers of this package do not use them, but other tools find call frame information by
// them, so perfdata.Write writes them.
func (m *Modules) WithData(data ...Module) *Modules {
	return &Modules{list: m.All(), data: ordered(data)}
}

// Data returns the mappings that hold no code, by address. The slice is the
// receiver's; it must not be changed.
func (m *Modules) Data() []Module {
	if m == nil {
		return nil
	}
	return m.data
}

// Find returns the module that holds an address, nil if there is none.
func (m *Modules) Find(addr uint64) *Module {
	if m == nil {
		return nil
	}
	lo, n := 0, len(m.list)
	for n > 0 {
		if half := n / 2; m.list[lo+half].Start <= addr {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	if lo == 0 || addr >= m.list[lo-1].End {
		return nil
	}
	return &m.list[lo-1]
}

// All returns the modules by address. The slice is the receiver's; it must not be changed.
func (m *Modules) All() []Module {
	if m == nil {
		return nil
	}
	return m.list
}
