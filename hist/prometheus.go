package hist

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/escape"
)

// PrometheusLabel is a label of a series. Its value may be any text; if it is empty, the series
// does not have the label, as for Prometheus.
type PrometheusLabel struct{ Name, Value string }

// PrometheusPage is one page in Prometheus' text format, version 0.0.4, as a scrape returns it.
// It is valid in whatever order series are added: the series of a metric follow each other,
// behind one TYPE and one HELP line. The zero value is an empty page. It is for one goroutine.
type PrometheusPage struct {
	metrics []*prometheusMetric
	names   map[string]*prometheusMetric // also of a histogram's series: NAME_bucket
}

type prometheusMetric struct {
	name, help, kind string
	series           map[string]bool // by labels, sorted
	estimated        bool            // the sum of one of the series is not exact
	text             []byte
}

// Histogram adds a classic histogram as a series of a metric: NAME_bucket, NAME_sum and
// NAME_count. The metric has the help text that it was first added with; "" is none. If the sum
// of one of its series is not exact (Prometheus.SumExact), the help text also says that.
//
// It returns an error, and adds nothing, if a name is not one (metrics: [a-zA-Z_:][a-zA-Z0-9_:]*,
// labels: the same without colons), for a label that is given twice or is "le", for a series that
// the page has (values that differ in characters alone that a terminal acts on, which are
// replaced, are the same), and for a metric that has another type or one of the names of another metric's
// series.
func (p *PrometheusPage) Histogram(name, help string, labels []PrometheusLabel,
	h Prometheus,
) error {
	m, series, err := p.add(name, help, "histogram", labels, "_bucket", "_sum", "_count")
	if err != nil {
		return err
	}
	m.estimated = m.estimated || !h.SumExact && h.Count > 0
	for _, b := range h.Buckets {
		le := PrometheusLabel{"le", prometheusValue(b.LE)}
		m.sample("_bucket", append(series, le), strconv.FormatUint(b.Count, 10))
	}
	m.sample("_sum", series, prometheusValue(h.Sum))
	m.sample("_count", series, strconv.FormatUint(h.Count, 10))
	return nil
}

// Counter adds a series of a counter. Its errors are Histogram's.
func (p *PrometheusPage) Counter(name, help string, labels []PrometheusLabel, v float64) error {
	return p.value(name, help, "counter", labels, v)
}

// Gauge adds a series of a gauge. Its errors are Histogram's.
func (p *PrometheusPage) Gauge(name, help string, labels []PrometheusLabel, v float64) error {
	return p.value(name, help, "gauge", labels, v)
}

func (p *PrometheusPage) value(name, help, kind string, labels []PrometheusLabel,
	v float64,
) error {
	m, series, err := p.add(name, help, kind, labels)
	if err == nil {
		m.sample("", series, prometheusValue(v))
	}
	return err
}

// WriteTo implements io.WriterTo. The page can be written again, and added to.
func (p *PrometheusPage) WriteTo(w io.Writer) (int64, error) {
	var b []byte
	for _, m := range p.metrics {
		if help := m.helpText(); help != "" {
			b = fmt.Appendf(b, "# HELP %s %s\n", m.name, prometheusHelp(help))
		}
		b = fmt.Appendf(b, "# TYPE %s %s\n", m.name, m.kind)
		b = append(b, m.text...)
	}
	n, err := w.Write(b)
	return int64(n), err
}

// add returns a metric for a series with the given labels, which it returns sorted.
func (p *PrometheusPage) add(name, help, kind string, labels []PrometheusLabel,
	suffixes ...string,
) (*prometheusMetric, []PrometheusLabel, error) {
	if !isPrometheusName(name, true) {
		return nil, nil, fmt.Errorf("prometheus: %q is not the name of a metric", name)
	}
	labels = slices.DeleteFunc(slices.Clone(labels), func(l PrometheusLabel) bool { return l.Value == "" })
	slices.SortFunc(labels, func(a, b PrometheusLabel) int { return strings.Compare(a.Name, b.Name) })
	for i, l := range labels {
		switch {
		case !isPrometheusName(l.Name, false) || strings.HasPrefix(l.Name, "__"):
			return nil, nil, fmt.Errorf("prometheus: %s: %q is not the name of a label", name, l.Name)
		case l.Name == "le" && kind == "histogram":
			return nil, nil, fmt.Errorf("prometheus: %s: label le is the histogram's own", name)
		case i > 0 && labels[i-1].Name == l.Name:
			return nil, nil, fmt.Errorf("prometheus: %s: label %s is given twice", name, l.Name)
		}
	}
	m := p.names[name]
	key := string(appendLabels(nil, labels))
	switch {
	case m == nil:
		m = &prometheusMetric{name: name, help: help, kind: kind, series: make(map[string]bool)}
		names := []string{name}
		for _, suffix := range suffixes {
			names = append(names, name+suffix)
		}
		for _, n := range names {
			if other := p.names[n]; other != nil {
				return nil, nil, fmt.Errorf("prometheus: %s and %s both have %s", name, other.name, n)
			}
		}
		if p.names == nil {
			p.names = make(map[string]*prometheusMetric)
		}
		for _, n := range names {
			p.names[n] = m
		}
		p.metrics = append(p.metrics, m)
	case m.name != name:
		return nil, nil, fmt.Errorf("prometheus: %s and %s both have %s", m.name, name, name)
	case m.kind != kind:
		return nil, nil, fmt.Errorf("prometheus: %s is a %s and a %s", name, m.kind, kind)
	case m.series[key]:
		return nil, nil, fmt.Errorf("prometheus: %s%s was added before", name, key)
	}
	m.series[key] = true
	return m, labels, nil
}

// helpText returns the help text with what must be known of the sums.
func (m *prometheusMetric) helpText() string {
	if !m.estimated {
		return m.help
	}
	return strings.TrimSpace(m.help + " The sum is an estimate, of the middles of the buckets.")
}

// sample appends a line.
func (m *prometheusMetric) sample(suffix string, labels []PrometheusLabel, value string) {
	m.text = append(append(m.text, m.name...), suffix...)
	m.text = appendLabels(m.text, labels)
	m.text = append(append(append(m.text, ' '), value...), '\n')
}

func appendLabels(b []byte, labels []PrometheusLabel) []byte {
	if len(labels) == 0 {
		return b
	}
	sep := byte('{')
	for _, l := range labels {
		b = append(append(append(b, sep), l.Name...), '=')
		b = append(b, escape.Label(l.Value)...)
		sep = ','
	}
	return append(b, '}')
}

// prometheusValue formats a number as Go does, which the format follows: +Inf, NaN.
func prometheusValue(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// prometheusHelp escapes a help text, which has no quotes.
func prometheusHelp(s string) string {
	s = escape.Label(s)
	return strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`)
}

func isPrometheusName(s string, colons bool) bool {
	for i, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '_':
		case r >= '0' && r <= '9' && i > 0, r == ':' && colons:
		default:
			return false
		}
	}
	return s != ""
}
