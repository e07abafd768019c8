package stranger

import (
	"maps"
	"slices"
)

// Pool is an amount of work or memory for many parties, of which none gets more than its part
// of what the others leave: the first of them at most Total/Parts, and the next ones less, but
// one that comes late still gets some. So who asks for too much takes little from the others,
// and all together never more than Total. Only one goroutine may use it at a time.
type Pool[K comparable] struct {
	Total int64
	Parts int64 // at least 1

	taken int64
	by    map[K]int64
}

// Take takes n for a party, or returns false and takes none if that is more than its part. A
// negative n counts as 0.
func (p *Pool[K]) Take(k K, n int64) bool {
	if !p.Has(k, n) {
		return false
	}
	p.Add(k, n)
	return true
}

// Has reports whether Take would take n.
func (p *Pool[K]) Has(k K, n int64) bool {
	return max(n, 0) <= p.Most(k)-p.by[k]
}

// Most returns how much a party may have, with what it took.
func (p *Pool[K]) Most(k K) int64 { return max(0, p.Total-(p.taken-p.by[k])) / p.Parts }

// Keys returns the parties that took something, in no order.
func (p *Pool[K]) Keys() []K { return slices.Collect(maps.Keys(p.by)) }

// Add takes n for a party in any case: what was used was known only afterwards.
func (p *Pool[K]) Add(k K, n int64) {
	if n <= 0 {
		return
	}
	if p.by == nil {
		p.by = make(map[K]int64)
	}
	p.by[k] += n
	p.taken += n
}

// Give returns n of what a party took.
func (p *Pool[K]) Give(k K, n int64) {
	if n = min(n, p.by[k]); n <= 0 {
		return
	}
	p.taken -= n
	if p.by[k] -= n; p.by[k] == 0 {
		delete(p.by, k)
	}
}

// Ebb returns about n of what was taken, of each party in proportion to what it took.
func (p *Pool[K]) Ebb(n int64) {
	if n >= p.taken {
		p.Renew()
		return
	}
	part := float64(n) / float64(p.taken)
	for k, own := range p.by {
		p.Give(k, max(int64(float64(own)*part), 1)) // so that it comes to an end
	}
}

// Renew returns all that was taken.
func (p *Pool[K]) Renew() {
	p.taken = 0
	clear(p.by)
}
