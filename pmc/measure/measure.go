// Package measure counts what a function costs, for benchmarks and experiments: its
// instructions, cycles and branches, or the events that the machine has instead. For code that
// runs for long, or in other processes, use package pmc.
//
//	m, err := measure.Func(func() { parse(input) })
//	if err != nil {
//		return err
//	}
//	for _, v := range m.Counts.Totals() {
//		fmt.Println(v.Event, v.Count, v.Confidence)
//	}
//
// In a benchmark, Report adds the counts of one operation to its results. The kernel limits
// what may be counted (see package pmc); user space of the own thread needs no privileges
// unless kernel.perf_event_paranoid is 3.
package measure

import (
	"runtime"
	"runtime/metrics"

	"github.com/borescope/borescope/pmc"
)

// Measurement is the result of Func.
type Measurement struct {
	// Counts are those of the function, Empty those of an empty function.
	Counts pmc.Counts
	Empty  pmc.Counts
	// GC is the number of garbage collections of this program that ended meanwhile. If it
	// is not 0, the counts may include some of the collector's work.
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

// Reporter has the method of a *testing.B that Report needs.
type Reporter interface {
	// ReportMetric adds a number with its unit to the benchmark's line.
	ReportMetric(n float64, unit string)
}

// Report adds the counts to a benchmark's line, per operation: "cycles/op",
// "instructions/op", and "IPC" if both were counted. n is b.N. Events that were not counted
// are left out.
//
//	m, err := pmc.OpenMeter(nil, nil) // after runtime.LockOSThread
//	…
//	m.Read(&before)
//	for b.Loop() { … }
//	m.Read(&after)
//	measure.Report(b, b.N, after.Sub(before))
func Report(b Reporter, n int, c pmc.Counts) {
	if n <= 0 {
		return
	}
	for _, v := range c.Totals() {
		if v.Confidence >= pmc.Low {
			b.ReportMetric(float64(v.Count)/float64(n), baseName(v.Event)+"/op")
		}
	}
	for _, m := range c.Metrics() {
		if m.Name == "IPC" {
			b.ReportMetric(m.Value, "IPC")
		}
	}
}

// Func runs f once, on one thread, and counts what that thread did. The goroutine is locked
// to it (runtime.LockOSThread), so goroutines that f starts are not counted. Nil events are
// pmc.DefaultEvents.
//
// Reading the counters costs a few hundred instructions. Measurement.Empty has the counts of
// an empty function, measured the same way. The garbage collector may run on this thread
// too: Measurement.GC has the number of its cycles that ended meanwhile.
func Func(f func(), events ...pmc.Event) (Measurement, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if len(events) == 0 {
		events = nil // the default ones
	}
	m, err := pmc.OpenMeter(events, nil)
	if err != nil {
		return Measurement{}, err
	}
	defer m.Close()
	var out Measurement
	if out.Empty, _, err = measure(m, func() {}); err != nil {
		return Measurement{}, err
	}
	out.Counts, out.GC, err = measure(m, f)
	return out, err
}

func measure(m *pmc.Meter, f func()) (c pmc.Counts, gc uint64, err error) {
	var before, after pmc.Counts
	before.Rows = make([]pmc.Row, 0, len(m.Events()))
	after.Rows = make([]pmc.Row, 0, len(m.Events()))
	gc = gcCycles()
	if err := m.Read(&before); err != nil {
		return pmc.Counts{}, 0, err
	}
	f()
	if err := m.Read(&after); err != nil {
		return pmc.Counts{}, 0, err
	}
	return after.Sub(before), gcCycles() - gc, nil
}

// baseName returns the event's name for a unit: without modifiers.
func baseName(e pmc.Event) string {
	if e.Label != "" {
		return e.Label
	}
	if e.Name != "" {
		return e.Name
	}
	return pmc.Event{
		Type: e.Type, PMU: e.PMU, Config: e.Config, Config1: e.Config1,
		Config2: e.Config2, Config3: e.Config3, BPType: e.BPType,
	}.String()
}
