package hist

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
)

// MaxK is the largest k of a Log2.
const MaxK = 5

// Log2 counts values in buckets that grow with the value: each power of two is
// divided into 2^k buckets of the same width, as bpftrace's hist(n, k) does. With
// k = 0 a bucket is a power of two; with k = 5 its width is at most 1/32 of its
// values, so that the middle of a bucket is off by at most 1.6 %. Negative
// values share one bucket. A bucket includes its lower edge.
//
// The zero value is an empty histogram with k = 0. A Log2 is used by one goroutine at a
// time; many goroutines can write an AtomicLog2. Copies of a Log2 share their counts: use
// Clone.
type Log2 struct {
	counted
	k uint8
}

// NewLog2 returns an empty histogram with 2^k buckets per power of two; k is 0
// to MaxK.
func NewLog2(k int) (*Log2, error) {
	if k < 0 || k > MaxK {
		return nil, fmt.Errorf("log2 histogram: k %d: not 0 to %d", k, MaxK)
	}
	return &Log2{k: uint8(k)}, nil
}

// Track makes an empty histogram keep the exact sum, smallest and largest value
// as well, which makes Add a little slower.
func (h *Log2) Track() *Log2 {
	h.track = true
	return h
}

// Log2Index returns the bucket of a value: 0 for negative ones, else 1 plus the bucket's number
// counted from zero upwards. It is the rule of bpftrace (log2 in
// src/ast/passes/codegen_llvm.cpp) and of the code that package probe/action generates.
func Log2Index(v int64, k int) int {
	if v < 0 {
		return 0
	}
	shift := max(bits.Len64(uint64(v))-1-k, 0)
	return 1 + shift<<k + int(uint64(v)>>shift)
}

// Log2Bounds returns the first value of a bucket and the first one after it;
// the ends are those of Bucket. It is the inverse of Log2Index. index is 0 to
// Log2Size(k)-1.
func Log2Bounds(index, k int) (lo, hi int64) {
	if index <= 0 {
		return math.MinInt64, 0
	}
	if index >= Log2Size(k)-1 {
		return log2Lower(index, k), math.MaxInt64
	}
	return log2Lower(index, k), log2Lower(index+1, k)
}

// log2Lower returns the first value of a bucket.
func log2Lower(index, k int) int64 {
	i := index - 1
	shift := max(i>>k-1, 0)
	return int64(uint64(i-shift<<k) << shift)
}

// Log2Size returns the number of buckets that all values need.
func Log2Size(k int) int { return Log2Index(math.MaxInt64, k) + 1 }

// K returns the k of the histogram.
func (h *Log2) K() int { return int(h.k) }

// Add counts a value.
func (h *Log2) Add(v int64) {
	i := Log2Index(v, int(h.k))
	if i >= len(h.counts) {
		h.grow(i)
	}
	h.counts[i]++
	if h.track {
		h.m.add(v, 1)
	}
}

// AddN counts a value n times.
func (h *Log2) AddN(v int64, n uint64) {
	if n == 0 {
		return
	}
	h.AddBucket(Log2Index(v, int(h.k)), n)
	if h.track {
		h.m.add(v, n)
	}
}

// AddBucket adds n to a bucket: for counts that come from a BPF map. Indexes
// outside of 0 to Log2Size(k)-1 are ignored.
func (h *Log2) AddBucket(index int, n uint64) {
	if index < 0 || index >= Log2Size(int(h.k)) {
		return
	}
	if index >= len(h.counts) {
		h.grow(index)
	}
	h.counts[index] += n
}

// grow makes room for a bucket, and the rest of its power of two.
func (h *Log2) grow(index int) {
	n := min((index>>h.k+2)<<h.k, Log2Size(int(h.k)))
	h.counts = append(h.counts, make([]uint64, n-len(h.counts))...)
}

// Clone returns a deep copy.
func (h *Log2) Clone() *Log2 {
	return &Log2{counted: h.clone(), k: h.k}
}

