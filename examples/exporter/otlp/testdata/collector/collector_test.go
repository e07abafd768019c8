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
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/borescope/borescope/examples/exporter/otlp"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/profile"
)

// seen is an exporter of the Collector that hands over what went through it.
type seen struct {
	component.StartFunc
	component.ShutdownFunc
	metrics  chan pmetric.Metrics
	profiles chan pprofile.Profiles
}

func (seen) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s seen) ConsumeMetrics(_ context.Context, m pmetric.Metrics) error {
	c := pmetric.NewMetrics()
	m.CopyTo(c)
	s.metrics <- c
	return nil
}

func (s seen) ConsumeProfiles(_ context.Context, p pprofile.Profiles) error {
	c := pprofile.NewProfiles()
	p.CopyTo(c)
	s.profiles <- c
	return nil
}

// start runs a Collector that receives OTLP over HTTP and gRPC, until the test ends, and returns its URLs.
func start(t *testing.T) (urls map[string]string, to seen) {
	urls = map[string]string{}
	addresses := map[string]string{}
	var listeners []net.Listener // all are open, so that no two have one address
	for _, kind := range []string{"http", "grpc"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		addresses[kind] = l.Addr().String()
		urls[kind] = kind + "://" + addresses[kind]
	}
	for _, l := range listeners {
		l.Close()
	}
	if err := featuregate.GlobalRegistry().Set("service.profilesSupport", true); err != nil {
		t.Fatal(err)
	}
	to = seen{metrics: make(chan pmetric.Metrics, 1), profiles: make(chan pprofile.Profiles, 1)}
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: %q}, grpc: {endpoint: %q}}}}
exporters: {seen: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [seen]}
    profiles: {receivers: [otlp], exporters: [seen]}
`, addresses["http"], addresses["grpc"])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := xexporter.NewFactory(component.MustNewType("seen"), func() component.Config { return &struct{}{} },
		xexporter.WithMetrics(func(context.Context, exporter.Settings, component.Config) (exporter.Metrics, error) {
			return to, nil
		}, component.StabilityLevelAlpha),
		xexporter.WithProfiles(func(context.Context, exporter.Settings, component.Config) (xexporter.Profiles, error) {
			return to, nil
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
	return urls, to
}

// TestCollector: over HTTP and gRPC, a Collector has the counts of a registry exactly, with the types and buckets
// that they have there, and the stacks of a profile by their kinds of values, with build-ids.
func TestCollector(t *testing.T) {
	urls, to := start(t)
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
	for kind, url := range urls {
		t.Run(kind, func(t *testing.T) {
			c := otlp.New(url, map[string]string{"service.name": "x"})
			defer c.Close()
			if err := c.Send(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			checkMetrics(t, <-to.metrics)
			if err := c.SendProfile(t.Context(), sampled()); err != nil {
				t.Fatal(err)
			}
			checkProfiles(t, <-to.profiles)
		})
	}
}

func checkMetrics(t *testing.T, got pmetric.Metrics) {
	resource := got.ResourceMetrics().At(0)
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

// sampled is a profile with two kinds of values.
func sampled() *profile.Profile {
	file := &profile.Mapping{Start: 0x1000, Limit: 0x2000, File: "/lib/libc.so", BuildID: "abcdef"}
	leaf := &profile.NamedFrame{
		Frame: stack.Frame{PC: 0x1010}, Mapping: file,
		Functions: []profile.Function{{Name: "inlined", File: "a.c", Line: 3}, {Name: "outer", File: "a.c", Line: 9}},
	}
	root := &profile.NamedFrame{Frame: stack.Frame{PC: 0x1020}, Mapping: file, Functions: []profile.Function{{Name: "main"}}}
	return &profile.Profile{
		SampleTypes: []profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType:  profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10101010,
		Time: time.Unix(1_000_000, 7), Duration: time.Second,
		Samples: []profile.Sample{{Frames: []*profile.NamedFrame{leaf, root}, Values: []int64{3, 30}, Comm: "sh"}},
	}
}

func checkProfiles(t *testing.T, got pprofile.Profiles) {
	d, list := got.Dictionary(), got.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
	if v, _ := got.ResourceProfiles().At(0).Resource().Attributes().Get("service.name"); v.Str() != "x" {
		t.Errorf("the service is %q", v.Str())
	}
	var lines []string
	for _, p := range list.All() {
		text := func(i int32) string { return d.StringTable().At(int(i)) }
		attribute := func(i int32) string {
			a := d.AttributeTable().At(int(i))
			return text(a.KeyStrindex()) + "=" + a.Value().AsString()
		}
		if p.Period() != 10101010 || text(p.PeriodType().TypeStrindex()) != "cpu" || p.Time() != 1e15+7 || p.DurationNano() != 1e9 {
			t.Errorf("each %d %s at %d for %d", p.Period(), text(p.PeriodType().TypeStrindex()), p.Time(), p.DurationNano())
		}
		for _, s := range p.Samples().All() {
			line := fmt.Sprint(text(p.SampleType().TypeStrindex()), " ", text(p.SampleType().UnitStrindex()), " ", s.Values().AsRaw(),
				" ", attribute(s.AttributeIndices().At(0)))
			for _, i := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
				l := d.LocationTable().At(int(i))
				m := d.MappingTable().At(int(l.MappingIndex()))
				line += fmt.Sprintf(" | %x %s %s", l.Address(), text(m.FilenameStrindex()), attribute(m.AttributeIndices().At(0)))
				for _, n := range l.Lines().All() {
					line += fmt.Sprint(" ", text(d.FunctionTable().At(int(n.FunctionIndex())).NameStrindex()), ":", n.Line())
				}
			}
			lines = append(lines, line)
		}
	}
	const (
		lib   = " /lib/libc.so process.executable.build_id.gnu=abcdef"
		where = " thread.name=sh | 1010" + lib + " inlined:3 outer:9 | 1020" + lib + " main:0"
	)
	want := []string{"samples count [3]" + where, "cpu nanoseconds [30]" + where}
	if !slices.Equal(lines, want) {
		t.Errorf("the profiles are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
