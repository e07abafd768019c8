package action

import (
	"fmt"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// newWindows divides the table of an aggregation into windows of time.
func newWindows[K comparable, V any](h bpf.Reader, m *ir.Map, keep time.Duration,
	open func(bpf.Reader) (mapx.Table[K, V], error), merge func(a, b V) V,
) (*mapx.Windows[K, V], error) {
	t, err := open(h)
	if err != nil {
		return nil, err
	}
	if !bpf.Lossless(h, m) {
		return nil, fmt.Errorf("windows of %s: call Flip before Attach: what is counted while it is read would be lost",
			m.Name)
	}
	since := time.Now()
	if s, ok := h.(*Session); ok {
		since = s.since
	}
	return mapx.NewWindows(t, since, keep, merge), nil
}

// Windows divides the counts into windows of time, of which it keeps those of the time keep. Every
// event is in exactly one. It needs Flip. Use one Windows for a counter, and its Table only for
// Snapshot: two that clear take events away from each other.
func (n *Counter[K]) Windows(s bpf.Reader, keep time.Duration) (*mapx.Windows[K, uint64], error) {
	return newWindows(s, n.m, keep, n.Table, func(a, b uint64) uint64 { return a + b })
}

// Windows is Counter.Windows for sums, minima or maxima.
func (n *Aggregate[K]) Windows(s bpf.Reader, keep time.Duration) (*mapx.Windows[K, int64], error) {
	merge := func(a, b int64) int64 { return a + b }
	switch n.m.Agg {
	case ir.AggMin:
		merge = func(a, b int64) int64 { return min(a, b) }
	case ir.AggMax:
		merge = func(a, b int64) int64 { return max(a, b) }
	}
	return newWindows(s, n.m, keep, n.Table, merge)
}

// Windows is Counter.Windows for summaries.
func (n *Summary[K]) Windows(s bpf.Reader, keep time.Duration) (*mapx.Windows[K, bpf.Stat], error) {
	return newWindows(s, n.m, keep, n.Table, bpf.Stat.Merge)
}

// Windows is Counter.Windows for histograms.
func (h *Hist[K]) Windows(s bpf.Reader, keep time.Duration) (*mapx.Windows[K, []hist.Bucket], error) {
	return newWindows(s, h.m, keep, h.Table, bpf.MergeBuckets)
}
