package action

import (
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Series is a time series by key: one value for each interval of the clock.
type Series[K comparable] struct{ agg[K] }

// NewSeries returns time series with room for entries keys times slots intervals of the given
// length. New intervals replace the oldest. inner is what an interval holds: AggCount,
// AggSum, AggMin, AggMax or AggAvg.
func NewSeries[K comparable](name string, entries int, interval time.Duration, slots int,
	inner ir.Agg,
) *Series[K] {
	s := &Series[K]{newAgg[K](name, ir.AggSeries, entries)}
	s.m.Interval, s.m.Slots, s.m.Inner = int64(interval), slots, inner
	return s
}

// Observe adds a value to the current interval. For a key that is a struct, pass the fields
// in order.
func (s *Series[K]) Observe(c *Ctx, value any, key ...any) { s.add(c, lift(value), key) }

// Table returns the series by key: the intervals with observations, in order of time.
func (s *Series[K]) Table(h bpf.Reader) (mapx.Table[K, []bpf.Point], error) {
	return bpf.SeriesTable[K](h, s.m)
}
