package tool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
)

// Counts opens a counter. The function that it returns gives the counts since its previous
// call, largest first; no update is lost between two calls. Keys stay in the map until the
// run ends. If there are many, open the counter's Table and use ReadAndClear.
func Counts[K comparable](r *Run,
	c *action.Counter[K],
) (func() ([]mapx.Entry[K, uint64], error), error) {
	tab, err := c.Table(r)
	if err != nil {
		return nil, err
	}
	var before mapx.Snapshot[K, uint64]
	return func() ([]mapx.Entry[K, uint64], error) {
		now, err := tab.Snapshot()
		if err != nil {
			return nil, err
		}
		d := mapx.Delta(before, now)
		before = now
		slices.SortStableFunc(d.Entries, func(a, b mapx.Entry[K, uint64]) int {
			return cmp.Compare(b.Value, a.Value)
		})
		return d.Entries, nil
	}, nil
}

// Sums is Counts for numbers that only grow, such as sums of times or bytes. If n has Flip,
// for keys that come and go, such as connections, each call removes the entries that it
// reads, which makes room for others; no update is lost.
func Sums[K comparable](r *Run, n *action.Aggregate[K]) (func() (map[K]int64, error), error) {
	tab, err := n.Table(r)
	if err != nil {
		return nil, err
	}
	if n.Map().Flip {
		return func() (map[K]int64, error) {
			now, err := tab.ReadAndClear()
			return mapx.Values(now), err
		}, nil
	}
	var before mapx.Snapshot[K, int64]
	return func() (map[K]int64, error) {
		now, err := tab.Snapshot()
		if err != nil {
			return nil, err
		}
		d := mapx.Delta(before, now)
		before = now
		return mapx.Values(d), nil
	}, nil
}

// Rows gathers the n sums of each object into one row. column returns a pointer to the key's
// field that holds the column number; in the result's keys that field is 0.
func Rows[K comparable](sums map[K]int64, n int, column func(*K) *uint32) map[K][]int64 {
	rows := map[K][]int64{}
	for k, v := range sums {
		i := *column(&k)
		*column(&k) = 0
		if rows[k] == nil {
			rows[k] = make([]int64, n)
		}
		rows[k][i] += v
	}
	return rows
}

// Largest returns the keys of a map, sorted by the result of by, largest first. Equal keys
// are sorted by their text.
func Largest[K comparable, V any](m map[K]V, by func(V) int64) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int {
		if c := cmp.Compare(by(m[b]), by(m[a])); c != 0 {
			return c
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// Hists opens histograms with powers of two as buckets. The function that it returns gives
// the counts since its previous call by key, sorted by their totals, smallest first, as
// bpftrace prints them.
func Hists[K comparable](r *Run,
	h *action.Hist[K],
) (func() ([]mapx.Entry[K, *hist.Log2], error), error) {
	tab, err := h.Table(r)
	if err != nil {
		return nil, err
	}
	before := map[K]*hist.Log2{}
	return func() ([]mapx.Entry[K, *hist.Log2], error) {
		now, err := tab.Snapshot()
		if err != nil {
			return nil, err
		}
		var out []mapx.Entry[K, *hist.Log2]
		for _, e := range now.Entries {
			d, err := log2(e.Value, h.Map().Bits)
			if err != nil {
				return nil, err
			}
			total := d.Clone()
			if old := before[e.Key]; old != nil {
				if err := d.Sub(old); err != nil {
					return nil, err
				}
			}
			before[e.Key] = total
			if d.Count() > 0 {
				out = append(out, mapx.Entry[K, *hist.Log2]{Key: e.Key, Value: d})
			}
		}
		slices.SortStableFunc(out, func(a, b mapx.Entry[K, *hist.Log2]) int {
			return cmp.Compare(a.Value.Count(), b.Value.Count())
		})
		return out, nil
	}, nil
}

// EachHist prints the histograms of every interval: a blank line, the time of day if clock is
// set, and the output of show for each histogram, in the order of Hists.
func EachHist[K comparable](r *Run, h *action.Hist[K], clock bool,
	show func(key K, d *hist.Log2),
) error {
	read, err := Hists(r, h)
	return every(r, read, err, func(hists []mapx.Entry[K, *hist.Log2]) error {
		r.Printf("\n")
		if clock {
			r.Clock()
		}
		for _, e := range hists {
			show(e.Key, e.Value)
		}
		return nil
	})
}

// log2 returns the histogram of a table's buckets.
func log2(buckets []hist.Bucket, k int) (*hist.Log2, error) {
	h, err := hist.NewLog2(k)
	if err == nil {
		err = h.AddBuckets(buckets)
	}
	return h, err
}
