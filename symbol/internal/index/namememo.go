package index

import (
	"math/bits"
	"sync/atomic"
)

// SharedMemo is Memo for values that are looked up for every address. Readers take no lock:
// slots are filled once, and whole tables are replaced. One goroutine at a time may write.
type SharedMemo[V any] struct {
	Limit      int64 // bytes, as the caller counts them
	Cost       func(V) int64
	young, old atomic.Pointer[memoTable[V]]
	size       atomic.Int64 // of both tables, in bytes
}

// MemoKey is the key of a value: a number for what it belongs to, such as a file, and a place
// in it.
type MemoKey struct{ What, At uint64 }

// hash is Fibonacci hashing: the upper bits of the product depend on the whole key.
func (k MemoKey) hash() uint64 { return (k.At ^ k.What<<40 ^ k.What) * 0x9e3779b97f4a7c15 }

// SeenFilter separates keys that are used a second time within a short while from those that
// are used once: only the former are worth remembering.
type SeenFilter [1 << seenBits]atomic.Uint32

const seenBits = 12

// Again reports whether it was called with this key before, and not with too many other keys
// since.
func (s *SeenFilter) Again(k MemoKey) bool {
	h := k.hash()
	slot, tag := &s[h>>(64-seenBits)], uint32(h>>20)|1
	if slot.Load() == tag {
		return true
	}
	slot.Store(tag)
	return false
}

// memoTable is a hash table with open addressing, in groups of 8 slots. The number of groups is
// a power of two, and at most three quarters of the slots are full. A group has one word of
// tags, a byte for each slot: 0 if the slot is empty, else 7 bits of the key's hash and the
// highest bit set. So a lookup that fails reads only the word, and others one slot more: there
// are too many slots for the processor's caches.
type memoTable[V any] struct {
	tags  []atomic.Uint64
	slots []memoSlot[V]
	n     int   // full slots
	cost  int64 // in bytes
}

// memoSlot is written before its tag, so a reader that sees the tag sees the whole slot.
type memoSlot[V any] struct {
	key MemoKey
	v   V
}

// sharedCost is the memory of a value in bytes, without its own: a slot and its tag take 33 or
// 41 bytes, and between three eighths and three quarters of the slots are full.
const sharedCost = 112

func newMemoTable[V any](groups int) *memoTable[V] {
	return &memoTable[V]{
		tags:  make([]atomic.Uint64, groups),
		slots: make([]memoSlot[V], memoGroup*groups),
	}
}

const (
	memoGroup = 8
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// slot returns the slot of a key. If the table does not have the key, full is false, and s is
// the empty slot for it.
func (t *memoTable[V]) slot(k MemoKey) (s int, full bool) {
	h, mask := k.hash(), uint64(len(t.tags)-1)
	tag := (h>>57 | 0x80) * everyByte
	for g := h >> 20 & mask; ; g = (g + 1) & mask {
		w := t.tags[g].Load()
		// Sets the highest bit of each byte that is 0 in x, and rarely of another.
		x := w ^ tag
		for m := (x - everyByte) &^ x & highBits; m != 0; m &= m - 1 {
			s := int(g)*memoGroup + bits.TrailingZeros64(m)/8
			if t.slots[s].key == k {
				return s, true
			}
		}
		if empty := ^w & highBits; empty != 0 {
			return int(g)*memoGroup + bits.TrailingZeros64(empty)/8, false
		}
	}
}

// Get returns the value of a key. If aged is set, the writer should put the value again to keep
// it.
func (m *SharedMemo[V]) Get(k MemoKey) (v V, aged, ok bool) {
	if t := m.young.Load(); t != nil {
		if s, full := t.slot(k); full {
			return t.slots[s].v, false, true
		}
	}
	if t := m.old.Load(); t != nil {
		if s, full := t.slot(k); full {
			return t.slots[s].v, true, true
		}
	}
	return v, false, false
}

// NearlyFull reports whether values were dropped already, or will be soon.
func (m *SharedMemo[V]) NearlyFull() bool {
	return m.old.Load() != nil || m.size.Load() > m.Limit/2-m.Limit/64
}

// HasRoom reports whether Put keeps v without dropping any value.
func (m *SharedMemo[V]) HasRoom(v V) bool {
	return m.old.Load() == nil && m.size.Load()+sharedCost+m.Cost(v) <= m.Limit/2
}

// Put keeps a value, unless the key has one already or it takes more than half of the limit.
func (m *SharedMemo[V]) Put(k MemoKey, v V) {
	c := sharedCost + m.Cost(v)
	t := m.young.Load()
	if t == nil || t.cost+c > m.Limit/2 {
		m.old.Store(t)
		t = newMemoTable[V](8)
		m.young.Store(t)
	}
	if c > m.Limit/2 {
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

func (t *memoTable[V]) fill(k MemoKey, v V, cost int64) {
	s, full := t.slot(k)
	if full {
		return
	}
	t.slots[s] = memoSlot[V]{k, v}
	tags := &t.tags[s/memoGroup]
	tags.Store(tags.Load() | (k.hash()>>57|0x80)<<(s%memoGroup*8))
	t.n++
	t.cost += cost
}

// grown returns a copy of the table with twice as many slots.
func (t *memoTable[V]) grown() *memoTable[V] {
	out := newMemoTable[V](2 * len(t.tags))
	for g := range t.tags {
		for m := t.tags[g].Load() & highBits; m != 0; m &= m - 1 {
			s := &t.slots[g*memoGroup+bits.TrailingZeros64(m)/8]
			out.fill(s.key, s.v, 0)
		}
	}
	out.cost = t.cost
	return out
}

// Bytes returns the memory of both tables, in bytes.
func (m *SharedMemo[V]) Bytes() int64 { return m.size.Load() }
