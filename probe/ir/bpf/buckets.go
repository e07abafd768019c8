package bpf

import (
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// buckets gathers histogram buckets by key.
type buckets[K comparable] struct {
	m     *ir.Map
	order []K
	byKey map[K][]Bucket
}

func newBuckets[K comparable](m *ir.Map) *buckets[K] {
	return &buckets[K]{m: m, byKey: map[K][]Bucket{}}
}

func (b *buckets[K]) add(key K, bucket uint32, n uint64) {
	if n == 0 {
		return
	}
	if _, ok := b.byKey[key]; !ok {
		b.order = append(b.order, key)
	}
	lo, hi := bucketRange(b.m, int(bucket))
	b.byKey[key] = append(b.byKey[key], Bucket{Lo: lo, Hi: hi, Count: n})
}

// bucketRange is the range of a bucket of a map's histogram.
func bucketRange(m *ir.Map, i int) (lo, hi int64) {
	if m.Agg == ir.AggHist {
		return eval.HistRange(i, m.Bits)
	}
	switch i {
	case 0:
		return -1 << 63, m.Min - 1
	case eval.LinearBuckets(m.Min, m.Max, m.Step) - 1:
		return m.Max, 1<<63 - 1
	}
	lo = m.Min + int64(i-1)*m.Step
	return lo, lo + m.Step - 1
}

func (b *buckets[K]) entries() []mapx.Entry[K, []Bucket] {
	out := make([]mapx.Entry[K, []Bucket], 0, len(b.order))
	for _, k := range b.order {
		list := b.byKey[k]
		slices.SortFunc(list, func(x, y Bucket) int {
			if x.Lo < y.Lo {
				return -1
			}
			return 1
		})
		out = append(out, mapx.Entry[K, []Bucket]{Key: k, Value: list})
	}
	return out
}
