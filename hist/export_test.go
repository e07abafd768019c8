package hist

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
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
}

// A metric says of a sum that is made of bucket middles that it is; it looked like the exact one.
func TestPrometheusEstimatedSum(t *testing.T) {
	counted, tracked := log2(t, 0), log2(t, 0).Track()
	counted.AddN(1000, 3)
	tracked.AddN(1000, 3)
	const help = "Latency. The sum is an estimate, of the middles of the buckets."
	for _, c := range []struct {
		series []Prometheus
		help   string
	}{
		{[]Prometheus{ToPrometheus(tracked, 1), {}}, "Latency."},
		{[]Prometheus{ToPrometheus(tracked, 1), ToPrometheus(counted, 1)}, help},
		{[]Prometheus{{Sum: 3000, SumExact: true, Count: 3}}, "Latency."},
	} {
		var p PrometheusPage
		for i, h := range c.series {
			if err := p.Histogram("x", "Latency.", []PrometheusLabel{{"of", string(rune('a' + i))}}, h); err != nil {
				t.Fatal(err)
			}
		}
		var b bytes.Buffer
		p.WriteTo(&b)
		if first, _, _ := strings.Cut(b.String(), "\n"); first != "# HELP x "+c.help {
			t.Errorf("%q, want %q", first, c.help)
		}
	}
}

// TestPrometheusPage: one TYPE line for each metric, whatever the order. WriteText wrote one for
// each set of labels, which Prometheus refuses.
func TestPrometheusPage(t *testing.T) {
	h := log2(t, 0).Track()
	h.Add(1000)
	h.Add(3000)
	var p PrometheusPage
	add := func(disk string) error {
		return p.Histogram("x_seconds", "How long \"x\" takes\nin \\.", []PrometheusLabel{{"disk", disk}}, ToPrometheus(h, 1e-6))
	}
	if err := add("sda"); err != nil {
		t.Fatal(err)
	}
	if err := p.Counter("lost_total", "", []PrometheusLabel{{"why", "a \"b\"\n\\c"}, {"at", "1"}}, 7); err != nil {
		t.Fatal(err)
	}
	if err := add("sdb"); err != nil {
		t.Fatal(err)
	}
	if err := p.Gauge("cpus", "", nil, 2.5); err != nil {
		t.Fatal(err)
	}
	series := func(disk string) string {
		return strings.ReplaceAll(`x_seconds_bucket{disk="DISK",le="0.000511"} 0
x_seconds_bucket{disk="DISK",le="0.001023"} 1
x_seconds_bucket{disk="DISK",le="0.002047"} 1
x_seconds_bucket{disk="DISK",le="0.004095"} 2
x_seconds_bucket{disk="DISK",le="+Inf"} 2
x_seconds_sum{disk="DISK"} 0.004
x_seconds_count{disk="DISK"} 2
`, "DISK", disk)
	}
	want := `# HELP x_seconds How long "x" takes\nin \\.` + "\n# TYPE x_seconds histogram\n" + series("sda") + series("sdb") +
		`# TYPE lost_total counter
lost_total{at="1",why="a \"b\"\n\\c"} 7
# TYPE cpus gauge
cpus 2.5
`
	for what, err := range map[string]error{
		"the same series":     add("sda"),
		"another type":        p.Counter("x_seconds", "", nil, 1),
		"a histogram's name":  p.Gauge("x_seconds_sum", "", nil, 1),
		"another's name":      p.Histogram("cpus_count", "", []PrometheusLabel{{"le", "1"}}, Prometheus{}),
		"label le":            p.Histogram("y", "", []PrometheusLabel{{"le", "1"}}, Prometheus{}),
		"two labels":          p.Gauge("y", "", []PrometheusLabel{{"a", "1"}, {"a", "2"}}, 1),
		"a label's name":      p.Gauge("y", "", []PrometheusLabel{{"a:b", "1"}}, 1),
		"a reserved name":     p.Gauge("y", "", []PrometheusLabel{{"__name__", "1"}}, 1),
		"a metric's name":     p.Gauge("9lives", "", nil, 1),
		"no name":             p.Gauge("", "", nil, 1),
		"a line in the name":  p.Gauge("a\nb", "", nil, 1),
		"what is replaced":    errors.Join(p.Gauge("z", "", []PrometheusLabel{{"a", "\x01"}}, 1), p.Gauge("z", "", []PrometheusLabel{{"a", "\x02"}}, 1)),
		"series of histogram": errors.Join(p.Gauge("h_sum", "", nil, 1), p.Histogram("h", "", nil, Prometheus{})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	var b bytes.Buffer
	if n, err := p.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	got, _, _ := strings.Cut(b.String(), "# TYPE z gauge")
	if got != want {
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
