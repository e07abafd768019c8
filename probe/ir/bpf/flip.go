package bpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
)

// flipNames returns the names of the two maps behind a map with Flip.
func flipNames(name string) [2]string { return [2]string{name + ".a", name + ".b"} }

// addMap adds a map, or one of a map's classes, to a collection.
func addMap(spec *ebpf.CollectionSpec, m *ir.Map, ms *ebpf.MapSpec) {
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
		Name: ms.Name, Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1,
		InnerMap: ms.Copy(),
	}
}

// kernelMaps returns the names of the kernel's maps that hold a map's entries: that of the full
// depth and the classes of an aggregation by stack, and of each of these two if m has Flip.
func kernelMaps(m *ir.Map) []string {
	names := depthNames(m)
	if !m.Flip {
		return names
	}
	var pairs []string
	for _, name := range names {
		pair := flipNames(name)
		pairs = append(pairs, pair[:]...)
	}
	return pairs
}

// tableMap returns the kernel's map that holds a map's entries, one of the two if m has Flip.
// It is nil if there is no kernel.
func tableMap(h Reader, m *ir.Map) *ebpf.Map {
	em := h.EBPFMap(m)
	if em == nil || !m.Flip {
		return em
	}
	return h.source().live.coll.Maps[flipNames(m.Name)[0]]
}

// Lossless reports whether ReadAndClear of a map's table loses nothing: the map was loaded with
// Flip, or it is a recording's.
func Lossless(h Reader, m *ir.Map) bool {
	em := h.EBPFMap(m)
	return em == nil || em.Type() == ebpf.ArrayOfMaps
}

// startFlips makes the program write to the first map of each pair.
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

// openFlip opens a map with Flip. All tables of one map share one mapx.Flip, which keeps
// track of the map that is being written.
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

// wholeFlip is wholeTable for a map with Flip. Only Snapshot has to read again: the entries
// that ReadAndClear returns no longer change.
type wholeFlip[K comparable, V any] struct {
	*mapx.Flip[K, []V]
	whole func(V) bool
}

// Snapshot returns the current entries, each whole.
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
