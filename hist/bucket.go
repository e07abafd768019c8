package hist

import (
	"errors"
	"fmt"
	"math"
)

// Bucket is a range of values with the number of values in it.
type Bucket struct {
	// Lo is the smallest value of the bucket, and Hi the first one above it. math.MinInt64
	// as Lo and math.MaxInt64 as Hi mean no bound; math.MaxInt64 itself is then in the
	// bucket too.
	Lo, Hi int64
	Count  uint64
}

// Last returns the largest value of the bucket.
func (b Bucket) Last() int64 {
	if b.Hi == math.MaxInt64 {
		return b.Hi
	}
	return b.Hi - 1
}

// Distribution is the common part of Log2 and Linear: enough to draw, to export and to
// compute quantiles.
type Distribution interface {
	// Buckets returns the buckets from the first to the last that is not empty,
	// the empty ones between included, in ascending order.
	Buckets() []Bucket
	// Count returns the number of values.
	Count() uint64
}

var (
	_ Distribution = (*Log2)(nil)
	_ Distribution = (*Linear)(nil)
)

// ErrMismatch is the error when two distributions don't have the same buckets.
var ErrMismatch = errors.New("different buckets")

// Quantile is a value such that a given share of all values is at or below it.
type Quantile struct {
	// Value is the estimate: the middle of the bucket that contains the quantile.
	Value float64
	// Min and Max bound the true quantile, both included. The true quantile is the smallest
	// value v for which at least the given share is ≤ v. They are math.MinInt64 and
	// math.MaxInt64 if the bucket has no such end.
	Min, Max int64
}

// quantile returns the value of rank ⌈q·n⌉, from its bucket. lo and hi, if known, are the
// smallest and largest values.
func quantile(buckets []Bucket, count uint64, q float64, lo, hi int64) (Quantile, error) {
	if math.IsNaN(q) || q < 0 || q > 1 {
		return Quantile{}, fmt.Errorf("quantile %v: not between 0 and 1", q)
	}
	if count == 0 {
		return Quantile{}, fmt.Errorf("quantile %v: no values", q)
	}
	rank := min(max(uint64(math.Ceil(q*float64(count))), 1), count)
	for _, b := range buckets {
		if b.Count < rank {
			rank -= b.Count
			continue
		}
		r := Quantile{Min: max(b.Lo, lo), Max: min(b.Last(), hi)}
		r.Value = float64(r.Min) + (float64(r.Max)-float64(r.Min))/2
		return r, nil
	}
	return Quantile{}, fmt.Errorf("quantile %v: %d values but fewer in the buckets", q, count)
}
