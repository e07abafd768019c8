package otlp_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/borescope/borescope/examples/exporter/otlp"
	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// collector is a server that understands requests as OpenTelemetry's own types do.
func collector(t *testing.T, answer string, status int) (url string, got *v1.MetricsData) {
	got = &v1.MetricsData{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/metrics" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.URL, r.Header, err)
		}
		if err := protojson.Unmarshal(b, got); err != nil {
			t.Errorf("%v in\n%s", err, b)
		}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s.URL, got
}

// filled is a registry with metrics of every kind.
func filled(t *testing.T) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."}, []string{"comm"})
	calls.WithLabelValues(`s"h`).Add(4023)
	level := prometheus.NewGauge(prometheus.GaugeOpts{Name: "level"})
	level.Set(math.Inf(-1))
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "classic", Buckets: []float64{1, 2, 4}})
	native := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "native", NativeHistogramBucketFactor: 2})
	empty := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "none", NativeHistogramBucketFactor: 2})
	for _, v := range []float64{0, 1.5, 3, 3, 1000, 100_000} {
		classic.Observe(v)
		native.Observe(v)
	}
	native.Observe(-3)
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "summary"})
	summary.Observe(7)
	for _, c := range []prometheus.Collector{calls, level, classic, native, empty, summary} {
		if err := r.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestSend: what arrives is what the registry has.
func TestSend(t *testing.T) {
	url, got := collector(t, `{"partialSuccess":{}}`, http.StatusOK)
	c := otlp.New(url+"/", map[string]string{"service.name": "x"})
	if err := c.Send(t.Context(), filled(t)); err != nil {
		t.Fatal(err)
	}
	if a := got.ResourceMetrics[0].Resource.Attributes[0]; a.Key != "service.name" || a.Value.GetStringValue() != "x" {
		t.Errorf("the resource is %v", a)
	}
	by := map[string]*v1.Metric{}
	for _, m := range got.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		by[m.Name] = m
	}
	sum := by["calls_total"].GetSum()
	if p := sum.DataPoints[0]; p.GetAsDouble() != 4023 || !sum.IsMonotonic || sum.AggregationTemporality != 2 ||
		p.Attributes[0].Value.GetStringValue() != `s"h` || p.StartTimeUnixNano >= p.TimeUnixNano || by["calls_total"].Description != "Calls." {
		t.Errorf("the counter is %v", by["calls_total"])
	}
	if v := by["level"].GetGauge().DataPoints[0].GetAsDouble(); !math.IsInf(v, -1) {
		t.Errorf("the gauge is %v", v)
	}
	if p := by["classic"].GetHistogram().DataPoints[0]; fmt.Sprint(p.ExplicitBounds, p.BucketCounts) != "[1 2 4] [1 1 2 2]" || p.Count != 6 {
		t.Errorf("the classic histogram is %v", p)
	}
	p := by["native"].GetExponentialHistogram().DataPoints[0]
	counts := map[float64]uint64{} // by the bucket's upper edge
	for i, n := range p.Positive.BucketCounts {
		if n > 0 {
			counts[math.Exp2(float64(int(p.Positive.Offset)+i+1))] += n
		}
	}
	if want := map[float64]uint64{2: 1, 4: 2, 1024: 1, 131072: 1}; fmt.Sprint(counts) != fmt.Sprint(want) || p.Scale != 0 ||
		p.ZeroCount != 1 || p.Count != 7 || p.Negative.Offset != 1 || fmt.Sprint(p.Negative.BucketCounts) != "[1]" {
		t.Errorf("the native histogram is %v: %v, want %v", p, counts, want)
	}
	if p := by["none"].GetExponentialHistogram().DataPoints[0]; p.Count != 0 || p.Positive != nil {
		t.Errorf("the empty histogram is %v", p)
	}
	if p := by["summary"].GetSummary().DataPoints[0]; p.Count != 1 || p.Sum != 7 {
		t.Errorf("the summary is %v", p)
	}
}

// TestRefused: what a Collector refuses is an error.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		answer string
		status int
		want   string
	}{
		{"no\x1b", http.StatusBadRequest, "400 Bad Request: no?"},
		{`{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"old"}}`, http.StatusOK, "3 points are refused: old"},
		{"<html>", http.StatusOK, "answer: invalid"},
	} {
		url, _ := collector(t, c.answer, c.status)
		err := otlp.New(url, nil).Send(t.Context(), filled(t))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.answer, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := otlp.New("http://127.0.0.1:1", nil).Send(ctx, filled(t)); err == nil {
		t.Error("nobody refused")
	}
}

// A service sends its metrics once.
func ExampleClient_Send() {
	c := otlp.New("http://127.0.0.1:1", map[string]string{"service.name": "ledger"})
	err := c.Send(context.Background(), prometheus.NewRegistry())
	fmt.Println(err != nil)
	// Output: true
}
