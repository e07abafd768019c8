// Package index finds addresses in sorted lists in few steps, and keeps results in bounded
// memory.
package index

// Memo is a bounded cache in two generations. When the younger one takes half of the limit, it
// becomes the older one, and the older one is dropped; values that were used since are carried
// over. It needs no list and no clock, and never exceeds the limit. One goroutine at a time may
// use it.
type Memo[K comparable, V any] struct {
	Limit    int64 // bytes, as the caller counts them
	young    map[K]V
	old      map[K]V
	cost     int64 // of young
	oldCost  int64
	CostFunc func(V) int64
}

// memoEntry is about what a map takes for an entry besides the strings, in bytes.
const memoEntry = 48

// Get returns the value of a key.
func (m *Memo[K, V]) Get(k K) (v V, ok bool) {
	if v, ok = m.young[k]; ok {
		return v, true
	}
	if v, ok = m.old[k]; ok {
		m.Put(k, v)
	}
	return v, ok
}

// Put keeps a value.
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

// Bytes returns the size of all values, as the caller counts it.
func (m *Memo[K, V]) Bytes() int64 { return m.cost + m.oldCost }
