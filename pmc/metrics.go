package pmc

import (
	"strings"
	"time"

	"github.com/borescope/borescope/internal/perfring"
)

// Metric is a number derived from counts.
type Metric struct {
	// Name is short: "IPC". On machines with several kinds of CPU the PMU precedes it:
	// "cpu_core IPC".
	Name  string
	Value float64
	// Unit is "", "%", "GHz", "CPUs", "/s", "MiB/s".
	Unit string
	// Formula is the metric's definition.
	Formula string
	// Confidence is the lowest of the counts that it is derived from.
	Confidence Confidence
}

// rule derives one metric from the values of named events.
type rule struct {
	name, unit, formula string
	events              []string
	eval                func(v []float64, elapsed time.Duration) (float64, bool)
}

// ratio divides the first event by the second.
func ratio(scale float64) func([]float64, time.Duration) (float64, bool) {
	return func(v []float64, _ time.Duration) (float64, bool) {
		if v[1] == 0 {
			return 0, false
		}
		return scale * v[0] / v[1], true
	}
}

// hits returns the share of the second event that is not the first.
func hits(v []float64, _ time.Duration) (float64, bool) {
	if v[1] == 0 || v[0] > v[1] {
		return 0, false
	}
	return 100 * (1 - v[0]/v[1]), true
}

// topdown returns the share of the first event in the sum of all.
func topdown(v []float64, _ time.Duration) (float64, bool) {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	if sum == 0 {
		return 0, false
	}
	return 100 * v[0] / sum, true
}

// perSecond divides the events' sum by the elapsed time.
func perSecond(scale float64) func([]float64, time.Duration) (float64, bool) {
	return func(v []float64, elapsed time.Duration) (float64, bool) {
		if elapsed <= 0 {
			return 0, false
		}
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return scale * sum / elapsed.Seconds(), true
	}
}

var rules = []rule{
	{"CPUs utilized", "CPUs", "task-clock / elapsed", []string{"task-clock"}, perSecond(1e-9)},
	{"IPC", "", "instructions / cycles", []string{"instructions", "cycles"}, ratio(1)},
	{"CPI", "", "cycles / instructions", []string{"cycles", "instructions"}, ratio(1)},
	{"frequency", "GHz", "cycles / task-clock", []string{"cycles", "task-clock"}, ratio(1)},
	{
		"branch miss rate", "%", "branch-misses / branches",
		[]string{"branch-misses", "branches"},
		ratio(100),
	},
	{
		"cache hit ratio", "%", "1 - cache-misses / cache-references",
		[]string{"cache-misses", "cache-references"},
		hits,
	},
	{
		"LLC hit ratio", "%", "1 - LLC-load-misses / LLC-loads",
		[]string{"LLC-load-misses", "LLC-loads"},
		hits,
	},
	{
		"L1 hit ratio", "%", "1 - L1-dcache-load-misses / L1-dcache-loads",
		[]string{"L1-dcache-load-misses", "L1-dcache-loads"},
		hits,
	},
	{
		"dTLB miss rate", "%", "dTLB-load-misses / dTLB-loads",
		[]string{"dTLB-load-misses", "dTLB-loads"},
		ratio(100),
	},
	{
		"frontend stalled", "%", "stalled-cycles-frontend / cycles",
		[]string{"stalled-cycles-frontend", "cycles"},
		ratio(100),
	},
	{
		"backend stalled", "%", "stalled-cycles-backend / cycles",
		[]string{"stalled-cycles-backend", "cycles"},
		ratio(100),
	},
	{
		"retiring", "%", "topdown-retiring / (retiring + bad-spec + fe-bound + be-bound)",
		topdownEvents("topdown-retiring"), topdown,
	},
	{
		"bad speculation", "%", "topdown-bad-spec / (retiring + bad-spec + fe-bound + be-bound)",
		topdownEvents("topdown-bad-spec"), topdown,
	},
	{
		"frontend bound", "%", "topdown-fe-bound / (retiring + bad-spec + fe-bound + be-bound)",
		topdownEvents("topdown-fe-bound"), topdown,
	},
	{
		"backend bound", "%", "topdown-be-bound / (retiring + bad-spec + fe-bound + be-bound)",
		topdownEvents("topdown-be-bound"), topdown,
	},
	{"page faults", "/s", "page-faults / elapsed", []string{"page-faults"}, perSecond(1)},
	{
		"context switches", "/s", "context-switches / elapsed",
		[]string{"context-switches"},
		perSecond(1),
	},
	{
		"memory read", "MiB/s", "uncore cas_count_read × 64 B / elapsed",
		[]string{"cas_count_read"},
		perSecond(1),
	},
	{
		"memory write", "MiB/s", "uncore cas_count_write × 64 B / elapsed",
		[]string{"cas_count_write"},
		perSecond(1),
	},
}

