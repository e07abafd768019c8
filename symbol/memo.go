package symbol

// memo is a bounded cache in two generations: when the younger holds half of
// the limit, it becomes the older, and the older is dropped. What was used
// since then is carried over. It needs no list and no clock, and never holds
// more than the limit. One goroutine at a time.
type memo[K comparable, V any] struct {
	limit    int64 // bytes, as the caller counts them
	young    map[K]V
	old      map[K]V
	cost     int64 // of young
	oldCost  int64
	costFunc func(V) int64
}

// memoEntry is what a map spends on an entry besides the strings, about.
const memoEntry = 48

func (m *memo[K, V]) get(k K) (v V, ok bool) {
	if v, ok = m.young[k]; ok {
		return v, true
	}
	if v, ok = m.old[k]; ok {
		m.put(k, v)
	}
	return v, ok
}

func (m *memo[K, V]) put(k K, v V) {
	c := memoEntry + m.costFunc(v)
	if m.young == nil || m.cost+c > m.limit/2 {
		m.old, m.oldCost = m.young, m.cost
		m.young, m.cost = map[K]V{}, 0
		if c > m.limit/2 {
			return // would not fit at all
		}
	}
	m.young[k] = v
	m.cost += c
}

func (m *memo[K, V]) bytes() int64 { return m.cost + m.oldCost }
