package collect

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// copiedTable is a table of counts from which samples were moved. A window's are read once all of its
// copies have been walked: the programs count first.
type copiedTable[K comparable, V any] struct {
	mapx.Table[K, V]
	p    *copied
	key  func(task, waker taskKey) K
	sum  func(*V) summed
	each func(summed) V
}

// Snapshot implements mapx.Table. Copies that wait for a file to be compiled go on waiting: a later one has
// their samples where they belong.
func (t *copiedTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	_ = t.p.take()
	half := &t.p.halves[t.p.c.window.active]
	s, err := t.Table.Snapshot()
	t.apply(&s, half)
	return s, err
}

// ReadAndClear implements mapx.Table.
func (t *copiedTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	_ = t.p.takeAll()
	half := &t.p.halves[1-t.p.c.window.active]
	s, err := t.Table.ReadAndClear()
	if err == nil {
		t.apply(&s, half)
		half.samples = nil
	}
	return s, err
}

// apply moves samples to the stacks that were found.
func (t *copiedTable[K, V]) apply(s *mapx.Snapshot[K, V], half *moved) {
	if len(half.samples) == 0 {
		return
	}
	at := make(map[K]int, len(half.samples))
	for m := range half.samples {
		at[t.key(m.from, m.waker)] = -1
	}
	for i := range s.Entries {
		if _, ok := at[s.Entries[i].Key]; ok {
			at[s.Entries[i].Key] = i
		}
	}
	added := make(map[K]summed, len(half.samples))
	for m, n := range half.samples {
		i := at[t.key(m.from, m.waker)]
		if i < 0 {
			continue // it was not counted
		}
		v := t.sum(&s.Entries[i].Value)
		v.Count -= n.Count
		v.Sum -= n.Sum
		s.Entries[i].Value = t.each(v)
		k := t.key(m.to, m.waker)
		to, ok := added[k]
		if !ok {
			to = summed{First: n.First}
		}
		added[k] = summed{to.Count + n.Count, to.Sum + n.Sum, min(to.First, n.First), max(to.Last, n.Last)}
	}
	s.Entries = slices.DeleteFunc(s.Entries, func(e mapx.Entry[K, V]) bool { return t.sum(&e.Value).Count == 0 })
	for k, v := range added {
		s.Entries = append(s.Entries, mapx.Entry[K, V]{Key: k, Value: t.each(v)})
	}
}

// copiedSegmentTable is the table of segments with those of the stacks that samples were moved to.
type copiedSegmentTable struct {
	mapx.Table[segment, uint64]
	p *copied
}

// Snapshot implements mapx.Table.
func (t *copiedSegmentTable) Snapshot() (mapx.Snapshot[segment, uint64], error) {
	s, err := t.Table.Snapshot()
	return t.with(s, t.p.c.window.active), err
}

// ReadAndClear implements mapx.Table.
func (t *copiedSegmentTable) ReadAndClear() (mapx.Snapshot[segment, uint64], error) {
	s, err := t.Table.ReadAndClear()
	if err != nil {
		return s, err
	}
	half := 1 - t.p.c.window.active
	s = t.with(s, half)
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.halves[half].ids, t.p.halves[half].stacks = nil, nil
	return s, nil
}

// with returns the segments that the programs made with those of a window's stacks.
func (t *copiedSegmentTable) with(s mapx.Snapshot[segment, uint64], half int) mapx.Snapshot[segment, uint64] {
	own := s.Entries
	var found segments
	t.each(half, func(id stackID) []uint64 {
		if found.byID == nil {
			for i := range own {
				found.add(&own[i].Key, own[i].Value)
			}
		}
		pcs, _ := found.addresses(id)
		return pcs
	}, func(g *segment, id uint64) {
		s.Entries = append(s.Entries, mapx.Entry[segment, uint64]{Key: *g, Value: id})
	})
	return s
}

// each calls add with the segments of a window's stacks. found returns the addresses of a stack that the
// program found.
func (t *copiedSegmentTable) each(half int, found func(stackID) []uint64, add func(g *segment, id uint64)) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	for _, c := range t.p.stacksOf(half).stacks {
		var pcs []uint64
		for b := []byte(c.pcs); len(b) > 0; b = b[8:] {
			pcs = append(pcs, binary.NativeEndian.Uint64(b))
		}
		if c.inner != 0 {
			for _, v := range found(c.inner) {
				if bpfwalk.DecodeFrame(v, false).Source == stack.SourceInterpreter {
					pcs = append(pcs, v)
				}
			}
		}
		n := (len(pcs) + segmentPCs - 1) / segmentPCs
		for i := range n { // the outermost has the stack's id
			g, id := segment{}, uint64(c.id)+uint64(n-1-i)
			if i > 0 {
				g.Parent = id + 1
			}
			copy(g.PCs[:], pcs[i*segmentPCs:])
			add(&g, id)
		}
	}
}

// copiedCounters is the table of counters with the number of samples that were moved.
type copiedCounters struct {
	mapx.Table[uint32, []uint64]
	p *copied
}

// Snapshot implements mapx.Table.
func (t *copiedCounters) Snapshot() (mapx.Snapshot[uint32, []uint64], error) {
	s, err := t.Table.Snapshot()
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	for i := range s.Entries {
		switch e := &s.Entries[i]; {
		case len(e.Value) == 0:
		case e.Key == counterCopied:
			e.Value[0] = t.p.walked
		case e.Key == counterCopyFull:
			e.Value[0] += t.p.full
		}
	}
	return s, err
}

// setCopying says whether someone walks copies.
func (c *Collector) setCopying(on uint32) error {
	c.window.mu.Lock()
	defer c.window.mu.Unlock()
	c.copy = on
	if err := c.writeTo(c.window.active); err != nil {
		return fmt.Errorf("collect: switch copying: %w", err)
	}
	return nil
}

// close frees the ring.
func (p *copied) close() error {
	if p == nil {
		return nil
	}
	return p.ring.Close()
}
