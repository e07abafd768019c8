package bpfprom

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/borescope/borescope/hist"
)

// distributed is a series of histograms: native, classic or both. The client library's constant ones are
// one or the other.
type distributed struct {
	desc   *prometheus.Desc
	labels []string
	h      *dto.Histogram
}

// Desc implements prometheus.Metric.
func (d *distributed) Desc() *prometheus.Desc { return d.desc }

// Write implements prometheus.Metric.
func (d *distributed) Write(to *dto.Metric) error {
	to.Label, to.Histogram = prometheus.MakeLabelPairs(d.desc, d.labels), d.h
	return nil
}

// histogramOf returns a histogram, with classic buckets if it is asked for them or cannot be native.
func histogramOf(d distribution, scale float64, classic bool) *dto.Histogram {
	p := hist.ToPrometheus(d, scale)
	h := &dto.Histogram{SampleCount: &p.Count, SampleSum: &p.Sum}
	if log2, ok := d.(*hist.Log2); ok {
		if native, err := log2.ToPrometheusNative(scale); err == nil {
			addNative(h, &native)
		}
	}
	if h.Schema == nil || classic {
		for _, b := range p.Buckets {
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &b.LE, CumulativeCount: &b.Count})
		}
	}
	return h
}

// addNative adds the buckets of a native histogram.
func addNative(h *dto.Histogram, n *hist.PrometheusNative) {
	h.Schema, h.ZeroThreshold, h.ZeroCount = &n.Schema, &n.ZeroThreshold, &n.ZeroCount
	for _, s := range n.PositiveSpans {
		h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: &s.Offset, Length: &s.Length})
	}
	h.PositiveDelta = n.PositiveDeltas
	if len(h.PositiveSpan) == 0 && n.ZeroCount == 0 && n.ZeroThreshold == 0 {
		// An empty one would be taken for a classic one (prometheus.histogram.Write).
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32), Length: new(uint32)}}
	}
}
