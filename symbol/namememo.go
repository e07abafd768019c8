package symbol

import "sync/atomic"

// sharedMemo is memo for what is asked for every address. Readers take no lock:
// slots are filled once, and whole tables are replaced. One goroutine at a time
// writes.
type sharedMemo[V any] struct {
	limit      int64 // bytes, as the caller counts them
	cost       func(V) int64
	young, old atomic.Pointer[memoTable[V]]
	size       atomic.Int64 // of both tables, in bytes
}

// memoKey says what is remembered: something of a file, at a place in it. what is
// never 0.
type memoKey struct{ what, at uint64 }

// hash is Fibonacci hashing: the upper bits of the product depend on all of the key.
func (k memoKey) hash() uint64 { return (k.at ^ k.what<<40 ^ k.what) * 0x9e3779b97f4a7c15 }

// seenFilter tells what was asked for a second time within a short while from
// what was asked for once: only the former is worth remembering.
type seenFilter [1 << seenBits]atomic.Uint32

const seenBits = 12

// again reports whether it was called with this key before, and not with too many
// others since.
func (s *seenFilter) again(k memoKey) bool {
	h := k.hash()
	slot, tag := &s[h>>(64-seenBits)], uint32(h>>20)|1
	if slot.Load() == tag {
		return true
	}
	slot.Store(tag)
	return false
}

// memoTable is a hash table with open addressing; there is a power of two of
// slots, three quarters of them full at most: the fewer of the processor's cache
// it takes, the better.
type memoTable[V any] struct {
	slots []memoSlot[V]
	n     int   // full slots
	cost  int64 // in bytes
}

// memoSlot is empty while what is 0. It is written last, so that who sees it sees
// the rest.
type memoSlot[V any] struct {
	what atomic.Uint64
	at   uint64
	v    V
}

// sharedCost is what a value takes besides its own bytes: a slot is 32 or 40 bytes,
// and between three eighths and three quarters of them are full.
const sharedCost = 112

// slot returns the slot of a key, or the empty one where it belongs.
func (t *memoTable[V]) slot(k memoKey) (s *memoSlot[V], full bool) {
	mask := uint64(len(t.slots) - 1)
	for i := k.hash() >> 20; ; i++ {
		s := &t.slots[i&mask]
		switch what := s.what.Load(); {
		case what == 0:
			return s, false
		case what == k.what && s.at == k.at:
			return s, true
		}
	}
}

// get returns what is remembered under a key. If aged is set, the writer should
// put it again, so that it is not forgotten.
func (m *sharedMemo[V]) get(k memoKey) (v V, aged, ok bool) {
	if t := m.young.Load(); t != nil {
		if s, full := t.slot(k); full {
			return s.v, false, true
		}
	}
	if t := m.old.Load(); t != nil {
		if s, full := t.slot(k); full {
			return s.v, true, true
		}
	}
	return v, false, false
}

// hasRoom reports whether a value can be put without anything being forgotten.
func (m *sharedMemo[V]) hasRoom(v V) bool {
	return m.old.Load() == nil && m.size.Load()+sharedCost+m.cost(v) <= m.limit/2
}

// put remembers a value, unless one is under that key already, or it takes more
// than half of the limit.
func (m *sharedMemo[V]) put(k memoKey, v V) {
	c := sharedCost + m.cost(v)
	t := m.young.Load()
	if t == nil || t.cost+c > m.limit/2 {
		m.old.Store(t)
		t = &memoTable[V]{slots: make([]memoSlot[V], 64)}
		m.young.Store(t)
	}
	if c > m.limit/2 {
		return
	}
	if 4*t.n >= 3*len(t.slots) {
		t = t.grown()
		m.young.Store(t)
	}
	t.fill(k, v, c)
	size := t.cost
	if old := m.old.Load(); old != nil {
		size += old.cost
	}
	m.size.Store(size)
}

func (t *memoTable[V]) fill(k memoKey, v V, cost int64) {
	s, full := t.slot(k)
	if full {
		return
	}
	s.at, s.v = k.at, v
	s.what.Store(k.what)
	t.n++
	t.cost += cost
}

// grown returns a copy of the table with twice as many slots.
func (t *memoTable[V]) grown() *memoTable[V] {
	out := &memoTable[V]{slots: make([]memoSlot[V], 2*len(t.slots))}
	for i := range t.slots {
		if s := &t.slots[i]; s.what.Load() != 0 {
			out.fill(memoKey{s.what.Load(), s.at}, s.v, 0)
		}
	}
	out.cost = t.cost
	return out
}

func (m *sharedMemo[V]) bytes() int64 { return m.size.Load() }
