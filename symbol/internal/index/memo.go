// Package index finds addresses in sorted lists in few steps, and remembers what was found
// within a bound.
package index

// Memo is a bounded cache in two generations: when the younger holds half of
// the limit, it becomes the older, and the older is dropped. What was used
// since then is carried over. It needs no list and no clock, and never holds
// more than the limit. One goroutine at a time.
type Memo[K comparable, V any] struct {
	Limit    int64 // bytes, as the caller counts them
	young    map[K]V
	old      map[K]V
	cost     int64 // of young
	oldCost  int64
	CostFunc func(V) int64
}

// memoEntry is what a map spends on an entry besides the strings, about.
const memoEntry = 48

// Get returns what is remembered.
func (m *Memo[K, V]) Get(k K) (v V, ok bool) {
	if v, ok = m.young[k]; ok {
		return v, true
	}
	if v, ok = m.old[k]; ok {
		m.Put(k, v)
	}
	return v, ok
}

// Put remembers a value.
func (m *Memo[K, V]) Put(k K, v V) {
	c := memoEntry + m.CostFunc(v)
	if m.young == nil || m.cost+c > m.Limit/2 {
		m.old, m.oldCost = m.young, m.cost
		m.young, m.cost = map[K]V{}, 0
		if c > m.Limit/2 {
			return // would not fit at all
		}
	}
	m.young[k] = v
	m.cost += c
}

// Bytes is what is held, as the caller counts.
func (m *Memo[K, V]) Bytes() int64 { return m.cost + m.oldCost }
