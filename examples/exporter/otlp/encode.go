package otlp

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// These are the messages of opentelemetry/proto/metrics/v1/metrics.proto, as protobuf's JSON has them.
type (
	message struct {
		ResourceMetrics []resourceMetrics `json:"resourceMetrics"`
	}
	resourceMetrics struct {
		Resource     resource       `json:"resource"`
		ScopeMetrics []scopeMetrics `json:"scopeMetrics"`
	}
	resource struct {
		Attributes []attribute `json:"attributes,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value struct {
			StringValue string `json:"stringValue"`
		} `json:"value"`
	}
	scopeMetrics struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Metrics []metric `json:"metrics"`
	}
	metric struct {
		Name                 string  `json:"name"`
		Description          string  `json:"description,omitempty"`
		Gauge                *points `json:"gauge,omitempty"`
		Sum                  *points `json:"sum,omitempty"`
		Histogram            *points `json:"histogram,omitempty"`
		ExponentialHistogram *points `json:"exponentialHistogram,omitempty"`
		Summary              *points `json:"summary,omitempty"`
	}
	points struct {
		DataPoints  []point `json:"dataPoints"`
		Temporality int     `json:"aggregationTemporality,omitempty"`
		Monotonic   bool    `json:"isMonotonic,omitempty"`
	}
	point struct {
		Attributes []attribute `json:"attributes,omitempty"`
		Start      count       `json:"startTimeUnixNano"`
		Time       count       `json:"timeUnixNano"`

		Double *float `json:"asDouble,omitempty"` // of gauges and sums

		Count *count `json:"count,omitempty"` // of the others
		Sum   *float `json:"sum,omitempty"`

		BucketCounts   []count `json:"bucketCounts,omitempty"`
		ExplicitBounds []float `json:"explicitBounds,omitempty"`

		Scale         int32    `json:"scale,omitempty"`
		ZeroCount     count    `json:"zeroCount,omitempty"`
		ZeroThreshold float    `json:"zeroThreshold,omitempty"`
		Positive      *buckets `json:"positive,omitempty"`
		Negative      *buckets `json:"negative,omitempty"`
	}
	buckets struct {
		Offset       int32   `json:"offset,omitempty"`
		BucketCounts []count `json:"bucketCounts"`
	}
)

// cumulative is AGGREGATION_TEMPORALITY_CUMULATIVE.
const cumulative = 2

// count is an integer of 64 bits, which is a text in protobuf's JSON.
type count uint64

// MarshalJSON implements json.Marshaler.
func (c count) MarshalJSON() ([]byte, error) {
	return append(strconv.AppendUint([]byte{'"'}, uint64(c), 10), '"'), nil
}

// float is a number, which is a text in protobuf's JSON if JSON has no such number.
type float float64

// MarshalJSON implements json.Marshaler.
func (f float) MarshalJSON() ([]byte, error) {
	switch v := float64(f); {
	case math.IsNaN(v):
		return []byte(`"NaN"`), nil
	case math.IsInf(v, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-Infinity"`), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', -1, 64), nil
}

// request returns metrics as a request of OTLP.
func request(families []*dto.MetricFamily, about map[string]string, start, now time.Time) message {
	scope := scopeMetrics{Metrics: []metric{}}
	scope.Scope.Name = "github.com/borescope/borescope/examples/exporter"
	for _, f := range families {
		scope.Metrics = append(scope.Metrics, metricsOf(f, count(start.UnixNano()), count(now.UnixNano()))...)
	}
	r := resourceMetrics{ScopeMetrics: []scopeMetrics{scope}}
	for _, key := range slices.Sorted(maps.Keys(about)) {
		r.Resource.Attributes = append(r.Resource.Attributes, attributeOf(key, about[key]))
	}
	return message{ResourceMetrics: []resourceMetrics{r}}
}

func attributeOf(key, value string) attribute {
	a := attribute{Key: key}
	a.Value.StringValue = value
	return a
}

