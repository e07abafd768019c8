package elffile

import (
	"cmp"
	"container/heap"
	"debug/elf"
	"math"
	"slices"
	"sync"
)

// A file may have as many sections, or segments, as symbols. So that looking up the sections of
// all symbols takes no time in proportion to both, spans finds the range that contains an
// address by a binary search.

// These are the kinds of ranges of a file's addresses.
const (
	spanProgs    = iota // of loaded segments, as far as their bytes are in the file
	spanSections        // of sections
	spanLoaded          // of sections that are loaded
	spanObject          // of an object file's sections whose addresses are offsets
	spanKinds
)

// few is the number of ranges that are searched one after the other.
const few = 64

// lazySpans are spans that are made when they are first needed.
type lazySpans struct {
	once  sync.Once
	spans spans
}

// covering returns the number of the first segment or section whose range contains an address,
// -1 if there is none.
func covering(f *File, kind int, addr uint64) int {
	n := len(f.Sections)
	if kind == spanProgs {
		n = len(f.Progs)
	}
	if n <= few {
		for i := range n {
			if from, size := spanOf(f, kind, i); addr >= from && addr-from < size {
				return i
			}
		}
		return -1
	}
	s := &f.spans[kind]
	s.once.Do(func() {
		s.spans = newSpans(n, func(i int) (from, size uint64) { return spanOf(f, kind, i) })
	})
	return s.spans.find(addr)
}

// spanOf returns the addresses of a segment or section. The size is 0 if it has none of the kind.
func spanOf(f *File, kind, i int) (from, size uint64) {
	if kind == spanProgs {
		if p := &f.Progs[i]; p.Type == elf.PT_LOAD {
			return p.Vaddr, p.Filesz
		}
		return 0, 0
	}
	s := &f.Sections[i]
	switch kind {
	case spanLoaded:
		if s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_TLS != 0 {
			return 0, 0
		}
	case spanObject:
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOBITS || s.Addr != s.Offset {
			return 0, 0
		}
	}
	return s.Addr, s.Size
}

// spans are ranges of addresses that may overlap, as disjoint ones: from each bound to the next,
// the first range in the original order is which, or none if it is -1.
type spans struct {
	bounds []uint64
	which  []int32
}

// newSpans returns n ranges.
func newSpans(n int, span func(i int) (from, size uint64)) spans {
	var order []int32
	var bounds []uint64
	for i := range n {
		if from, size := span(i); size > 0 {
			order = append(order, int32(i))
			bounds = append(bounds, from, endOf(from, size))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, _ := span(int(a))
		y, _ := span(int(b))
		return cmp.Compare(x, y)
	})
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	s := spans{bounds: bounds, which: make([]int32, 0, len(bounds))}
	var open firstOpen // the ranges that began; those that ended are removed when they are first
	for _, at := range bounds {
		for len(order) > 0 {
			if from, _ := span(int(order[0])); from > at {
				break
			}
			heap.Push(&open, order[0])
			order = order[1:]
		}
		for len(open) > 0 && endOf(span(int(open[0]))) <= at {
			heap.Pop(&open)
		}
		if len(open) == 0 {
			s.which = append(s.which, -1)
		} else {
			s.which = append(s.which, open[0])
		}
	}
	return s
}

// endOf returns the end of a range, which may reach to the end of all addresses.
func endOf(from, size uint64) uint64 {
	if size > math.MaxUint64-from {
		return math.MaxUint64
	}
	return from + size
}

// find returns the number of the first range that contains an address, -1 if there is none.
func (s *spans) find(addr uint64) int {
	i, ok := slices.BinarySearch(s.bounds, addr)
	if !ok {
		i--
	}
	if i < 0 {
		return -1
	}
	return int(s.which[i])
}

// firstOpen is a heap of numbers, the lowest first.
type firstOpen []int32

func (h firstOpen) Len() int           { return len(h) }
func (h firstOpen) Less(i, j int) bool { return h[i] < h[j] }
func (h firstOpen) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *firstOpen) Push(x any) { *h = append(*h, x.(int32)) }

// Pop implements heap.Interface.
func (h *firstOpen) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
