package hist

import "math/bits"

// moments are the exact figures of a distribution that tracks them.
type moments struct {
	sumHi, sumLo uint64 // 128 bits, two's complement
	min, max     int64
	n            uint64
}

func (m *moments) add(v int64, n uint64) {
	if m.n == 0 || v < m.min {
		m.min = v
	}
	if m.n == 0 || v > m.max {
		m.max = v
	}
	m.n += n
	m.addProduct(v, n)
}

func (m *moments) mean() float64 { return m.sum() / float64(m.n) }

// sum returns the 128-bit sum, rounded once.
func (m *moments) sum() float64 {
	hi, lo, sign := m.sumHi, m.sumLo, 1.0
	if int64(hi) < 0 {
		sign = -1
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	return sign * (float64(hi)*(1<<64) + float64(lo))
}

// addProduct adds v·n to the 128-bit sum.
func (m *moments) addProduct(v int64, n uint64) {
	neg := v < 0
	u := uint64(v)
	if neg {
		u = -u
	}
	hi, lo := bits.Mul64(u, n)
	if neg {
		var borrow uint64
		m.sumLo, borrow = bits.Sub64(m.sumLo, lo, 0)
		m.sumHi, _ = bits.Sub64(m.sumHi, hi, borrow)
		return
	}
	var carry uint64
	m.sumLo, carry = bits.Add64(m.sumLo, lo, 0)
	m.sumHi, _ = bits.Add64(m.sumHi, hi, carry)
}

// merge adds the moments of o.
func (m *moments) merge(o *moments) {
	if o.n == 0 {
		return
	}
	if m.n == 0 {
		*m = *o
		return
	}
	m.min, m.max, m.n = min(m.min, o.min), max(m.max, o.max), m.n+o.n
	var carry uint64
	m.sumLo, carry = bits.Add64(m.sumLo, o.sumLo, 0)
	m.sumHi, _ = bits.Add64(m.sumHi, o.sumHi, carry)
}
