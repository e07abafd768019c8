package bpf

import (
	"slices"
	"unsafe"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// slotKey is the kernel's key of entries by key and slot: a bucket of a histogram, or an
// interval of a series.
type slotKey[K comparable, S any] struct {
	Key  K
	Slot S
}

// slot is the number of a bucket or an interval.
type slot interface{ uint32 | uint64 }

// groupedTable opens a map whose entries are slots. item makes each slot's part of the
// table's value for its key, in order; slots for which it returns false are left out.
func groupedTable[K comparable, S slot, V, R any](h Reader, m *ir.Map,
	item func(slot S, cpus []V) (R, bool), order func(a, b R) int,
) (mapx.Table[K, []R], error) {
	switch {
	case m.Keyless():
		return cutTable(h, m, func(s S) (key K, slot S) { return key, s }, item, order)
	case isOpaque[K]():
		at := check.KernelKey(m).Fields[1].Offset
		return cutTable(h, m, func(k string) (key K, slot S) {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&slot)), unsafe.Sizeof(slot)), k[at:])
			return any(k[:m.Key.Size]).(K), slot
		}, item, order)
	}
	return cutTable(h, m, func(k slotKey[K, S]) (K, S) { return k.Key, k.Slot }, item, order)
}

// cutTable is groupedTable for the kernel's keys In, which cut splits.
func cutTable[In, K comparable, S slot, V, R any](h Reader, m *ir.Map, cut func(In) (K, S),
	item func(slot S, cpus []V) (R, bool), order func(a, b R) int,
) (mapx.Table[K, []R], error) {
	in, err := openPerCPU[In, V](h, m.Name)
	if err != nil {
		return nil, err
	}
	return &table[In, []V, K, []R]{in, func(list []mapx.Entry[In, []V]) []mapx.Entry[K, []R] {
		var g groups[K, R]
		for _, e := range list {
			key, slot := cut(e.Key)
			if r, ok := item(slot, e.Value); ok {
				g.add(key, r)
			}
		}
		return g.entries(order)
	}}, nil
}

// groups collects items by key, in the order in which keys first occur.
type groups[K comparable, R any] struct {
	keys  []K
	byKey map[K][]R
}

func (g *groups[K, R]) add(key K, item R) {
	if g.byKey == nil {
		g.byKey = map[K][]R{}
	}
	if _, ok := g.byKey[key]; !ok {
		g.keys = append(g.keys, key)
	}
	g.byKey[key] = append(g.byKey[key], item)
}

func (g *groups[K, R]) entries(order func(a, b R) int) []mapx.Entry[K, []R] {
	out := make([]mapx.Entry[K, []R], 0, len(g.keys))
	for _, k := range g.keys {
		slices.SortFunc(g.byKey[k], order)
		out = append(out, mapx.Entry[K, []R]{Key: k, Value: g.byKey[k]})
	}
	return out
}