// topdownEvents returns the four events of level 1, first at the front. They are shares of the
// slots that the kernel reads from PERF_METRICS (arch/x86/events/intel/core.c,
// icl_update_topdown_event), so their sum stands for "slots".
func topdownEvents(first string) []string {
	out := []string{first}
	for _, n := range []string{
		"topdown-retiring", "topdown-bad-spec", "topdown-fe-bound",
		"topdown-be-bound",
	} {
		if n != first {
			out = append(out, n)
		}
	}
	return out
}

// Metrics returns the metrics that can be derived from the events in c. Each metric has
// its formula:
//
//	CPUs utilized     task-clock / elapsed
//	IPC, CPI          instructions / cycles and its inverse
//	frequency         cycles / task-clock, GHz
//	branch miss rate  branch-misses / branches
//	cache hit ratio   1 - cache-misses / cache-references
//	LLC hit ratio     1 - LLC-load-misses / LLC-loads
//	L1 hit ratio      1 - L1-dcache-load-misses / L1-dcache-loads
//	dTLB miss rate    dTLB-load-misses / dTLB-loads
//	stalled           stalled-cycles-frontend or -backend / cycles
//	top-down level 1  topdown-retiring, -bad-spec, -fe-bound, -be-bound, each
//	                  divided by their sum (Intel, with slots leading the group)
//	memory read/write uncore_imc/cas_count_read/ × 64 bytes / elapsed
//
// The events of a ratio must have the same modifiers. A ratio whose divisor is 0, or
// whose events were not counted, is left out.
func (c Counts) Metrics() []Metric {
	type key struct {
		pmu, name string
		exclude   Exclude
	}
	values := map[key]*Value{}
	var order []key
	for _, v := range c.Totals() {
		if v.Confidence <= NotCounted {
			continue
		}
		k := key{kindOf(v.Event), metricName(v.Event), v.Event.Exclude}
		if old := values[k]; old != nil {
			// One event on several units (uncore_imc_0, _1) adds up.
			old.Raw, old.Count = old.Raw+v.Raw, old.Count+v.Count
			old.Confidence = min(old.Confidence, v.Confidence)
			continue
		}
		values[k] = &v
		order = append(order, k)
	}
	var out []Metric
	for _, r := range rules {
		for _, k := range order {
			if k.name != r.events[0] {
				continue
			}
			m := Metric{
				Name: strings.TrimSpace(k.pmu + " " + r.name), Unit: r.unit, Formula: r.formula,
				Confidence: Exact,
			}
			var args []float64
			for _, name := range r.events {
				v := values[key{k.pmu, name, k.exclude}]
				if v == nil && name == "task-clock" && k.exclude == (Exclude{}) {
					v = values[key{name: name}] // one clock for every kind of CPU
				}
				if v == nil {
					break
				}
				args = append(args, metricArg(v))
				m.Confidence = min(m.Confidence, v.Confidence)
			}
			if len(args) < len(r.events) {
				continue
			}
			var ok bool
			if m.Value, ok = r.eval(args, c.Time); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

// metricArg returns a value as the rules expect it: in MiB for events of that unit, in
// nanoseconds for the clocks, as counted for others.
func metricArg(v *Value) float64 {
	if v.Event.Unit == "MiB" {
		return v.Scaled()
	}
	return float64(v.Count)
}

// kindOf returns the PMU on machines with CPUs of several kinds, where ratios of different
// kinds would be meaningless; "" otherwise.
func kindOf(e Event) string {
	if strings.HasPrefix(e.PMU, "cpu_") {
		return e.PMU
	}
	return ""
}

// metricName returns the generic name of an event: for "cpu_core/cycles/" and
// "uncore_imc_0/cas_count_read/" the part between the slashes.
func metricName(e Event) string {
	switch e.Type {
	case perfring.EventHardware:
		if n := uint64(uint32(e.Config)); n < uint64(len(hardwareNames)) {
			return hardwareNames[n][0]
		}
	case perfring.EventCache:
		return cacheName(uint64(uint32(e.Config)))
	case perfring.EventSoftware:
		return e.spell()
	}
	name := e.Name
	if _, rest, ok := strings.Cut(name, "/"); ok {
		name, _, _ = strings.Cut(strings.TrimSuffix(rest, "/"), ",")
	}
	switch name {
	case "cpu-cycles", "cpu_cycles":
		return "cycles"
	case "inst_retired":
		return "instructions"
	case "branch-instructions", "br_retired":
		return "branches"
	case "br_mis_pred_retired":
		return "branch-misses"
	}
	return name
}
