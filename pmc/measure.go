package pmc

import "runtime/metrics"

// Measurement is what Measure found.
type Measurement struct {
	// Counts are those of the function, Empty those of an empty one.
	Counts Counts
	Empty  Counts
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

// DefaultEvents are what Measure counts: cycles, instructions, branches and
// branch misses of user space as far as the machine has them, else the task
// clock, page faults and context switches.
func DefaultEvents(opts *Options) []Event {
	var out []Event
	for _, e := range []Event{Cycles(), Instructions(), Branches(), BranchMisses()} {
		e.Exclude = ExcludeKernel | ExcludeHV
		h, err := OpenEvent(e, OnThread(0), &OpenOptions{Root: rootOf(opts), Disabled: true})
		if err == nil {
			h.Close()
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		out = []Event{TaskClock(), PageFaults(), ContextSwitches()}
	}
	return out
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
func ReportMetrics(b Reporter, n int, c Counts) {
	if n <= 0 {
		return
	}
	for _, v := range c.Totals() {
		if v.Confidence >= Low {
			b.ReportMetric(float64(v.Count)/float64(n), baseName(v.Event)+"/op")
		}
	}
	for _, m := range c.Metrics() {
		if m.Name == "IPC" {
			b.ReportMetric(m.Value, "IPC")
		}
	}
}

// baseName is the event for a unit: without modifiers, which testing's units
// can't hold spaces of anyway.
func baseName(e Event) string {
	if e.Label != "" {
		return e.Label
	}
	e.Exclude, e.Precise, e.Flags = 0, 0, 0
	return e.String()
}
