package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/borescope/borescope/hist"
)

// TestPrometheusPage: Prometheus' own parser (promtool's) reads every page, with the values
// that were added.
func TestPrometheusPage(t *testing.T) {
	seed := uint64(os.Getpid())
	r := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"", "sda", `a "b" \ c`, "line\nline", "é\xff\x1b[2J", "}", `a="b",`, "le"}
	text := func() string { return texts[r.IntN(len(texts))] }
	for range 500 {
		var p hist.PrometheusPage
		values := make(map[string]map[string]float64) // by metric and labels
		for range r.IntN(30) {
			name := []string{"a", "b:c", "d_total", "e_seconds"}[r.IntN(4)]
			var labels []hist.PrometheusLabel
			for _, l := range []string{"x", "le_", "_y"} {
				if r.IntN(2) == 0 {
					labels = append(labels, hist.PrometheusLabel{Name: l, Value: text()})
				}
			}
			v := float64(r.IntN(1000))
			var err error
			switch name {
			case "e_seconds":
				err = p.Histogram(name, text(), labels, hist.ToPrometheus(ours(t, 0, make([]int64, int(v))), 1e-6))
			case "d_total":
				err = p.Counter(name, text(), labels, v)
			default:
				err = p.Gauge(name, text(), labels, v)
			}
			if err != nil {
				continue // the same series
			}
			if values[name] == nil {
				values[name] = make(map[string]float64)
			}
			values[name][key(labels)] = v
		}
		var b bytes.Buffer
		if _, err := p.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("seed %d: %v in\n%s", seed, err, b.Bytes())
		}
		n, want := 0, 0
		for name, f := range families {
			for _, m := range f.Metric {
				var labels []hist.PrometheusLabel
				for _, l := range m.Label {
					labels = append(labels, hist.PrometheusLabel{Name: l.GetName(), Value: l.GetValue()})
				}
				got := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				if v, ok := values[name][key(labels)]; !ok && len(values[name]) > 0 && !replaced(labels) || ok && v != got {
					t.Errorf("seed %d: %s%v is %v, want %v", seed, name, labels, got, v)
				}
				n++
			}
		}
		for _, series := range values {
			want += len(series)
		}
		if n != want {
			t.Errorf("seed %d: %d series, want %d", seed, n, want)
		}
	}
}

// key identifies labels, in whatever order.
func key(labels []hist.PrometheusLabel) string {
	labels = slices.DeleteFunc(slices.Clone(labels), func(l hist.PrometheusLabel) bool { return l.Value == "" })
	slices.SortFunc(labels, func(a, b hist.PrometheusLabel) int { return strings.Compare(a.Name, b.Name) })
	return fmt.Sprintf("%q", labels)
}

// replaced reports whether a value has characters that the page replaces.
func replaced(labels []hist.PrometheusLabel) bool {
	return strings.ContainsRune(key(labels), '\ufffd')
}
