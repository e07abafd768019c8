package hist

import (
	"errors"
	"fmt"
	"math"
)

// ErrNegative is the error when a form can't represent negative values of unknown size.
var ErrNegative = errors.New("negative values")

// summary returns the sum for exports, and reports whether it is exact.
func summary(d Distribution) (sum float64, exact bool) {
	if d.Count() == 0 {
		return 0, true
	}
	switch h := d.(type) {
	case *Log2:
		if h.exact() {
			return h.m.sum(), true
		}
		return h.Mean() * float64(h.Count()), false
	case *Linear:
		if h.exact() {
			return h.m.sum(), true
		}
		return h.Mean() * float64(h.Count()), false
	}
	return math.NaN(), false
}

// PrometheusBucket is a bucket of a classic histogram: the number of values of at most LE.
type PrometheusBucket struct {
	LE    float64 // in the metric's unit
	Count uint64
}

// Prometheus is a classic histogram, or one with custom buckets (schema -53,
// "NHCB"), in the fields of its data model. PrometheusPage writes it as text.
type Prometheus struct {
	// Buckets are cumulative and ascending; the last has +Inf as LE.
	Buckets []PrometheusBucket
	// Sum is exact for tracked histograms (SumExact), else the sum of the middles of the
	// buckets, which for powers of two is up to half too high or a quarter too low; NaN if it is not known,
	// because there are values in a bucket without an end. Histograms of BPF programs count
	// buckets only. Where averages matter, let the program add up the values, too (NewSum of
	// probe/action, with the same key), and set Sum and SumExact.
	Sum      float64
	SumExact bool
	Count    uint64
}

// ToPrometheus converts a distribution exactly. Prometheus buckets include their upper
// edge, those of this package their lower one, but values are integers, so that le is the
// last value of a bucket. scale is the size of a value in the unit of the metric: 1e-6 for
// microseconds in seconds. Empty buckets at both ends are left out.
func ToPrometheus(d Distribution, scale float64) Prometheus {
	sum, exact := summary(d)
	p := Prometheus{Sum: scaleBy(sum, scale), SumExact: exact, Count: d.Count()}
	total := uint64(0)
	for i, b := range d.Buckets() {
		if i == 0 && b.Lo != math.MinInt64 {
			p.Buckets = append(p.Buckets, PrometheusBucket{LE: scaleBy(float64(b.Lo-1), scale)})
		}
		total += b.Count
		if b.Hi != math.MaxInt64 {
			p.Buckets = append(p.Buckets,
				PrometheusBucket{LE: scaleBy(float64(b.Hi-1), scale), Count: total})
		}
	}
	p.Buckets = append(p.Buckets, PrometheusBucket{LE: math.Inf(1), Count: total})
	return p
}

// scaleBy returns v*scale. It divides if scale is one over an integer: 2047·1e-6 is not the
// number nearest to 0.002047, but 2047/1e6 is.
func scaleBy(v, scale float64) float64 {
	if inverse := math.Round(1 / scale); inverse > 1 && 1/inverse == scale {
		return v / inverse
	}
	return v * scale
}

// CustomValues returns the upper edges in the form of a native histogram with custom
// buckets (schema -53), without +Inf, and the count of each bucket and of the one above
// them. Unlike in the classic form the counts aren't cumulative.
func (p Prometheus) CustomValues() (edges []float64, counts []uint64) {
	before := uint64(0)
	for _, b := range p.Buckets {
		if !math.IsInf(b.LE, 1) {
			edges = append(edges, b.LE)
		}
		counts = append(counts, b.Count-before)
		before = b.Count
	}
	return edges, counts
}

// NativeSpan is a run of buckets that are not empty.
type NativeSpan struct {
	// Offset is the index of the first, for all but the first span counted from
	// the end of the one before.
	Offset int32
	Length uint32
}

// PrometheusNative is a native histogram in the fields of its data model
// (io.prometheus.client.Histogram, integer counts).
type PrometheusNative struct {
	Schema         int32
	ZeroThreshold  float64
	ZeroCount      uint64
	PositiveSpans  []NativeSpan
	PositiveDeltas []int64
	Sum            float64
	Count          uint64
}

// ToPrometheusNative converts to a native histogram of schema 0, whose bucket i is
// (2^(i-1), 2^i]. In this package a value that is exactly a power of two belongs to the
// bucket above: these values, and no others, are one bucket too high; ToPrometheus is
// exact. k > 0 is folded to powers of two. For negative values the error is ErrNegative.
// scale must be 1 or another power of two.
func (h *Log2) ToPrometheusNative(scale float64) (PrometheusNative, error) {
	exp, err := h.ToExponential(scale)
	if err != nil {
		return PrometheusNative{}, err
	}
	p := PrometheusNative{
		ZeroCount: exp.ZeroCount, ZeroThreshold: exp.ZeroThreshold, Sum: exp.Sum, Count: exp.Count,
	}
	last, open := int64(0), false
	end := int32(0) // index after the last span
	for i, n := range exp.Positive.BucketCounts {
		if n == 0 {
			open = false
			continue
		}
		index := exp.Positive.Offset + int32(i) + 1
		if !open {
			p.PositiveSpans = append(p.PositiveSpans, NativeSpan{Offset: index - end})
			open = true
		}
		p.PositiveSpans[len(p.PositiveSpans)-1].Length++
		p.PositiveDeltas = append(p.PositiveDeltas, int64(n)-last)
		last, end = int64(n), index+1
	}
	return p, nil
}

// ExponentialBuckets are the buckets of an Exponential on one side of
// zero.
type ExponentialBuckets struct {
	// Offset is the index of the first bucket.
	Offset       int32
	BucketCounts []uint64
}

// Exponential is OpenTelemetry's exponential histogram in the fields of its data
// model.
type Exponential struct {
	Scale         int32
	Count         uint64
	Sum           float64
	ZeroCount     uint64
	ZeroThreshold float64
	Positive      ExponentialBuckets
	Negative      ExponentialBuckets
	// Min and Max are known for tracked histograms.
	HasMinMax bool
	Min, Max  float64
}

// ToExponential converts to an exponential histogram of scale 0, whose bucket i is (2^i,
// 2^(i+1)]. As with ToPrometheusNative, values that are exactly powers of two are one
// bucket too high. k > 0 is folded to powers of two. For negative values the error is
// ErrNegative. scale is the size of a value in the unit of the metric, 1 or another power
// of two.
func (h *Log2) ToExponential(scale float64) (Exponential, error) {
	mantissa, exponent := math.Frexp(scale)
	if mantissa != 0.5 {
		return Exponential{}, fmt.Errorf("exponential histogram: scale %v is not a power of two", scale)
	}
	shift := int32(exponent - 1)
	f := h.Fold(0)
	if n := f.BucketCount(0); n > 0 {
		return Exponential{}, fmt.Errorf("exponential histogram: %d %w of unknown size", n, ErrNegative)
	}
	sum, _ := summary(h)
	e := Exponential{Count: h.Count(), Sum: sum * scale, ZeroCount: f.BucketCount(1)}
	if lo, hi, ok := h.Range(); ok {
		e.HasMinMax, e.Min, e.Max = true, float64(lo)*scale, float64(hi)*scale
	}
	counts := f.counts[min(2, len(f.counts)):] // [1], [2, 4), [4, 8) …
	first, last := span(counts)
	if first >= 0 {
		e.Positive = ExponentialBuckets{
			Offset: int32(first) + shift, BucketCounts: append([]uint64(nil), counts[first:last+1]...),
		}
	}
	return e, nil
}
