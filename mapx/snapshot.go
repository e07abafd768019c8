package mapx

import (
	"cmp"
	"slices"

	"github.com/borescope/borescope/hist"
)

// Values returns the entries as a Go map, a new one at each call.
func Values[K comparable, V any](s Snapshot[K, V]) map[K]V {
	m := make(map[K]V, len(s.Entries))
	for _, e := range s.Entries {
		m[e.Key] = e.Value
	}
	return m
}

// Top returns the n entries with the largest values, largest first, equal ones in the
// snapshot's order.
func Top[K any, V cmp.Ordered](s Snapshot[K, V], n int) Snapshot[K, V] {
	n = min(n, len(s.Entries))
	if n <= 0 {
		return Snapshot[K, V]{}
	}
	sorted := slices.Clone(s.Entries)
	slices.SortStableFunc(sorted, func(a, b Entry[K, V]) int { return cmp.Compare(b.Value, a.Value) })
	return Snapshot[K, V]{Entries: slices.Clone(sorted[:n])}
}

// Delta returns the growth of the counters from before to now. A counter that is smaller
// than before was reset, or deleted and created again: its whole value counts. Entries that
// are only in before, or that did not change, are left out.
func Delta[K comparable, V Number](before, now Snapshot[K, V]) Snapshot[K, V] {
	old := Values(before)
	var grown []Entry[K, V]
	for _, e := range now.Entries {
		if v := old[e.Key]; e.Value >= v {
			e.Value -= v
		}
		if e.Value != 0 {
			grown = append(grown, e)
		}
	}
	return Snapshot[K, V]{Entries: grown}
}

// Average is a sum and its number of values, as bpftrace's avg() keeps them on each CPU.
// Its text is the mean.
//
//	avg := mapx.SumOf(perCPU, (*mapx.Average).Add)
type Average struct {
	Total int64  // the sum of the values, which wraps
	Count uint64 // how many they are
}

// Add adds the sum and number of another CPU.
func (a *Average) Add(b *Average) {
	a.Total += b.Total
	a.Count += b.Count
}

// Mean returns the mean, cut off to an integer as bpftrace does; 0 without values.
func (a Average) Mean() int64 {
	if a.Count == 0 {
		return 0
	}
	return a.Total / int64(a.Count)
}

// Totals is an Average whose text has count, average and total, as bpftrace's stats() prints
// them.
type Totals struct {
	Total int64  // the sum of the values, which wraps
	Count uint64 // how many they are
}

// Add adds the sum and number of another CPU.
func (a *Totals) Add(b *Totals) {
	a.Total += b.Total
	a.Count += b.Count
}

// Mean returns the mean, cut off to an integer as bpftrace does; 0 without values.
func (a Totals) Mean() int64 { return Average(a).Mean() }

// Extreme is the smallest or largest value of a CPU, and whether there was one,
// as bpftrace's min() and max() keep it.
//
//	largest := mapx.SumOf(perCPU, (*mapx.Extreme).KeepMax)
type Extreme struct {
	Value int64
	Set   uint64 // 0 if there was no value
}

// KeepMin takes b's value if b has one and it is smaller than e's, or e has none.
func (e *Extreme) KeepMin(b *Extreme) {
	if b.Set != 0 && (e.Set == 0 || b.Value < e.Value) {
		*e = *b
	}
}

// KeepMax takes b's value if b has one and it is larger than e's, or e has none.
func (e *Extreme) KeepMax(b *Extreme) {
	if b.Set != 0 && (e.Set == 0 || b.Value > e.Value) {
		*e = *b
	}
}

// Histograms collects a map that counts by key and bucket into a histogram for each key. split
// returns the key and the bucket of a map's key, and k is that of hist.Log2Index, which
// numbered the buckets. Keys are in the order in which they first occur.
func Histograms[B any, K comparable](s Snapshot[B, uint64], k int,
	split func(B) (K, int),
) (Snapshot[K, *hist.Log2], error) {
	return gather(s, split, func() (*hist.Log2, error) { return hist.NewLog2(k) })
}

// LinearHistograms is Histograms for the buckets of hist.LinearIndex.
func LinearHistograms[B any, K comparable](s Snapshot[B, uint64], lo, hi, step int64,
	split func(B) (K, int),
) (Snapshot[K, *hist.Linear], error) {
	return gather(s, split, func() (*hist.Linear, error) { return hist.NewLinear(lo, hi, step) })
}

type bucketAdder interface{ AddBucket(index int, n uint64) }

func gather[B any, K comparable, H bucketAdder](s Snapshot[B, uint64], split func(B) (K, int),
	make func() (H, error),
) (Snapshot[K, H], error) {
	var out Snapshot[K, H]
	at := map[K]int{}
	for _, e := range s.Entries {
		key, index := split(e.Key)
		i, ok := at[key]
		if !ok {
			h, err := make()
			if err != nil {
				return Snapshot[K, H]{}, err
			}
			i = len(out.Entries)
			at[key] = i
			out.Entries = append(out.Entries, Entry[K, H]{Key: key, Value: h})
		}
		out.Entries[i].Value.AddBucket(index, e.Value)
	}
	return out, nil
}
