package stack

import "sort"

// sortSegs brings the FDEs in order of their addresses.
func (b *cfiBuilder) sortSegs() {
	byStart := func(i, j int) bool { return b.segs[i].start < b.segs[j].start }
	if !sort.SliceIsSorted(b.segs, byStart) {
		sort.SliceStable(b.segs, byStart) // of equal ones, .eh_frame's stays first
	}
}

// merged yields the rows of the sorted FDEs, with rows for the gaps between. It
// can't be stopped early: PackRows is its only user.
func (b *cfiBuilder) merged(yield func(uint32, uint16) bool) {
	m, starts := rowMerger{yield: yield}, b.starts
	end := uint32(0)
	for i, s := range b.segs {
		if i > 0 && s.end <= end {
			continue // described twice
		}
		if i > 0 && s.start > end && s.start-end >= minGap {
			m.row(end, 0)
		}
		for ; len(starts) > 0 && starts[0] <= s.start; starts = starts[1:] {
			m.row(starts[0]-1, b.start)
			if starts[0] < s.start {
				m.row(starts[0], 0)
			}
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
