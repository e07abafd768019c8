package action

import (
	"slices"
	"time"

	"github.com/borescope/borescope/mapx"
)

// Series is a time series by key: one value for every interval of the clock.
type Series[K comparable] struct{ agg[K] }

// NewSeries returns time series with room for entries keys times slots
// intervals of the given length; the oldest intervals make room for new ones.
// inner is what an interval holds: AggCount, AggSum, AggMin, AggMax or AggAvg.
func NewSeries[K comparable](name string, entries int, interval time.Duration, slots int, inner Agg) *Series[K] {
	s := &Series[K]{newAgg[K](name, AggSeries, entries)}
	s.m.Interval, s.m.Slots, s.m.Inner = int64(interval), slots, inner
	return s
}

// Observe adds a value to the current interval. Of a key that is a struct, pass
// the fields in order.
func (s *Series[K]) Observe(c *Ctx, value any, key ...any) { s.add(c, lift(value), key) }

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

// Table is the series by key: the intervals in which something was observed, in
// order of time.
func (s *Series[K]) Table(h Handles) (mapx.Table[K, []Point], error) {
	switch s.m.Inner {
	case AggMin, AggMax:
		smallest := s.m.Inner == AggMin
		return seriesTable(h, s, func(cpus []extremeValue) int64 {
			best := uint64(0)
			for _, v := range cpus {
				best = max(best, v.Best)
			}
			return int64(measure(smallest, true, best))
		})
	case AggAvg:
		return seriesTable(h, s, func(cpus []avgValue) int64 {
			var n, sum int64
			for _, v := range cpus {
				n, sum = n+int64(v.Done), sum+int64(v.Sum)
			}
			return sum / max(n, 1)
		})
	}
	return seriesTable(h, s, func(cpus []uint64) (sum int64) {
		for _, v := range cpus {
			sum += int64(v)
		}
		return sum
	})
}

func seriesTable[K comparable, V any](h Handles, s *Series[K], reduce func([]V) int64) (mapx.Table[K, []Point], error) {
	if s.m.Keyless() {
		in, err := openPerCPU[uint64, V](h, s.m.Name)
		if err != nil {
			return nil, err
		}
		return &table[uint64, []V, K, []Point]{in, func(list []mapx.Entry[uint64, []V]) []mapx.Entry[K, []Point] {
			p := newPoints[K](s.m)
			for _, e := range list {
				p.add(*new(K), e.Key, reduce(e.Value))
			}
			return p.entries()
		}}, nil
	}
	in, err := openPerCPU[seriesKey[K], V](h, s.m.Name)
	if err != nil {
		return nil, err
	}
	return &table[seriesKey[K], []V, K, []Point]{in, func(list []mapx.Entry[seriesKey[K], []V]) []mapx.Entry[K, []Point] {
		p := newPoints[K](s.m)
		for _, e := range list {
			p.add(e.Key.Key, e.Key.Slot, reduce(e.Value))
		}
		return p.entries()
	}}, nil
}

// points gathers intervals by key.
type points[K comparable] struct {
	m     *Map
	order []K
	byKey map[K][]Point
}

func newPoints[K comparable](m *Map) *points[K] {
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
