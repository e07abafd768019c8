package bpfprom_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/output"
)

// table is a map in memory.
type table[K comparable, V any] struct {
	entries []mapx.Entry[K, V]
	err     error
}

func (t *table[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	return mapx.Snapshot[K, V]{Entries: slices.Clone(t.entries)}, t.err
}

func (t *table[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	panic("a collector clears nothing")
}

func (t *table[K, V]) set(k K, v V) {
	for i := range t.entries {
		if any(t.entries[i].Key) == any(k) {
			t.entries[i].Value = v
			return
		}
	}
	t.entries = append(t.entries, mapx.Entry[K, V]{Key: k, Value: v})
}

func collector[K comparable, V any](t *testing.T, from *table[K, V], m bpfprom.Metric) *bpfprom.Collector {
	t.Helper()
	c, err := bpfprom.New(from, m)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// page returns what a scrape in the text format has, without HELP and borescope's own metrics.
func page(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	var out strings.Builder
	for _, f := range gather(t, c) {
		var b bytes.Buffer
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if !strings.HasPrefix(line, "# HELP") && !strings.Contains(line, "borescope_read_errors_total") &&
				!strings.Contains(line, "borescope_series_over") {
				out.WriteString(line)
			}
		}
	}
	return out.String()
}

// self returns the value of one of a collector's own metrics.
func self(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	for _, f := range gather(t, c) {
		if f.GetName() == name {
			m := f.Metric[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func gather(t *testing.T, c prometheus.Collector) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

type conn struct {
	Comm       action.Comm
	RemotePort uint16
}

func comm(s string) (c action.Comm) {
	copy(c[:], s)
	return c
}

// TestKeys: every kind of key has its labels.
func TestKeys(t *testing.T) {
	structs := &table[conn, uint64]{}
	structs.set(conn{comm("curl"), 443}, 7)
	check(t, page(t, collector(t, structs, bpfprom.Metric{Name: "conns_total"})),
		"# TYPE conns_total counter\nconns_total{comm=\"curl\",remote_port=\"443\"} 7\n")

	none := &table[action.None, int64]{}
	none.set(action.None{}, -5)
	check(t, page(t, collector(t, none, bpfprom.Metric{Name: "level"})), "# TYPE level gauge\nlevel -5\n")

	scripts := &table[any, any]{}
	scripts.entries = []mapx.Entry[any, any]{
		{Key: output.Tuple{"sh", int64(-3)}, Value: int64(1)},
		{Key: output.Record{{Name: "a", Value: "x"}, {Name: "b", Value: uint64(9)}}, Value: int64(2)},
	}
	m := bpfprom.Metric{Name: "x_total", Labels: []string{"name", "n"}, Const: prometheus.Labels{"script": "s"}}
	check(t, page(t, collector(t, scripts, m)), `# TYPE x_total counter
x_total{n="-3",name="sh",script="s"} 1
x_total{n="9",name="x",script="s"} 2
`)
}

// TestValues: every kind of value is the metric of its kind, in its unit.
func TestValues(t *testing.T) {
	avg := &table[string, mapx.Average]{}
	avg.set("a", mapx.Average{Total: 3_000_000, Count: 2})
	check(t, page(t, collector(t, avg, bpfprom.Metric{Name: "took_seconds", Scale: 1e-9})),
		"# TYPE took_seconds summary\ntook_seconds_sum{key=\"a\"} 0.003\ntook_seconds_count{key=\"a\"} 2\n")

	buckets := &table[action.None, []hist.Bucket]{}
	buckets.set(action.None{}, []hist.Bucket{{Lo: 2, Hi: 4, Count: 4}, {Lo: 1024, Hi: 2048, Count: 1}})
	check(t, page(t, collector(t, buckets, bpfprom.Metric{Name: "h", Scale: 1e-6})), `# TYPE h histogram
h_bucket{le="1e-06"} 0
h_bucket{le="3e-06"} 4
h_bucket{le="7e-06"} 4
h_bucket{le="1.5e-05"} 4
h_bucket{le="3.1e-05"} 4
h_bucket{le="6.3e-05"} 4
h_bucket{le="0.000127"} 4
h_bucket{le="0.000255"} 4
h_bucket{le="0.000511"} 4
h_bucket{le="0.001023"} 4
h_bucket{le="0.002047"} 5
h_bucket{le="+Inf"} 5
h_sum 0.0015455
h_count 5
`)

	like, err := hist.NewLinear(0, 100, 10)
	if err != nil {
		t.Fatal(err)
	}
	linear := &table[action.None, []hist.Bucket]{}
	linear.set(action.None{}, []hist.Bucket{{Lo: 10, Hi: 20, Count: 3}})
	check(t, page(t, collector(t, linear, bpfprom.Metric{Name: "l", Buckets: like})), `# TYPE l histogram
l_bucket{le="9"} 0
l_bucket{le="19"} 3
l_bucket{le="+Inf"} 3
l_sum 43.5
l_count 3
`)
	c := collector(t, linear, bpfprom.Metric{Name: "l"})
	if page(t, c); !errors.Is(c.Err(), hist.ErrMismatch) {
		t.Errorf("linear buckets as powers of two: %v", c.Err())
	}
}

// TestNative: a histogram is native, and the client's own of the same values has the same buckets.
func TestNative(t *testing.T) {
	var h hist.Log2
	client := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "n", NativeHistogramBucketFactor: 2})
	for _, v := range []int64{0, 3, 5, 6, 7, 100, 1000, 1001} {
		h.Add(v)
		client.Observe(float64(v))
	}
	hists := &table[action.None, *hist.Log2]{}
	hists.set(action.None{}, &h)
	for _, classic := range []bool{false, true} {
		got := gather(t, collector(t, hists, bpfprom.Metric{Name: "n", Classic: classic}))
		at := slices.IndexFunc(got, func(f *dto.MetricFamily) bool { return f.GetName() == "n" })
		var want dto.Metric
		if err := client.Write(&want); err != nil {
			t.Fatal(err)
		}
		g, w := got[at].Metric[0].Histogram, want.Histogram
		if g.GetSchema() != 0 || g.GetZeroCount() != w.GetZeroCount() || g.GetSampleCount() != 8 ||
			fmt.Sprint(absolute(g)) != fmt.Sprint(absolute(w)) {
			t.Errorf("got %v\nwant %v", g, w)
		}
		if (len(g.Bucket) > 0) != classic {
			t.Errorf("classic %v has %d classic buckets", classic, len(g.Bucket))
		}
	}
	empty := &table[action.None, *hist.Log2]{}
	empty.set(action.None{}, new(hist.Log2))
	for _, f := range gather(t, collector(t, empty, bpfprom.Metric{Name: "n"})) {
		if f.GetName() == "n" && len(f.Metric[0].Histogram.PositiveSpan) != 1 {
			t.Error("an empty one looks like a classic one")
		}
	}
}

// absolute returns the counts of a native histogram by index.
func absolute(h *dto.Histogram) map[int32]int64 {
	out := map[int32]int64{}
	index, count, d := int32(0), int64(0), 0
	for _, s := range h.PositiveSpan {
		index += s.GetOffset()
		for range s.GetLength() {
			count += h.PositiveDelta[d]
			if count > 0 {
				out[index] = count
			}
			index, d = index+1, d+1
		}
	}
	return out
}

// TestCountersGrow: what a map does not have any more is still counted, and what is counted again
// is not counted twice.
func TestCountersGrow(t *testing.T) {
	calls := &table[string, uint64]{}
	calls.set("a", 10)
	calls.set("b", 1)
	c := collector(t, calls, bpfprom.Metric{Name: "c_total"})
	check(t, page(t, c), "# TYPE c_total counter\nc_total{key=\"a\"} 10\nc_total{key=\"b\"} 1\n")
	calls.set("a", 12)
	calls.entries = calls.entries[:1] // b is deleted
	check(t, page(t, c), "# TYPE c_total counter\nc_total{key=\"a\"} 12\nc_total{key=\"b\"} 1\n")
	calls.set("a", 3) // cleared
	calls.set("b", 2) // begins again
	check(t, page(t, c), "# TYPE c_total counter\nc_total{key=\"a\"} 15\nc_total{key=\"b\"} 3\n")
}

// TestContinue: a collector goes on with the map of a later session, of counters, summaries and
// histograms; a gauge is the later one's.
func TestContinue(t *testing.T) {
	first, second := &table[string, uint64]{}, &table[string, int64]{}
	first.set("a", 10)
	c := collector(t, first, bpfprom.Metric{Name: "c_total"})
	page(t, c)
	first.set("a", 11) // behind the last scrape
	second.set("a", 4)
	second.set("b", 5)
	if err := bpfprom.Continue(c, second); err != nil {
		t.Fatal(err)
	}
	want := "# TYPE c_total counter\nc_total{key=\"a\"} 15\nc_total{key=\"b\"} 5\n"
	check(t, page(t, c), want)
	if err := bpfprom.Continue[string, int64](c, nil); err != nil {
		t.Fatal(err)
	}
	check(t, page(t, c), want)

	var h1, h2 hist.Log2
	h1.AddN(5, 3)
	h2.AddN(5, 1)
	h2.AddN(9, 1)
	hists, later := &table[action.None, *hist.Log2]{}, &table[action.None, *hist.Log2]{}
	hists.set(action.None{}, &h1)
	later.set(action.None{}, &h2)
	c = collector(t, hists, bpfprom.Metric{Name: "h", Classic: true})
	page(t, c)
	if err := bpfprom.Continue(c, later); err != nil {
		t.Fatal(err)
	}
	check(t, page(t, c), `# TYPE h histogram
h_bucket{le="3"} 0
h_bucket{le="7"} 4
h_bucket{le="15"} 5
h_bucket{le="+Inf"} 5
h_sum 33.5
h_count 5
`)

	levels, next := &table[string, int64]{}, &table[string, int64]{}
	levels.set("a", 7)
	next.set("b", 8)
	c = collector(t, levels, bpfprom.Metric{Name: "level"})
	page(t, c)
	if err := bpfprom.Continue(c, next); err != nil {
		t.Fatal(err)
	}
	check(t, page(t, c), "# TYPE level gauge\nlevel{key=\"b\"} 8\n")

	if err := bpfprom.Continue(c, &table[conn, int64]{}); err == nil {
		t.Error("a map with other keys is taken")
	}
}

// TestBounds: keys beyond the bound are one series, exactly, and are counted.
func TestBounds(t *testing.T) {
	calls := &table[uint32, uint64]{}
	for i := range uint32(10) {
		calls.set(i, 1)
	}
	c := collector(t, calls, bpfprom.Metric{Name: "c_total", MaxSeries: 2})
	want := "# TYPE c_total counter\nc_total{key=\"0\"} 1\nc_total{key=\"1\"} 1\nc_total{key=\"[other]\"} %d\n"
	check(t, page(t, c), fmt.Sprintf(want, 8))
	if n := self(t, c, "borescope_series_over"); n != 8 {
		t.Errorf("%v keys have no series", n)
	}
	calls.entries = calls.entries[:5] // the others were evicted, which is no loss
	calls.set(4, 3)
	check(t, page(t, c), fmt.Sprintf(want, 10))
	if n := self(t, c, "borescope_series_over"); n != 3 {
		t.Errorf("%v keys have no series", n)
	}

	levels := &table[uint32, uint64]{}
	for i := range uint32(4) {
		levels.set(i, 1)
	}
	c = collector(t, levels, bpfprom.Metric{Name: "level", MaxSeries: 2})
	check(t, page(t, c), "# TYPE level gauge\nlevel{key=\"0\"} 1\nlevel{key=\"1\"} 1\n")
	slices.Reverse(levels.entries) // who has a series keeps it
	check(t, page(t, c), "# TYPE level gauge\nlevel{key=\"0\"} 1\nlevel{key=\"1\"} 1\n")
	levels.entries = levels.entries[:3] // 0 is gone
	check(t, page(t, c), "# TYPE level gauge\nlevel{key=\"1\"} 1\nlevel{key=\"3\"} 1\n")
}

// TestOther: a key that is called like the others is one of them.
func TestOther(t *testing.T) {
	calls := &table[string, uint64]{}
	calls.set("a", 1)
	calls.set(bpfprom.Other, 2)
	calls.set("b", 3)
	c := collector(t, calls, bpfprom.Metric{Name: "c_total", MaxSeries: 1})
	check(t, page(t, c), "# TYPE c_total counter\nc_total{key=\"[other]\"} 5\nc_total{key=\"a\"} 1\n")
}

// TestEmptyGauge: what is in the map no more is no gauge any more.
func TestEmptyGauge(t *testing.T) {
	levels := &table[string, uint64]{}
	levels.set("a", 1)
	c := collector(t, levels, bpfprom.Metric{Name: "level"})
	check(t, page(t, c), "# TYPE level gauge\nlevel{key=\"a\"} 1\n")
	levels.entries = nil
	check(t, page(t, c), "")
}

// TestNothingIsLost: whatever is counted, deleted and cleared behind a scrape, and whichever sessions
// there are, the sum of all series is what was counted.
func TestNothingIsLost(t *testing.T) {
	seed := uint64(os.Getpid())
	r := rand.New(rand.NewPCG(seed, 0))
	calls, counted := &table[uint32, uint64]{}, uint64(0)
	c := collector(t, calls, bpfprom.Metric{Name: "c_total", MaxSeries: 3})
	for range 2000 {
		switch r.IntN(6) {
		case 0:
			page(t, c)
			calls.entries = slices.DeleteFunc(calls.entries, func(mapx.Entry[uint32, uint64]) bool { return r.IntN(2) == 0 })
			page(t, c)
		case 1:
			next := &table[uint32, uint64]{}
			if err := bpfprom.Continue(c, next); err != nil {
				t.Fatal(err)
			}
			calls = next
		default:
			key, n := uint32(r.IntN(9)), uint64(r.IntN(100))
			at := slices.IndexFunc(calls.entries, func(e mapx.Entry[uint32, uint64]) bool { return e.Key == key })
			if at < 0 {
				calls.set(key, n)
			} else {
				calls.entries[at].Value += n
			}
			counted += n
		}
	}
	sum, families := 0.0, gather(t, c)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "c_total" {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	if sum != float64(counted) {
		t.Errorf("seed %d: %v of %d", seed, sum, counted)
	}
}

// TestUnreadable: a map that cannot be read fails no scrape, is counted, and keeps its counts.
func TestUnreadable(t *testing.T) {
	calls, levels := &table[string, uint64]{}, &table[string, uint64]{}
	calls.set("a", 1)
	levels.set("a", 1)
	c, g := collector(t, calls, bpfprom.Metric{Name: "c_total"}), collector(t, levels, bpfprom.Metric{Name: "level"})
	page(t, c)
	page(t, g)
	calls.err = errors.New("closed")
	levels.err = calls.err
	check(t, page(t, c), "# TYPE c_total counter\nc_total{key=\"a\"} 1\n")
	check(t, page(t, g), "")
	if n := self(t, c, "borescope_read_errors_total"); n != 2 || !errors.Is(c.Err(), calls.err) {
		t.Errorf("%v errors, %v", n, c.Err())
	}
	if err := bpfprom.Continue(c, calls); !errors.Is(err, calls.err) {
		t.Errorf("the last reading failed: %v", err)
	}
}

// TestLabelsOfEvil: names that processes chose make valid labels, and those that are the same when cut
// are one series.
func TestLabelsOfEvil(t *testing.T) {
	calls := &table[string, uint64]{}
	calls.set("a\"b\\\n\x1b[2J\xff\u202e", 1)
	long := strings.Repeat("é", 100)
	calls.set(long+"1", 2)
	calls.set(long+"2", 3)
	c := collector(t, calls, bpfprom.Metric{Name: "c_total", MaxLabel: 14})
	check(t, page(t, c), "# TYPE c_total counter\n"+
		"c_total{key=\"a\\\"b\\\\??[2J\ufffd?\"} 1\nc_total{key=\"ééééé…\"} 5\n")
}

// TestRefused: what cannot be exported is refused at once.
func TestRefused(t *testing.T) {
	numbers := &table[string, uint64]{}
	for _, m := range []bpfprom.Metric{
		{},
		{Name: "a-b"},
		{Name: "a", Labels: []string{"le"}},
		{Name: "a", Labels: []string{"__x"}},
		{Name: "a", Labels: []string{"x", "y"}},
		{Name: "a", Labels: []string{"x"}, Const: prometheus.Labels{"x": ""}},
		{Name: "a", Scale: -1},
		{Name: "a", Kind: 7},
		{Name: "a", MaxSeries: -1},
	} {
		if _, err := bpfprom.New(numbers, m); err == nil {
			t.Errorf("%+v is taken", m)
		}
	}
	if _, err := bpfprom.New(&table[string, string]{}, bpfprom.Metric{Name: "a"}); err == nil {
		t.Error("a map of texts is taken")
	}
}

// TestLosses: losses and costs go on over sessions.
func TestLosses(t *testing.T) {
	session := func(full, runs uint64) bpfprom.Stats {
		return func() (bpf.Stats, uint64, error) {
			return bpf.Stats{
				Full: full + 2, Programs: []bpf.ProgramStats{{Name: "p", Runs: runs, Time: 1000}},
				Maps: []bpf.MapStats{{Name: "m", Full: full, Bytes: 4096}},
			}, 2, nil
		}
	}
	l := bpfprom.NewLosses("s", session(3, 10))
	page(t, l)
	if err := l.Continue(session(4, 20)); err != nil {
		t.Fatal(err)
	}
	got := page(t, l)
	for _, want := range []string{
		`borescope_lost_total{reason="ring",session="s"} 4`, `borescope_lost_total{reason="full",session="s"} 7`,
		`borescope_map_full_total{map="m",session="s"} 7`, `borescope_map_bytes{map="m",session="s"} 4096`,
		`borescope_program_runs_total{program="p",session="s"} 30`,
		`borescope_program_run_seconds_total{program="p",session="s"} 2e-06`,
		`borescope_stats_errors_total{session="s"} 0`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if err := l.Continue(func() (bpf.Stats, uint64, error) { return bpf.Stats{}, 0, errors.New("closed") }); err != nil {
		t.Fatal(err)
	}
	if got := page(t, l); !strings.Contains(got, `borescope_lost_total{reason="full",session="s"} 7`) ||
		!strings.Contains(got, `borescope_stats_errors_total{session="s"} 1`) {
		t.Errorf("after an error:\n%s", got)
	}
}

// FuzzLabel: whatever a key is, its label is valid, short, and without what a terminal acts on.
func FuzzLabel(f *testing.F) {
	f.Add("a\x00\xff", uint8(3))
	f.Add("ééé", uint8(2))
	f.Fuzz(func(t *testing.T, key string, most uint8) {
		keys := &table[string, uint64]{}
		keys.set(key, 1)
		for _, m := range gather(t, collector(t, keys, bpfprom.Metric{Name: "x_total", MaxLabel: int(most) + 1})) {
			if m.GetName() != "x_total" {
				continue
			}
			v := m.Metric[0].Label[0].GetValue()
			if !utf8.ValidString(v) || len(v) > int(most)+1 || strings.ContainsAny(v, "\x00\n\x1b\u202e") {
				t.Errorf("%q is %q", key, v)
			}
		}
	})
}
