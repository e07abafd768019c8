package otlp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/borescope/borescope/examples/exporter/otlp"
	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// collector is a server that understands requests as OpenTelemetry's own types do: those of a path, or of
// gRPC, to which it gives an answer with a status.
func collector(t *testing.T, path string, got proto.Message, answer []byte, status string) (url string) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		kind := "application/x-protobuf"
		if r.ProtoMajor == 2 && len(b) >= 5 && err == nil {
			kind = "application/grpc"
			if n := binary.BigEndian.Uint32(b[1:]); b[0] != 0 || int(n) != len(b)-5 || r.Header.Get("TE") != "trailers" {
				t.Errorf("a prefix of %x, %v", b[:5], r.Header)
			}
			b = b[5:]
		}
		if err != nil || r.URL.Path != path || r.Header.Get("Content-Type") != kind {
			t.Errorf("%s %s: %v", r.URL, r.Header, err)
		}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Errorf("%v in %x", err, b)
		}
		if r.ProtoMajor == 1 {
			n, _ := strconv.Atoi(status)
			w.WriteHeader(n)
			w.Write(answer)
			return
		}
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		if status == "0" {
			w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))), answer...))
		}
		w.Header().Set("Grpc-Status", status)
		w.Header().Set("Grpc-Message", string(answer))
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// partial is the answer that some were refused.
func partial(n uint64, message string) []byte {
	in := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n)
	in = protowire.AppendString(protowire.AppendTag(in, 2, protowire.BytesType), message)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), in)
}

const (
	metricsPath  = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
	profilesPath = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
)

// overBoth runs a test with a client of HTTP and one of gRPC.
func overBoth(t *testing.T, path, grpcPath string, got proto.Message, test func(t *testing.T, c *otlp.Client)) {
	for _, c := range []struct{ name, path, status string }{{"http", path, "200"}, {"grpc", grpcPath, "0"}} {
		t.Run(c.name, func(t *testing.T) {
			proto.Reset(got)
			url := collector(t, c.path, got, partial(0, ""), c.status)
			client := otlp.New(strings.Replace(url, "http", c.name, 1)+"/", map[string]string{"service.name": "x"})
			defer client.Close()
			test(t, client)
		})
	}
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
	got := &v1.MetricsData{}
	overBoth(t, "/v1/metrics", metricsPath, got, func(t *testing.T, c *otlp.Client) {
		if err := c.Send(t.Context(), filled(t)); err != nil {
			t.Fatal(err)
		}
		checkMetrics(t, got)
	})
}

func checkMetrics(t *testing.T, got *v1.MetricsData) {
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
	for _, c := range []struct{ scheme, answer, status, want string }{
		{"http", "no\x1b", "400", "400 Bad Request: no?"},
		{"http", string(partial(3, "old")), "200", "3 of them are refused: old"},
		{"http", "<html>", "200", "answer: "},
		{"grpc", string(partial(3, "old")), "0", "3 of them are refused: old"},
		{"grpc", "data%20lost", "15", "gRPC status 15: data lost"},
	} {
		path := map[string]string{"http": "/v1/metrics", "grpc": metricsPath}[c.scheme]
		url := collector(t, path, &v1.MetricsData{}, []byte(c.answer), c.status)
		client := otlp.New(strings.Replace(url, "http", c.scheme, 1), nil)
		err := client.Send(t.Context(), filled(t))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.answer, err, c.want)
		}
		client.Close()
	}
	plain := httptest.NewServer(http.NotFoundHandler()) // of HTTP/1
	defer plain.Close()
	client := otlp.New(strings.Replace(plain.URL, "http", "grpc", 1), nil)
	defer client.Close()
	if err := client.Send(t.Context(), filled(t)); err == nil {
		t.Error("a server without gRPC takes it")
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
	defer c.Close()
	err := c.Send(context.Background(), prometheus.NewRegistry())
	fmt.Println(err != nil)
	// Output: true
}