// metricsOf returns the series of a name: one metric, but two if some histograms are native and others
// are not.
func metricsOf(f *dto.MetricFamily, start, now count) (list []metric) {
	of := map[string]*points{}
	for _, m := range f.Metric {
		p := point{Start: start, Time: now}
		for _, l := range m.Label {
			p.Attributes = append(p.Attributes, attributeOf(l.GetName(), l.GetValue()))
		}
		kind := p.fill(f.GetType(), m)
		if of[kind] == nil {
			of[kind] = &points{}
		}
		of[kind].DataPoints = append(of[kind].DataPoints, p)
	}
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		m, p := metric{Name: f.GetName(), Description: f.GetHelp()}, of[kind]
		switch kind {
		case "gauge":
			m.Gauge = p
		case "sum":
			m.Sum, p.Temporality, p.Monotonic = p, cumulative, true
		case "histogram":
			m.Histogram, p.Temporality = p, cumulative
		case "exponential":
			m.ExponentialHistogram, p.Temporality = p, cumulative
		case "summary":
			m.Summary = p
		}
		list = append(list, m)
	}
	return list
}

// fill fills in what a series has, and returns its kind.
func (p *point) fill(typ dto.MetricType, m *dto.Metric) (kind string) {
	number := func(v float64) { f := float(v); p.Double = &f }
	total := func(n uint64, sum float64) {
		c, f := count(n), float(sum)
		p.Count, p.Sum = &c, &f
	}
	switch typ {
	case dto.MetricType_COUNTER:
		number(m.GetCounter().GetValue())
		return "sum"
	case dto.MetricType_SUMMARY:
		total(m.GetSummary().GetSampleCount(), m.GetSummary().GetSampleSum())
		return "summary"
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		h := m.GetHistogram()
		total(h.GetSampleCount(), h.GetSampleSum())
		if h.Schema == nil {
			p.explicit(h)
			return "histogram"
		}
		p.Scale, p.ZeroCount, p.ZeroThreshold = h.GetSchema(), count(h.GetZeroCount()), float(h.GetZeroThreshold())
		p.Positive, p.Negative = exponential(h.PositiveSpan, h.PositiveDelta), exponential(h.NegativeSpan, h.NegativeDelta)
		return "exponential"
	}
	number(m.GetGauge().GetValue() + m.GetUntyped().GetValue())
	return "gauge"
}

// explicit fills in the buckets of a classic histogram, which are not cumulative here.
func (p *point) explicit(h *dto.Histogram) {
	before := uint64(0)
	for _, b := range h.Bucket {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		p.ExplicitBounds = append(p.ExplicitBounds, float(b.GetUpperBound()))
		p.BucketCounts = append(p.BucketCounts, count(b.GetCumulativeCount()-before))
		before = b.GetCumulativeCount()
	}
	p.BucketCounts = append(p.BucketCounts, count(h.GetSampleCount()-before))
}

// exponential returns the buckets of one side of a native histogram. The bucket that Prometheus counts as
// i, OpenTelemetry counts as i-1: both are those of values up to base^i.
func exponential(spans []*dto.BucketSpan, deltas []int64) *buckets {
	var b buckets
	n, at := int64(0), int32(0)
	for i, s := range spans {
		at += s.GetOffset()
		for range s.GetLength() {
			if len(deltas) == 0 {
				return nil
			}
			if len(b.BucketCounts) == 0 {
				b.Offset = at - 1
			}
			n += deltas[0]
			b.BucketCounts, deltas = append(b.BucketCounts, count(n)), deltas[1:]
			at++
		}
		if i+1 < len(spans) && len(b.BucketCounts) > 0 {
			b.BucketCounts = append(b.BucketCounts, make([]count, spans[i+1].GetOffset())...)
		}
	}
	if len(b.BucketCounts) == 0 {
		return nil
	}
	return &b
}
