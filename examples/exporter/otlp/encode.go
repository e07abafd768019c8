package otlp

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
)

// scope is what the metrics and profiles were made by.
var scope = &common.InstrumentationScope{Name: "github.com/borescope/borescope/examples/exporter"}

// request returns metrics as a request of OTLP, whose fields are those of a MetricsData.
func request(families []*dto.MetricFamily, about map[string]string, start, now time.Time) *metrics.MetricsData {
	list := &metrics.ScopeMetrics{Scope: scope}
	for _, f := range families {
		list.Metrics = append(list.Metrics, metricsOf(f, uint64(start.UnixNano()), uint64(now.UnixNano()))...)
	}
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{
		{Resource: resourceOf(about), ScopeMetrics: []*metrics.ScopeMetrics{list}},
	}}
}

func resourceOf(about map[string]string) *resource.Resource {
	r := &resource.Resource{}
	for _, key := range slices.Sorted(maps.Keys(about)) {
		r.Attributes = append(r.Attributes, attributeOf(key, about[key]))
	}
	return r
}

func attributeOf(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: validUTF8(key), Value: textOf(value)}
}

func textOf(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: validUTF8(s)}}
}

// validUTF8 returns a text as protobuf has to have it.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// metricsOf returns the series of a name: one metric, but two if some histograms are native and others
// are not.
func metricsOf(f *dto.MetricFamily, start, now uint64) (list []*metrics.Metric) {
	var numbers []*metrics.NumberDataPoint
	var summaries []*metrics.SummaryDataPoint
	var classic []*metrics.HistogramDataPoint
	var native []*metrics.ExponentialHistogramDataPoint
	for _, m := range f.Metric {
		var labels []*common.KeyValue
		for _, l := range m.Label {
			labels = append(labels, attributeOf(l.GetName(), l.GetValue()))
		}
		switch f.GetType() {
		case dto.MetricType_SUMMARY:
			summaries = append(summaries, &metrics.SummaryDataPoint{
				Attributes: labels, StartTimeUnixNano: start, TimeUnixNano: now,
				Count: m.GetSummary().GetSampleCount(), Sum: m.GetSummary().GetSampleSum(),
			})
		case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
			h := m.GetHistogram()
			if h.Schema == nil {
				classic = append(classic, explicit(h, labels, start, now))
				continue
			}
			native = append(native, &metrics.ExponentialHistogramDataPoint{
				Attributes: labels, StartTimeUnixNano: start, TimeUnixNano: now,
				Count: h.GetSampleCount(), Sum: h.SampleSum,
				Scale: h.GetSchema(), ZeroCount: h.GetZeroCount(), ZeroThreshold: h.GetZeroThreshold(),
				Positive: exponential(h.PositiveSpan, h.PositiveDelta), Negative: exponential(h.NegativeSpan, h.NegativeDelta),
			})
		default: // at most one of the three is there
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			numbers = append(numbers, &metrics.NumberDataPoint{
				Attributes: labels, StartTimeUnixNano: start, TimeUnixNano: now,
				Value: &metrics.NumberDataPoint_AsDouble{AsDouble: v},
			})
		}
	}
	add := func() *metrics.Metric {
		m := &metrics.Metric{Name: f.GetName(), Description: f.GetHelp()}
		list = append(list, m)
		return m
	}
	if len(native) > 0 {
		h := &metrics.ExponentialHistogram{DataPoints: native, AggregationTemporality: cumulative}
		add().Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: h}
	}
	if len(classic) > 0 {
		h := &metrics.Histogram{DataPoints: classic, AggregationTemporality: cumulative}
		add().Data = &metrics.Metric_Histogram{Histogram: h}
	}
	switch {
	case len(summaries) > 0:
		add().Data = &metrics.Metric_Summary{Summary: &metrics.Summary{DataPoints: summaries}}
	case len(numbers) > 0 && f.GetType() == dto.MetricType_COUNTER:
		s := &metrics.Sum{DataPoints: numbers, AggregationTemporality: cumulative, IsMonotonic: true}
		add().Data = &metrics.Metric_Sum{Sum: s}
	case len(numbers) > 0:
		add().Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: numbers}}
	}
	return list
}

// explicit returns a classic histogram, whose buckets are not cumulative here.
func explicit(h *dto.Histogram, labels []*common.KeyValue, start, now uint64) *metrics.HistogramDataPoint {
	p := &metrics.HistogramDataPoint{
		Attributes: labels, StartTimeUnixNano: start, TimeUnixNano: now, Count: h.GetSampleCount(), Sum: h.SampleSum,
	}
	before := uint64(0)
	for _, b := range h.Bucket {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		p.ExplicitBounds = append(p.ExplicitBounds, b.GetUpperBound())
		p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-before)
		before = b.GetCumulativeCount()
	}
	p.BucketCounts = append(p.BucketCounts, h.GetSampleCount()-before)
	return p
}

// exponential returns the buckets of one side of a native histogram. The bucket that Prometheus counts as
// i, OpenTelemetry counts as i-1: both are those of values up to base^i.
func exponential(spans []*dto.BucketSpan, deltas []int64) *metrics.ExponentialHistogramDataPoint_Buckets {
	b := &metrics.ExponentialHistogramDataPoint_Buckets{}
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
			b.BucketCounts, deltas = append(b.BucketCounts, uint64(n)), deltas[1:]
			at++
		}
		if i+1 < len(spans) && len(b.BucketCounts) > 0 {
			b.BucketCounts = append(b.BucketCounts, make([]uint64, spans[i+1].GetOffset())...)
		}
	}
	if len(b.BucketCounts) == 0 {
		return nil
	}
	return b
}
