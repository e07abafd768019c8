package measure

import (
	"runtime/metrics"

	"github.com/borescope/borescope/pmc"
)

// Measurement is what Measure found.
type Measurement struct {
	// Counts are those of the function, Empty those of an empty one.
	Counts pmc.Counts
	Empty  pmc.Counts
	// GC is how many garbage collections of this program ended meanwhile: with
	// more than 0 the counts may hold some of the collector's work.
	GC uint64
}

func gcCycles() uint64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// Reporter is what ReportMetrics needs of a *testing.B.
type Reporter interface {
	// ReportMetric adds a number with its unit to the benchmark's line.
	ReportMetric(n float64, unit string)
}

// ReportMetrics adds the counts to a benchmark's line, per operation:
// "cycles/op", "instructions/op", and "IPC" where both are there. n is b.N.
// Events that were not counted are left out.
//
//	m, err := pmc.OpenMeter(nil, nil) // after runtime.LockOSThread
//	…
//	m.Read(&before)
//	for b.Loop() { … }
//	m.Read(&after)
//	pmc.ReportMetrics(b, b.N, after.Sub(before))
func ReportMetrics(b Reporter, n int, c pmc.Counts) {
	if n <= 0 {
		return
	}
	for _, v := range c.Totals() {
		if v.Confidence >= pmc.Low {
			b.ReportMetric(float64(v.Count)/float64(n), pmc.BaseName(v.Event)+"/op")
		}
	}
	for _, m := range c.Metrics() {
		if m.Name == "IPC" {
			b.ReportMetric(m.Value, "IPC")
		}
	}
}
