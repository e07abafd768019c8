package bpf

import (
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
)

// slotKey is the kernel's key of what is kept by key and, of each, by slot: a bucket of
// a histogram, an interval of a series.
type slotKey[K comparable, S any] struct {
	Key  K
	Slot S
}

// groupedTable opens a map whose entries are slots, of which item makes what the table
// has for each key, in order. It leaves out those for which item returns false.
func groupedTable[K, S comparable, V, R any](h Handles, m *ir.Map, item func(slot S, cpus []V) (R, bool), order func(a, b R) int) (mapx.Table[K, []R], error) {
	if m.Keyless() {
		in, err := openPerCPU[S, V](h, m.Name)
		if err != nil {
			return nil, err
		}
		return &table[S, []V, K, []R]{in, func(list []mapx.Entry[S, []V]) []mapx.Entry[K, []R] {
			var g groups[K, R]
			for _, e := range list {
				if r, ok := item(e.Key, e.Value); ok {
					g.add(*new(K), r)
				}
			}
			return g.entries(order)
		}}, nil
	}
	in, err := openPerCPU[slotKey[K, S], V](h, m.Name)
	if err != nil {
		return nil, err
	}
	return &table[slotKey[K, S], []V, K, []R]{in, func(list []mapx.Entry[slotKey[K, S], []V]) []mapx.Entry[K, []R] {
		var g groups[K, R]
		for _, e := range list {
			if r, ok := item(e.Key.Slot, e.Value); ok {
				g.add(e.Key.Key, r)
			}
		}
		return g.entries(order)
	}}, nil
}

// groups gathers items by key, in the order in which keys come.
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
