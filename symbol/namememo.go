package symbol

// nameMemo is memo for names by nameKey, which is asked for every address: a
// hash table with open addressing takes half the time of a map. One goroutine
// at a time.
type nameMemo struct {
	limit      int64
	young, old nameTable
}

// nameTable maps keys, which are never 0, to names.
type nameTable struct {
	slots []nameSlot // a power of two, half full at most
	n     int
	cost  int64
}

type nameSlot struct {
	key  nameKey
	name string
}

// nameSlotCost is what a name takes besides its bytes: a slot is 24 bytes, and
// between a quarter and a half of them are full.
const nameSlotCost = 96

// slot returns the slot of a key, or the empty one where it belongs.
func (t *nameTable) slot(k nameKey) *nameSlot {
	mask := uint64(len(t.slots) - 1)
	// Fibonacci hashing: the upper bits of the product depend on all of the key.
	for i := uint64(k) * 0x9e3779b97f4a7c15 >> 20; ; i++ {
		if s := &t.slots[i&mask]; s.key == k || s.key == 0 {
			return s
		}
	}
}

func (t *nameTable) get(k nameKey) (string, bool) {
	if t.n == 0 {
		return "", false
	}
	s := t.slot(k)
	return s.name, s.key == k
}

func (t *nameTable) put(k nameKey, name string) {
	if 2*t.n >= len(t.slots) {
		old := t.slots
		t.slots = make([]nameSlot, max(2*len(old), 64))
		for i := range old {
			if old[i].key != 0 {
				*t.slot(old[i].key) = old[i]
			}
		}
	}
	s := t.slot(k)
	if s.key == 0 {
		t.n++
		t.cost += nameSlotCost + int64(len(name))
	}
	*s = nameSlot{k, name}
}

func (m *nameMemo) get(k nameKey) (string, bool) {
	if s, ok := m.young.get(k); ok {
		return s, true
	}
	s, ok := m.old.get(k)
	if ok {
		m.put(k, s)
	}
	return s, ok
}

func (m *nameMemo) put(k nameKey, name string) {
	c := nameSlotCost + int64(len(name))
	if m.young.cost+c > m.limit/2 {
		m.old, m.young = m.young, nameTable{}
		if c > m.limit/2 {
			return
		}
	}
	m.young.put(k, name)
}

func (m *nameMemo) bytes() int64 { return m.young.cost + m.old.cost }
