package bpf

import (
	"slices"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// Point is one interval of a series.
type Point struct {
	// Start is the interval's begin, as CLOCK_MONOTONIC.
	Start time.Duration
	// Value is the count, sum, minimum, maximum or (truncated) average.
	Value int64
}

// seriesKey is the kernel's key of a series by key.
type seriesKey[K comparable] struct {
	Key  K
	Slot uint64
}

// SeriesTable is the series of a map by key (AggSeries): the intervals in which something was observed, in
// order of time.
func SeriesTable[K comparable](h Handles, m *ir.Map) (mapx.Table[K, []Point], error) {
	switch m.Inner {
	case ir.AggMin, ir.AggMax:
		smallest := m.Inner == ir.AggMin
		return seriesTable[K](h, m, func(cpus []extremeValue) int64 {
			best := uint64(0)
			for _, v := range cpus {
				best = max(best, v.Best)
			}
			return int64(eval.Measure(smallest, true, best))
		})
	case ir.AggAvg:
		return seriesTable[K](h, m, func(cpus []avgValue) int64 {
			var n, sum int64
			for _, v := range cpus {
				n, sum = n+int64(v.Done), sum+int64(v.Sum)
			}
			return sum / max(n, 1)
		})
	}
	return seriesTable[K](h, m, func(cpus []uint64) (sum int64) {
		for _, v := range cpus {
			sum += int64(v)
		}
		return sum
	})
}

func seriesTable[K comparable, V any](h Handles, m *ir.Map, reduce func([]V) int64) (mapx.Table[K, []Point], error) {
	if m.Keyless() {
		in, err := openPerCPU[uint64, V](h, m.Name)
		if err != nil {
			return nil, err
		}
		return &table[uint64, []V, K, []Point]{in, func(list []mapx.Entry[uint64, []V]) []mapx.Entry[K, []Point] {
			p := newPoints[K](m)
			for _, e := range list {
				p.add(*new(K), e.Key, reduce(e.Value))
			}
			return p.entries()
		}}, nil
	}
	in, err := openPerCPU[seriesKey[K], V](h, m.Name)
	if err != nil {
		return nil, err
	}
	return &table[seriesKey[K], []V, K, []Point]{in, func(list []mapx.Entry[seriesKey[K], []V]) []mapx.Entry[K, []Point] {
		p := newPoints[K](m)
		for _, e := range list {
			p.add(e.Key.Key, e.Key.Slot, reduce(e.Value))
		}
		return p.entries()
	}}, nil
}

// points gathers intervals by key.
type points[K comparable] struct {
	m     *ir.Map
	order []K
	byKey map[K][]Point
}

func newPoints[K comparable](m *ir.Map) *points[K] {
	return &points[K]{m: m, byKey: map[K][]Point{}}
}

func (p *points[K]) add(key K, slot uint64, v int64) {
	if _, ok := p.byKey[key]; !ok {
		p.order = append(p.order, key)
	}
	p.byKey[key] = append(p.byKey[key], Point{time.Duration(slot * uint64(p.m.Interval)), v})
}

func (p *points[K]) entries() []mapx.Entry[K, []Point] {
	out := make([]mapx.Entry[K, []Point], 0, len(p.order))
	for _, k := range p.order {
		list := p.byKey[k]
		slices.SortFunc(list, func(a, b Point) int { return int(a.Start - b.Start) })
		out = append(out, mapx.Entry[K, []Point]{Key: k, Value: list})
	}
	return out
}
