package main

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/borescope/borescope/hist"
)

// values returns n positive integers. Powers of two are among them only if powers is true:
// they are one bucket off in the exponential forms, as documented.
func values(n int, powers bool) []int64 {
	r := rand.New(rand.NewPCG(1, 2))
	var out []int64
	for len(out) < n {
		v := int64(math.Exp(r.NormFloat64()*4 + 8))
		if v > 0 && (powers || v&(v-1) != 0) {
			out = append(out, v)
		}
	}
	return out
}

func ours(t testing.TB, k int, values []int64) *hist.Log2 {
	h, err := hist.NewLog2(k)
	if err != nil {
		t.Fatal(err)
	}
	h.Track()
	for _, v := range values {
		h.Add(v)
	}
	return h
}

func written(t *testing.T, h prometheus.Histogram) *dto.Histogram {
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Histogram
}

// TestPrometheusClassic checks that the client library, given our edges, counts the same.
func TestPrometheusClassic(t *testing.T) {
	vs := values(20000, true)
	p := hist.ToPrometheus(ours(t, 2, vs), 1)
	var edges []float64
	for _, b := range p.Buckets {
		if !math.IsInf(b.LE, 1) {
			edges = append(edges, b.LE)
		}
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Buckets: edges})
	for _, v := range vs {
		h.Observe(float64(v))
	}
	want := written(t, h)
	for i, b := range want.Bucket {
		if b.GetCumulativeCount() != p.Buckets[i].Count || b.GetUpperBound() != p.Buckets[i].LE {
			t.Errorf("bucket %d: %v, client has %v", i, p.Buckets[i], b)
		}
	}
	if want.GetSampleCount() != p.Count || math.Abs(want.GetSampleSum()-p.Sum) > 1e-9*p.Sum {
		t.Errorf("count %d sum %v, client has %d %v", p.Count, p.Sum, want.GetSampleCount(), want.GetSampleSum())
	}
}

// TestPrometheusNative checks that the client library's schema 0 has the same spans and
// deltas.
func TestPrometheusNative(t *testing.T) {
	vs := values(20000, false)
	vs = append(vs, 0, 0, 0)
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", NativeHistogramBucketFactor: 2})
	for _, v := range vs {
		h.Observe(float64(v))
	}
	want := written(t, h)
	got, err := ours(t, 3, vs).ToPrometheusNative(1)
	if err != nil {
		t.Fatal(err)
	}
	var buckets, clients []int64
	index, count := int32(0), int64(0)
	at := map[int32]int64{}
	d := 0
	for _, s := range got.PositiveSpans {
		index += s.Offset
		for range s.Length {
			count += got.PositiveDeltas[d]
			at[index] = count
			d++
			index++
		}
	}
	index, count, d = 0, 0, 0
	for _, s := range want.PositiveSpan { // its spans may bridge short gaps
		index += s.GetOffset()
		for range s.GetLength() {
			count += want.PositiveDelta[d]
			clients, buckets = append(clients, count), append(buckets, at[index])
			delete(at, index)
			d++
			index++
		}
	}
	if want.GetSchema() != 0 || !reflect.DeepEqual(buckets, clients) || len(at) != 0 || got.ZeroCount != want.GetZeroCount() {
		t.Errorf("%+v\nclient %+v", got, want)
	}
}

// TestOpenTelemetry checks that the SDK's exponential histogram at scale 0 has the same
// buckets.
func TestOpenTelemetry(t *testing.T) {
	vs := append(values(20000, false), 0, 0)
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithView(metric.NewView(
		metric.Instrument{Name: "x"},
		metric.Stream{Aggregation: metric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 0}},
	)))
	h, err := provider.Meter("m").Int64Histogram("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vs {
		h.Record(context.Background(), v)
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	want := rm.ScopeMetrics[0].Metrics[0].Data.(metricdata.ExponentialHistogram[int64]).DataPoints[0]
	got, err := ours(t, 1, vs).ToExponential(1)
	if err != nil {
		t.Fatal(err)
	}
	if want.Scale != 0 || want.PositiveBucket.Offset != got.Positive.Offset ||
		!reflect.DeepEqual(want.PositiveBucket.Counts, got.Positive.BucketCounts) ||
		want.ZeroCount != got.ZeroCount || want.Count != got.Count || float64(want.Sum) != got.Sum {
		t.Errorf("%+v\nSDK %+v", got, want)
	}
}
