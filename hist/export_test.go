package hist

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestPrometheusIsExact: for every edge, the cumulative count is the number of
// values that are at most it.
func TestPrometheusIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var values []int64
	for range 3000 {
		v := int64(math.Exp(r.NormFloat64() * 4))
		if r.IntN(3) == 0 {
			v = 1 << r.IntN(40) // powers of two: the edges
		}
		values = append(values, v-2)
	}
	for _, d := range []Distribution{log2(t, 0, values...), log2(t, 4, values...), linear(t, 0, 1000, 7, values...)} {
		p := ToPrometheus(d, 1)
		for _, b := range p.Buckets {
			n := uint64(0)
			for _, v := range values {
				if float64(v) <= b.LE {
					n++
				}
			}
			if n != b.Count {
				t.Fatalf("%T le %v: %d, true %d", d, b.LE, b.Count, n)
			}
		}
		edges, counts := p.CustomValues()
		sum := uint64(0)
		for _, n := range counts {
			sum += n
		}
		if sum != 3000 || len(counts) != len(edges)+1 || p.Count != 3000 {
			t.Errorf("%T: %d values in %d buckets with %d edges", d, sum, len(counts), len(edges))
		}
	}
	h := log2(t, 0).Track()
	h.Add(1000)
	h.Add(3000)
	var b bytes.Buffer
	if err := ToPrometheus(h, 1e-6).WriteText(&b, "x_seconds", `disk="sda"`); err != nil {
		t.Fatal(err)
	}
	want := `# TYPE x_seconds histogram
x_seconds_bucket{disk="sda",le="0.000511"} 0
x_seconds_bucket{disk="sda",le="0.001023"} 1
x_seconds_bucket{disk="sda",le="0.002047"} 1
x_seconds_bucket{disk="sda",le="0.004095"} 2
x_seconds_bucket{disk="sda",le="+Inf"} 2
x_seconds_sum{disk="sda"} 0.004
x_seconds_count{disk="sda"} 2
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestExponential(t *testing.T) {
	h := log2(t, 3, 0, 0, 1, 3, 3, 5, 100).Track()
	e, err := h.ToExponential(1)
	if err != nil {
		t.Fatal(err)
	}
	// 3 is in (2, 4], 5 in (4, 8], 100 in (64, 128]; 1, a power of two, is one
	// bucket higher than (0.5, 1].
	want := ExponentialBuckets{Offset: 0, BucketCounts: []uint64{1, 2, 1, 0, 0, 0, 1}}
	if !reflect.DeepEqual(e.Positive, want) || e.ZeroCount != 2 || e.Count != 7 || e.Scale != 0 {
		t.Errorf("%+v", e)
	}
	if e, err := h.ToExponential(1.0 / 1024); err != nil || e.Positive.Offset != -10 {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := h.ToExponential(1e-6); err == nil {
		t.Error("a scale that is no power of two moves every edge")
	}
	if _, err := log2(t, 0, -1).ToExponential(1); !errors.Is(err, ErrNegative) {
		t.Error(err)
	}
	n, err := h.ToPrometheusNative(1)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(n.PositiveSpans, []NativeSpan{{1, 3}, {3, 1}}) ||
		!reflect.DeepEqual(n.PositiveDeltas, []int64{1, 1, -1, 0}) || n.ZeroCount != 2 {
		t.Errorf("%+v", n)
	}
	if e, err := log2(t, 0).ToExponential(1); err != nil || e.Count != 0 || e.Positive.BucketCounts != nil {
		t.Errorf("%+v %v", e, err)
	}
}