// Merge adds the counts of other histograms; many in one call take less time than one after
// the other. A larger k is folded down to h's. For a smaller one the error is ErrMismatch,
// and nothing is added.
func (h *Log2) Merge(others ...*Log2) error {
	for _, o := range others {
		if o.k < h.k {
			return fmt.Errorf("merge log2 histograms with k %d and %d: %w", h.k, o.k, ErrMismatch)
		}
	}
	for len(others) > 0 {
		var group [together][]uint64
		n := min(len(others), together)
		for i, o := range others[:n] {
			if o.k > h.k {
				o = o.Fold(int(h.k))
			}
			if len(o.counts) > len(h.counts) {
				h.grow(len(o.counts) - 1)
			}
			group[i] = o.counts
			h.m.merge(&o.m)
		}
		addCounts(h.counts, &group, n)
		others = others[n:]
	}
	return nil
}

// Sub subtracts the counts of o, an earlier state of the same histogram. If a count of o is
// larger than h's, because h was reset in between, h's count stays.
func (h *Log2) Sub(o *Log2) error {
	if o.k != h.k {
		return fmt.Errorf("subtract log2 histograms with k %d and %d: %w", h.k, o.k, ErrMismatch)
	}
	h.sub(&o.counted)
	return nil
}

// Fold returns the histogram with a smaller k, exactly as if the values had been
// counted with it.
func (h *Log2) Fold(k int) *Log2 {
	if k >= int(h.k) || k < 0 {
		return h.Clone()
	}
	f := &Log2{k: uint8(k), counted: counted{track: h.track, m: h.m}}
	for i, n := range h.counts {
		if n > 0 {
			lo, _ := Log2Bounds(i, int(h.k))
			f.AddBucket(Log2Index(lo, k), n)
		}
	}
	return f
}

// Buckets returns the buckets from the first to the last that is not empty.
func (h *Log2) Buckets() []Bucket {
	return h.buckets(func(i int) (int64, int64) { return Log2Bounds(i, int(h.k)) })
}

// Quantile returns the value at or below which the share q, 0 to 1, of all values is, with its
// bounds. The estimate is off by at most half a bucket: 1/2^(k+1) of the value. Negative values
// have no lower bound unless tracked.
func (h *Log2) Quantile(q float64) (Quantile, error) { return h.quantile(h.Buckets(), q) }

// Mean returns the mean: exact if tracked, else of the middles of the buckets.
// It is NaN for an empty histogram and for untracked negative values.
func (h *Log2) Mean() float64 {
	if h.exact() {
		return h.m.mean()
	}
	return middleMean(h.Buckets())
}

func middleMean(buckets []Bucket) float64 {
	sum, n := 0.0, 0.0
	for _, b := range buckets {
		if b.Count > 0 && b.Lo == math.MinInt64 {
			return math.NaN()
		}
		sum += float64(b.Count) * (float64(b.Lo) + (float64(b.Hi)-1-float64(b.Lo))/2)
		n += float64(b.Count)
	}
	return sum / n
}

// AtomicLog2 is a Log2 that any number of goroutines add to at once. It allocates all its
// memory at the start: 520 bytes with k = 0, 15 KiB with k = 5.
type AtomicLog2 struct {
	k      int
	counts []atomic.Uint64
}

// NewAtomicLog2 returns an empty histogram; k is 0 to MaxK.
func NewAtomicLog2(k int) (*AtomicLog2, error) {
	if k < 0 || k > MaxK {
		return nil, fmt.Errorf("log2 histogram: k %d: not 0 to %d", k, MaxK)
	}
	return &AtomicLog2{k: k, counts: make([]atomic.Uint64, Log2Size(k))}, nil
}

// Add counts a value. It is safe for concurrent use.
func (h *AtomicLog2) Add(v int64) { h.counts[Log2Index(v, h.k)].Add(1) }

// Snapshot returns the counts as they are now; those added meanwhile may be in
// it or not.
func (h *AtomicLog2) Snapshot() *Log2 {
	out := &Log2{k: uint8(h.k)}
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			out.AddBucket(i, n)
		}
	}
	return out
}
