package stack

import (
	"iter"
	"sort"
)

// cfiRows are a table's rows, in four bytes each: where a rule begins, counted
// from the beginning of its 64 KiB, and which rule it is. It holds until the next
// row begins, also in another 64 KiB.
type cfiRows struct {
	pages []cfiPage // those with rows, ascending
	offs  []uint16
	index []uint16
}

// cfiPage is 64 KiB of addresses.
type cfiPage struct {
	number uint16 // address >> 16, counted from the table's base
	first  uint32 // its first row
}

// find returns the number of the row that holds at an address, -1 if none does.
func (r *cfiRows) find(off uint32) int {
	lo, n := 0, len(r.pages)
	for number := uint16(off >> 16); n > 0; {
		if half := n / 2; r.pages[lo+half].number <= number {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	if lo == 0 {
		return -1
	}
	page, end := r.pages[lo-1], len(r.offs)
	if lo < len(r.pages) {
		end = int(r.pages[lo].first)
	}
	if page.number != uint16(off>>16) {
		return end - 1 // the last one before
	}
	from := int(page.first)
	offs, want := r.offs[from:end], uint16(off)
	lo, n = 0, len(offs)
	for n > 0 {
		if half := n / 2; offs[lo+half] <= want {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return from + lo - 1
}

// all yields the rows: address, counted from the table's base, and rule.
func (r *cfiRows) all() iter.Seq2[uint32, uint16] {
	return func(yield func(uint32, uint16) bool) {
		for i, p := range r.pages {
			end := len(r.offs)
			if i+1 < len(r.pages) {
				end = int(r.pages[i+1].first)
			}
			for j := int(p.first); j < end; j++ {
				if !yield(uint32(p.number)<<16|uint32(r.offs[j]), r.index[j]) {
					return
				}
			}
		}
	}
}

// packRows packs rows, which come in order. It goes through them twice, so that
// it allocates no more than it keeps.
func packRows(rows iter.Seq2[uint32, uint16]) cfiRows {
	n, pages, last := 0, 0, -1
	for pc := range rows {
		n++
		if page := int(pc >> 16); page != last {
			pages, last = pages+1, page
		}
	}
	r := cfiRows{make([]cfiPage, 0, pages), make([]uint16, 0, n), make([]uint16, 0, n)}
	last = -1
	for pc, rule := range rows {
		if page := int(pc >> 16); page != last {
			r.pages = append(r.pages, cfiPage{uint16(page), uint32(len(r.offs))})
			last = page
		}
		r.offs = append(r.offs, uint16(pc))
		r.index = append(r.index, rule)
	}
	return r
}

// bytes is the memory that the rows take up.
func (r *cfiRows) bytes() int { return 4*len(r.offs) + 8*len(r.pages) }

// sortSegs brings the FDEs in order of their addresses.
func (b *cfiBuilder) sortSegs() {
	byStart := func(i, j int) bool { return b.segs[i].start < b.segs[j].start }
	if !sort.SliceIsSorted(b.segs, byStart) {
		sort.SliceStable(b.segs, byStart) // of equal ones, .eh_frame's stays first
	}
}

// merged yields the rows of the sorted FDEs, with rows for the gaps between. It
// can't be stopped early: packRows is its only user.
func (b *cfiBuilder) merged(yield func(uint32, uint16) bool) {
	m := rowMerger{yield: yield}
	end := uint32(0)
	for i, s := range b.segs {
		if i > 0 && s.end <= end {
			continue // described twice
		}
		if i > 0 && s.start > end && s.start-end >= minGap {
			m.row(end, 0)
		}
		for j := s.first; j < s.first+s.n; j++ {
			next := s.end
			if j+1 < s.first+s.n {
				next = b.pcs[j+1]
			}
			if i == 0 || next > end {
				m.row(max(b.pcs[j], end), b.index[j])
			}
		}
		end = s.end
	}
	if len(b.segs) > 0 {
		m.row(end, 0)
	}
	m.flush()
}

// rowMerger holds each row back until the next one is known to differ.
type rowMerger struct {
	yield func(uint32, uint16) bool
	pc    uint32
	rule  uint16
	have  bool // pc and rule are a row
	out   uint16
	any   bool // out is the rule of the last row that was passed on
}

func (m *rowMerger) row(pc uint32, rule uint16) {
	if m.have && m.pc != pc {
		m.flush()
	}
	m.pc, m.rule, m.have = pc, rule, true // a row without an address is replaced
}

// flush passes the row on unless it repeats the one before.
func (m *rowMerger) flush() {
	if m.have && !(m.any && m.out == m.rule) {
		m.yield(m.pc, m.rule)
		m.out, m.any = m.rule, true
	}
	m.have = false
}
