// Package collector has a real OpenTelemetry Collector take what package otlp sends. It is a module of its
// own, which the check leaves out: building a Collector takes minutes. Run it by
//
//	go -C examples/exporter/otlp/testdata/collector test .
package collector

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/borescope/borescope/examples/exporter/otlp"
)

// seen is an exporter of the Collector that hands over what went through it.
type seen struct {
	component.StartFunc
	component.ShutdownFunc
	metrics chan pmetric.Metrics
}

func (seen) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s seen) ConsumeMetrics(_ context.Context, m pmetric.Metrics) error {
	c := pmetric.NewMetrics()
	m.CopyTo(c)
	s.metrics <- c
	return nil
}

// start runs a Collector that receives OTLP over HTTP at an address, until the test ends.
func start(t *testing.T, address string) <-chan pmetric.Metrics {
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {seen: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {metrics: {receivers: [otlp], exporters: [seen]}}
`, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics := make(chan pmetric.Metrics, 1)
	out := exporter.NewFactory(component.MustNewType("seen"), func() component.Config { return &struct{}{} },
		exporter.WithMetrics(func(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) {
			return seen{metrics: metrics}, nil
		}, component.StabilityLevelAlpha))
	in := otlpreceiver.NewFactory()
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		DisableGracefulShutdown: true,
		Factories: func() (otelcol.Factories, error) {
			return otelcol.Factories{
				Receivers: map[component.Type]receiver.Factory{in.Type(): in},
				Exporters: map[component.Type]exporter.Factory{out.Type(): out},
				Telemetry: otelconftelemetry.NewFactory(),
			}, nil
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{"file:" + config}, DefaultScheme: "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	t.Cleanup(func() {
		c.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for c.GetState() != otelcol.StateRunning {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return metrics
}

// TestCollector: a Collector has the counts of a registry exactly, with the types and buckets that they
// have there.
func TestCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	got := start(t, address)

	r := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total"}, []string{"comm"})
	calls.WithLabelValues("sh").Add(4023)
	native := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "native", NativeHistogramBucketFactor: 2})
	classic := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "classic", Buckets: []float64{1, 2}})
	for _, v := range []float64{0, 3, 3, 28} {
		native.Observe(v)
		classic.Observe(v)
	}
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "summary"})
	summary.Observe(7)
	r.MustRegister(calls, native, classic, summary)
	if err := otlp.New("http://"+address, map[string]string{"service.name": "x"}).Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	resource := (<-got).ResourceMetrics().At(0)
	if v, _ := resource.Resource().Attributes().Get("service.name"); v.Str() != "x" {
		t.Errorf("the service is %q", v.Str())
	}
	list, seen := resource.ScopeMetrics().At(0).Metrics(), 0
	for _, m := range list.All() {
		switch m.Name() {
		case "calls_total":
			p := m.Sum().DataPoints().At(0)
			if comm, _ := p.Attributes().Get("comm"); p.DoubleValue() != 4023 || !m.Sum().IsMonotonic() || comm.Str() != "sh" ||
				m.Sum().AggregationTemporality() != pmetric.AggregationTemporalityCumulative {
				t.Errorf("the counter is %v of %s", p.DoubleValue(), comm.Str())
			}
		case "native": // 3 is in (2, 4], 28 in (16, 32]
			p := m.ExponentialHistogram().DataPoints().At(0)
			if p.Scale() != 0 || p.ZeroCount() != 1 || p.Count() != 4 || p.Positive().Offset() != 1 ||
				!slices.Equal(p.Positive().BucketCounts().AsRaw(), []uint64{2, 0, 0, 1}) {
				t.Errorf("the native histogram has %v from %d on", p.Positive().BucketCounts().AsRaw(), p.Positive().Offset())
			}
		case "classic":
			p := m.Histogram().DataPoints().At(0)
			if !slices.Equal(p.BucketCounts().AsRaw(), []uint64{1, 0, 3}) || !slices.Equal(p.ExplicitBounds().AsRaw(), []float64{1, 2}) {
				t.Errorf("the classic histogram has %v", p.BucketCounts().AsRaw())
			}
		case "summary":
			if p := m.Summary().DataPoints().At(0); p.Count() != 1 || p.Sum() != 7 {
				t.Errorf("the summary has %d, %v", p.Count(), p.Sum())
			}
		default:
			t.Errorf("a metric %s", m.Name())
		}
		seen++
	}
	if seen != 4 {
		t.Errorf("%d of 4 metrics", seen)
	}
}
