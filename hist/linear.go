package hist

import (
	"fmt"
	"math"
)

// maxLinear bounds the buckets of a Linear.
const maxLinear = 1 << 20

// Linear counts values in buckets of one width between a minimum and a maximum, as bpftrace's
// lhist(n, min, max, step) does, with one more bucket for values below and one for values
// above. A bucket includes its lower edge, and the last one the maximum: if the width doesn't
// divide the range, the rest of the range and all values above it share the last bucket.
//
// A Linear is used by one goroutine at a time. Copies share their counts: use Clone.
type Linear struct {
	counted
	min, max, step int64
}

// NewLinear returns an empty histogram of at most 1,048,576 buckets. max must be
// larger than min, and step positive.
func NewLinear(min, max, step int64) (*Linear, error) {
	if max <= min || step <= 0 {
		return nil, fmt.Errorf("linear histogram from %d to %d by %d: empty", min, max, step)
	}
	n := (uint64(max) - uint64(min)) / uint64(step) // the difference may exceed an int64
	if n > maxLinear-2 {
		return nil, fmt.Errorf("linear histogram from %d to %d by %d: more than %d buckets",
			min, max, step, maxLinear)
	}
	return &Linear{min: min, max: max, step: step, counted: counted{counts: make([]uint64, n+2)}}, nil
}

// Track makes an empty histogram keep the exact sum, smallest and largest value
// as well, which makes Add a little slower.
func (h *Linear) Track() *Linear {
	h.track = true
	return h
}

// LinearIndex returns the bucket of a value: 0 for those below min, the last for those from the
// last edge on. It is the rule of bpftrace (linear in src/ast/passes/codegen_llvm.cpp) and of
// the code that package probe/action generates.
func LinearIndex(v, min, max, step int64) int {
	switch {
	case v < min:
		return 0
	case v > max:
		v = max
	}
	return 1 + int((uint64(v)-uint64(min))/uint64(step))
}

// Params returns the parameters of NewLinear.
func (h *Linear) Params() (min, max, step int64) { return h.min, h.max, h.step }

// Add counts a value.
func (h *Linear) Add(v int64) { h.AddN(v, 1) }

// AddN counts a value n times.
func (h *Linear) AddN(v int64, n uint64) {
	if n == 0 {
		return
	}
	h.counts[LinearIndex(v, h.min, h.max, h.step)] += n
	if h.track {
		h.m.add(v, n)
	}
}

// AddBucket adds n to a bucket: for counts that come from a BPF map. Indexes
// that don't exist are ignored.
func (h *Linear) AddBucket(index int, n uint64) {
	if index >= 0 && index < len(h.counts) {
		h.counts[index] += n
	}
}

// Clone returns a deep copy.
func (h *Linear) Clone() *Linear {
	return &Linear{counted: h.clone(), min: h.min, max: h.max, step: h.step}
}

func (h *Linear) sameAs(op string, o *Linear) error {
	if h.min != o.min || h.max != o.max || h.step != o.step {
		return fmt.Errorf("%s linear histograms of %d to %d by %d and %d to %d by %d: %w", op,
			h.min, h.max, h.step, o.min, o.max, o.step, ErrMismatch)
	}
	return nil
}

// Merge adds the counts of other histograms. If they don't have the same buckets the error
// is ErrMismatch, and nothing is added.
func (h *Linear) Merge(others ...*Linear) error {
	for _, o := range others {
		if err := h.sameAs("merge", o); err != nil {
			return err
		}
	}
	for _, o := range others {
		addOne(h.counts, o.counts)
		h.m.merge(&o.m)
	}
	return nil
}

// Sub subtracts the counts of o, an earlier state of the same histogram. If a count of o is
// larger than h's, because h was reset in between, h's count stays.
func (h *Linear) Sub(o *Linear) error {
	if err := h.sameAs("subtract", o); err != nil {
		return err
	}
	h.sub(&o.counted)
	return nil
}

// bounds returns the bounds of one bucket.
func (h *Linear) bounds(index int) (lo, hi int64) {
	lo, hi = math.MinInt64, math.MaxInt64
	if index > 0 {
		lo = h.min + int64(index-1)*h.step
	}
	if index < len(h.counts)-1 {
		hi = h.min + int64(index)*h.step
	}
	return lo, hi
}

// Buckets returns the buckets from the first to the last that is not empty.
func (h *Linear) Buckets() []Bucket { return h.buckets(h.bounds) }

// Quantile returns the value at or below which the share q, 0 to 1, of all values is, with its
// bounds: the estimate is off by at most half a step, without bound below the minimum and above
// the last edge unless tracked.
func (h *Linear) Quantile(q float64) (Quantile, error) { return h.quantile(h.Buckets(), q) }

// Mean returns the mean: exact if tracked, else of the middles of the buckets.
// It is NaN for an empty histogram and for untracked values out of range.
func (h *Linear) Mean() float64 {
	if h.exact() {
		return h.m.mean()
	}
	if h.counts[len(h.counts)-1] > 0 {
		return math.NaN()
	}
	return middleMean(h.Buckets())
}
