package bpf

import (
	"cmp"
	"slices"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// Point is one interval of a series.
type Point struct {
	// Start is the start of the interval on CLOCK_MONOTONIC.
	Start time.Duration
	// Value is the count, sum, minimum, maximum, (truncated) average or newest value.
	Value int64
}

// SeriesTable opens the series of a map by key (AggSeries): the intervals in which something
// was observed, in order of time.
func SeriesTable[K comparable](h Reader, m *ir.Map) (mapx.Table[K, []Point], error) {
	switch m.Inner {
	case ir.AggMin, ir.AggMax:
		smallest := m.Inner == ir.AggMin
		return seriesTable[K](h, m, func(cpus []extremeValue) int64 {
			best := uint64(0)
			for _, v := range cpus {
				best = max(best, v.Best)
			}
			return int64(eval.Measure(smallest, m.Signed, best))
		})
	case ir.AggAvg:
		return seriesTable[K](h, m, func(cpus []avgValue) int64 {
			var n, sum int64
			for _, v := range cpus {
				n, sum = n+int64(v.Done), sum+int64(v.Sum)
			}
			return sum / max(n, 1)
		})
	case ir.AggLast:
		return seriesTable[K](h, m, func(cpus []lastValue) int64 {
			return int64(slices.MaxFunc(cpus, func(a, b lastValue) int { return cmp.Compare(a.Time, b.Time) }).Value)
		})
	}
	return seriesTable[K](h, m, func(cpus []uint64) (sum int64) {
		for _, v := range cpus {
			sum += int64(v)
		}
		return sum
	})
}

// lastValue is the value of AggLast on one CPU.
type lastValue struct{ Time, Value uint64 }

func seriesTable[K comparable, V any](h Reader, m *ir.Map,
	reduce func([]V) int64,
) (mapx.Table[K, []Point], error) {
	return groupedTable[K](h, m, func(slot uint64, cpus []V) (Point, bool) {
		return Point{time.Duration(slot * uint64(m.Interval)), reduce(cpus)}, true
	}, func(a, b Point) int { return cmp.Compare(a.Start, b.Start) })
}
