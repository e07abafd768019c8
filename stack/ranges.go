package stack

import (
	"fmt"
	"io"
	"slices"
	"sort"
)

// MemoryRange is a piece of recorded memory.
type MemoryRange struct {
	Addr uint64 // of the first byte
	Data []byte // borrowed
}

// ReadMemory implements Memory.
func (r MemoryRange) ReadMemory(dst []byte, addr uint64) error {
	off := addr - r.Addr
	if addr < r.Addr || off > uint64(len(r.Data)) || uint64(len(r.Data))-off < uint64(len(dst)) {
		return ErrNoMemory
	}
	copy(dst, r.Data[off:])
	return nil
}

// Ranges is recorded memory in pieces, whose bytes it borrows. It is immutable and safe for
// concurrent use.
type Ranges struct{ list []MemoryRange }

// ErrNoMemory is the error when a core file or a recording does not hold an address. It is
// a single value, so that a failed read on a hot path costs nothing.
var ErrNoMemory = fmt.Errorf("memory not recorded: %w", io.ErrUnexpectedEOF)

// NewRanges returns the pieces as one memory. Empty pieces are left out; where
// pieces overlap, the one that begins last is read.
func NewRanges(pieces ...MemoryRange) *Ranges {
	list := slices.DeleteFunc(slices.Clone(pieces), func(r MemoryRange) bool {
		return len(r.Data) == 0
	})
	slices.SortStableFunc(list, func(a, b MemoryRange) int {
		switch {
		case a.Addr < b.Addr:
			return -1
		case a.Addr > b.Addr:
			return 1
		}
		return 0
	})
	return &Ranges{list}
}

// ReadMemory implements Memory. A read may cross from one piece into the next if there is
// no gap between them.
func (m *Ranges) ReadMemory(dst []byte, addr uint64) error {
	for len(dst) > 0 {
		i := sort.Search(len(m.list), func(i int) bool { return m.list[i].Addr > addr }) - 1
		if i < 0 || addr-m.list[i].Addr >= uint64(len(m.list[i].Data)) {
			return ErrNoMemory
		}
		n := copy(dst, m.list[i].Data[addr-m.list[i].Addr:])
		dst, addr = dst[n:], addr+uint64(n)
	}
	return nil
}
