package rules

import "iter"

// MaxRules is the number of rules that a row's 16 bits can number.
const MaxRules = 1 << 16

// Rows are a table's rows, in four bytes each: the address from which a rule holds, relative to
// its 64 KiB, and the rule's number. A row holds until the next one begins, also in another 64
// KiB.
type Rows struct {
	pages []cfiPage // those with rows, ascending
	Offs  []uint16
	Index []uint16
}

// cfiPage is 64 KiB of addresses.
type cfiPage struct {
	number uint16 // address >> 16, counted from the table's base
	first  uint32 // its first row
}

// Find returns the number of the row that holds at an address relative to the table's base, -1
// if there is none.
func (r *Rows) Find(off uint32) int {
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
	page, end := r.pages[lo-1], len(r.Offs)
	if lo < len(r.pages) {
		end = int(r.pages[lo].first)
	}
	if page.number != uint16(off>>16) {
		return end - 1 // the last one before
	}
	from := int(page.first)
	offs, want := r.Offs[from:end], uint16(off)
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

// All yields the rows: the address relative to the table's base, and the rule.
func (r *Rows) All() iter.Seq2[uint32, uint16] {
	return func(yield func(uint32, uint16) bool) {
		for i, p := range r.pages {
			end := len(r.Offs)
			if i+1 < len(r.pages) {
				end = int(r.pages[i+1].first)
			}
			for j := int(p.first); j < end; j++ {
				if !yield(uint32(p.number)<<16|uint32(r.Offs[j]), r.Index[j]) {
					return
				}
			}
		}
	}
}

// PackRows packs rows, which come in order. It iterates over them twice, to allocate only what
// it keeps.
func PackRows(rows iter.Seq2[uint32, uint16]) Rows {
	n, pages, last := 0, 0, -1
	for pc := range rows {
		n++
		if page := int(pc >> 16); page != last {
			pages, last = pages+1, page
		}
	}
	r := Rows{make([]cfiPage, 0, pages), make([]uint16, 0, n), make([]uint16, 0, n)}
	last = -1
	for pc, rule := range rows {
		if page := int(pc >> 16); page != last {
			r.pages = append(r.pages, cfiPage{uint16(page), uint32(len(r.Offs))})
			last = page
		}
		r.Offs = append(r.Offs, uint16(pc))
		r.Index = append(r.Index, rule)
	}
	return r
}

// Bytes returns the memory that the rows take, in bytes.
func (r *Rows) Bytes() int { return 4*len(r.Offs) + 8*len(r.pages) }
