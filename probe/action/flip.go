package action

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/mapx"
)

// flipNames are the two maps behind a map with Flip of that name.
func flipNames(name string) [2]string { return [2]string{name + ".a", name + ".b"} }

// addMap adds a map, or one of a map's classes, to a collection.
func addMap(spec *ebpf.CollectionSpec, m *Map, ms *ebpf.MapSpec) {
	if !m.Flip {
		spec.Maps[ms.Name] = ms
		return
	}
	for _, name := range flipNames(ms.Name) {
		inner := ms.Copy()
		inner.Name = name
		spec.Maps[name] = inner
	}
	spec.Maps[ms.Name] = &ebpf.MapSpec{
		Name: ms.Name, Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: ms.Copy(),
	}
}

// flipped looks up the map that is written now, and returns how to load its
// address: all of an update has to go to one map. If there is none, which is not
// so once the program is loaded, the loss is counted and done is next.
func (g *gen) flipped(name string, m *Map, done string) func() {
	key, at, none := g.slot(), g.slot(), g.label()
	g.storeImm(key, 0, 4)
	g.emit(asm.LoadMapPtr(asm.R1, 0).WithReference(name))
	g.addr(asm.R2, key)
	g.call(asm.FnMapLookupElem)
	g.emit(asm.JEq.Imm(asm.R0, 0, none))
	g.store(at, asm.R0, 8)
	g.later(none, func() {
		g.count(g.lay.lost(m))
		g.jump(done)
	})
	return func() { g.load(asm.R1, at, 8) }
}

// flippedMap refuses what a program cannot do with a map that its reader takes
// away from it.
func flippedMap(m *Map) error {
	if m != nil && m.Flip {
		return fmt.Errorf("map %s flips: a program can only add to it", m.Name)
	}
	return nil
}

// tableMap is the map that holds a map's entries, or one of the two; nil where
// there is no kernel.
func tableMap(h Handles, m *Map) *ebpf.Map {
	em := h.EBPFMap(m)
	if em == nil || !m.Flip {
		return em
	}
	return h.source().live.coll.Maps[flipNames(m.Name)[0]]
}

// startFlips has the program write the first of every two maps.
func (l *Loaded) startFlips() error {
	for name, outer := range l.coll.Maps {
		if outer.Type() != ebpf.ArrayOfMaps {
			continue
		}
		if err := outer.Put(uint32(0), l.coll.Maps[flipNames(name)[0]]); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return nil
}

// openFlip opens a map with Flip. All tables of one map share one: it knows which
// of the two is being written.
func openFlip[K comparable, V any](l *Loaded, name string) (*mapx.Flip[K, []V], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.flips[name]; ok {
		if f, ok := f.(*mapx.Flip[K, []V]); ok {
			return f, nil
		}
		return nil, fmt.Errorf("map %s is open with other types", name)
	}
	var halves [2]*mapx.PerCPU[K, V]
	for i, n := range flipNames(name) {
		var err error
		if halves[i], err = mapx.NewPerCPU[K, V](l.coll.Maps[n]); err != nil {
			return nil, err
		}
	}
	f, err := mapx.NewFlipPerCPU(l.coll.Maps[name], 0, halves[0], halves[1])
	if err != nil {
		return nil, err
	}
	if l.flips == nil {
		l.flips = map[string]any{}
	}
	l.flips[name] = f
	return f, nil
}

// wholeFlip is wholeTable for a map with Flip. What ReadAndClear returns is at
// rest, and whole as it is.
type wholeFlip[K comparable, V any] struct {
	*mapx.Flip[K, []V]
	whole func(V) bool
}

// Snapshot returns the entries as they are now, each whole.
func (t *wholeFlip[K, V]) Snapshot() (mapx.Snapshot[K, []V], error) {
	torn := func(v V) bool { return !t.whole(v) }
	var p pacer
	for {
		s, err := t.Flip.Snapshot()
		if err != nil || !slices.ContainsFunc(s.Entries, func(e mapx.Entry[K, []V]) bool {
			return slices.ContainsFunc(e.Value, torn)
		}) {
			return s, err
		}
		if !p.next() {
			return s, ErrTorn
		}
	}
}
