package hist

import "math"

// counted is the common part of Log2 and Linear: the counts of the buckets, and the moments if
// they are tracked.
type counted struct {
	track  bool
	counts []uint64
	m      moments
}

// BucketCount returns the count of a bucket.
func (h *counted) BucketCount(index int) uint64 {
	if index < 0 || index >= len(h.counts) {
		return 0
	}
	return h.counts[index]
}

// Count returns the number of values.
func (h *counted) Count() uint64 {
	sum := uint64(0)
	for _, n := range h.counts {
		sum += n
	}
	return sum
}

// Reset removes all values and keeps the memory.
func (h *counted) Reset() {
	clear(h.counts)
	h.m = moments{}
}

// Range returns the smallest and largest value; ok is false if they were not
// tracked, or there are none.
func (h *counted) Range() (smallest, largest int64, ok bool) {
	return h.m.min, h.m.max, h.exact()
}

// exact reports whether the moments are those of all values: counts that came
// as buckets have none, and those that were subtracted can't be taken out.
func (h *counted) exact() bool { return h.m.n > 0 && h.m.n == h.Count() }

func (h *counted) clone() counted {
	out := *h
	out.counts = append([]uint64(nil), h.counts...)
	return out
}

// sub subtracts the counts of o from those that are not smaller.
func (h *counted) sub(o *counted) {
	for i := range min(len(h.counts), len(o.counts)) {
		if o.counts[i] <= h.counts[i] {
			h.counts[i] -= o.counts[i]
		}
	}
}

// buckets returns the buckets from the first to the last that is not empty.
func (h *counted) buckets(bounds func(index int) (lo, hi int64)) []Bucket {
	first, last := span(h.counts)
	if first < 0 {
		return nil
	}
	out := make([]Bucket, 0, last-first+1)
	for i := first; i <= last; i++ {
		lo, hi := bounds(i)
		out = append(out, Bucket{Lo: lo, Hi: hi, Count: h.counts[i]})
	}
	return out
}

// span returns the first and last bucket that is not empty, -1 if all are.
func span(counts []uint64) (first, last int) {
	first, last = -1, -1
	for i, n := range counts {
		if n > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}

func (h *counted) quantile(buckets []Bucket, q float64) (Quantile, error) {
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	if h.exact() {
		lo, hi = h.m.min, h.m.max
	}
	return quantile(buckets, h.Count(), q, lo, hi)
}
