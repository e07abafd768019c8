package hist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
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

func TestAddCorrected(t *testing.T) {
	h := log2(t, 5)
	if n, err := h.AddCorrected(1000, 100); n != 10 || err != nil || h.Count() != 10 {
		t.Error(n, err, h)
	}
	if n, err := h.AddCorrected(50, 100); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := h.AddCorrected(1e12, 1); n != 0 || err == nil {
		t.Error(n, err)
	}
}

func TestHDRRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for k := range MaxK + 1 {
		h := log2(t, k, 0, 1, math.MaxInt64)
		for range 3000 {
			h.AddN(int64(math.Exp(r.NormFloat64()*4+5)), r.Uint64N(1<<40))
		}
		b, err := h.EncodeHDR()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeHDR(b, k)
		if err != nil || got.String() != h.String() {
			t.Errorf("k %d: %v\n%s\nwant\n%s", k, err, got, h)
		}
	}
	if _, err := log2(t, 0, -1).EncodeHDR(); !errors.Is(err, ErrNegative) {
		t.Error(err)
	}
}

func TestHDRLog(t *testing.T) {
	var b bytes.Buffer
	in := []HDRInterval{
		{epoch, time.Second, log2(t, 5, 100, 200, 300)},
		{epoch.Add(time.Second), 1500 * time.Millisecond, log2(t, 5, 100000)},
	}
	if err := WriteHDRLog(&b, 1e6, in); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(b.String(), "1700000001.000", "Tag=x,1700000001.000", 1)
	out, err := ReadHDRLog(strings.NewReader(text), 5)
	if err != nil || len(out) != 2 {
		t.Fatal(err, len(out), text)
	}
	for i := range out {
		if !out[i].Start.Equal(in[i].Start) || out[i].Length != in[i].Length || out[i].Hist.String() != in[i].Hist.String() {
			t.Errorf("%+v, want %+v", out[i], in[i])
		}
	}
	if err := WriteHDRLog(io.Discard, 1, nil); err == nil {
		t.Error("a log of nothing")
	}
	for _, bad := range []string{"1,2,3", "x,1,1,AAAA", "1,1,1,!!", "1,1,1,AAAA", "NaN,1,1,AAAA"} {
		if _, err := ReadHDRLog(strings.NewReader(bad), 0); err == nil || !strings.HasPrefix(err.Error(), "HDR log:1: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHDRIndex(t *testing.T) {
	for i := range 8000 {
		lo := hdrLower(i, 8)
		if lo < 0 {
			break
		}
		if hdrIndex(lo) != i {
			t.Fatal(i, lo, hdrIndex(lo))
		}
	}
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, math.MaxInt64, math.MinInt64, 1 << 55} {
		got, n := zigZag(appendZigZag(nil, v))
		if got != v || n == 0 {
			t.Error(v, got, n)
		}
	}
}

// FuzzHDR: a histogram that decodes from any bytes, encoded again, decodes the
// same.
func FuzzHDR(f *testing.F) {
	for k := range MaxK + 1 {
		b, err := log2(f, k, 0, 1, 5, 5, 70, 1000, 1<<40).EncodeHDR()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHDR(b, 3)
		if err != nil {
			return
		}
		again, err := h.EncodeHDR()
		if err != nil {
			return // counts that add up to more than an int64
		}
		got, err := DecodeHDR(again, 3)
		if err != nil || fmt.Sprint(got.Buckets()) != fmt.Sprint(h.Buckets()) {
			t.Fatalf("%v\n%v\n%v", err, got, h)
		}
	})
}

// FuzzHDRPayload feeds the counts behind the compression.
func FuzzHDRPayload(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, uint8(8), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, subBits, unit uint8) {
		h := log2(t, 3)
		if h.addHDR(b, 2+int(subBits%16), int(unit%63)) == nil && h.BucketCount(0) != 0 {
			t.Fatal("a negative value")
		}
	})
}
