package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/tool"
)

// line is one event of the output.
type line struct {
	value   pmc.Value
	mean    float64 // in the event's unit, over the runs
	spread  float64 // ± in percent of the mean, over the runs
	metric  float64 // the number after the #, with the text what
	what    string
	samples int
}

// lines computes the table of one or more runs.
func lines(runs []measured) []line {
	var out []line
	for i, v := range runs[0].counts.Totals() {
		l := line{value: v}
		var xs []float64
		for _, r := range runs {
			w := r.counts.Totals()[i]
			if w.Confidence > pmc.NotCounted {
				xs = append(xs, w.Scaled())
				l.value = worse(l.value, w)
			}
		}
		l.mean, l.spread, l.samples = meanSpread(xs)
		out = append(out, l)
	}
	for i := range out {
		out[i].metric, out[i].what = derive(out, i, meanElapsed(runs))
	}
	return out
}

// worse returns the value with the lower coverage, which the table shows.
func worse(a, b pmc.Value) pmc.Value {
	if a.Confidence <= pmc.NotCounted || b.Coverage < a.Coverage {
		return b
	}
	return a
}

// meanSpread returns the mean and its standard error in percent of it, as perf stat -r does.
func meanSpread(xs []float64) (mean, spread float64, n int) {
	n = len(xs)
	if n == 0 {
		return 0, 0, 0
	}
	for _, x := range xs {
		mean += x
	}
	mean /= float64(n)
	if n == 1 || mean == 0 {
		return mean, 0, n
	}
	sum := 0.0
	for _, x := range xs {
		sum += (x - mean) * (x - mean)
	}
	return mean, 100 * math.Sqrt(sum/float64(n-1)/float64(n)) / mean, n
}

func meanElapsed(runs []measured) time.Duration {
	var sum time.Duration
	for _, r := range runs {
		sum += r.elapsed
	}
	return sum / time.Duration(len(runs))
}

// derive returns the number and the text after the #: a ratio if the events for it were
// counted, else the rate per second of task-clock, or of time if that was not counted.
func derive(all []line, i int, elapsed time.Duration) (float64, string) {
	l := all[i]
	e := l.value.Event
	if l.samples == 0 {
		return 0, ""
	}
	seconds := elapsed.Seconds()
	if j := slices.IndexFunc(all, func(l line) bool {
		return l.value.Event == pmc.TaskClock()
	}); j >= 0 && all[j].mean > 0 {
		seconds = all[j].mean / 1e3
	}
	switch {
	case is(e, pmc.TaskClock()), is(e, pmc.CPUClock()):
		return l.mean / 1e3 / elapsed.Seconds(), "CPUs utilized"
	case is(e, pmc.Cycles()):
		return l.mean / seconds / 1e9, "GHz"
	}
	for _, r := range ratios {
		if !is(e, r.event) {
			continue
		}
		for _, d := range all {
			// The divisor must have the same modifiers and kind of CPU.
			v := d.value.Event
			if is(v, r.divisor) && v.Exclude == e.Exclude && v.PMU == e.PMU && d.mean > 0 {
				return r.scale * l.mean / d.mean, r.what
			}
		}
	}
	return rate(l.mean / seconds)
}

// ratios are the ratios that perf stat shows in place of a rate.
var ratios = []struct {
	event, divisor pmc.Event
	scale          float64
	what           string
}{
	{pmc.Instructions(), pmc.Cycles(), 1, "insn per cycle"},
	{pmc.BranchMisses(), pmc.Branches(), 100, "% of all branches"},
	{pmc.CacheMisses(), pmc.CacheReferences(), 100, "% of all cache refs"},
}

// is reports whether e is the generic event g on any kind of CPU: the upper half of config is
// its PMU.
func is(e, g pmc.Event) bool {
	return e.Type == g.Type && uint32(e.Config) == uint32(g.Config) && !e.IsZero()
}

// rate scales events per second as perf does: G, M, K.
func rate(perSecond float64) (float64, string) {
	for _, u := range []struct {
		least float64
		unit  string
	}{{1e9, "G/sec"}, {1e6, "M/sec"}, {1e3, "K/sec"}} {
		if perSecond >= u.least {
			return perSecond / u.least, u.unit
		}
	}
	return perSecond, "/sec"
}

// printTable writes perf stat's table.
func printTable(w *tool.Output, subject, note string, runs []measured) error {
	w.Printf("\n Performance counter stats for %s", subject)
	if len(runs) > 1 {
		w.Printf(" (%d runs)", len(runs))
	}
	w.Printf(":\n\n")
	all := lines(runs)
	for _, l := range all {
		w.Println(l.text(len(runs) > 1))
	}
	printTimes(w, runs)
	printNotes(w, note, all)
	return w.Flush()
}

// text formats one row. If the event was not counted, the reason is in the number's place.
func (l line) text(runs bool) string {
	name := l.value.Event.Short()
	var b strings.Builder
	switch l.value.Confidence {
	case pmc.NotSupported:
		fmt.Fprintf(&b, "%18s      %s", "<not supported>", name)
		return b.String()
	case pmc.NotCounted:
		fmt.Fprintf(&b, "%18s      %s", "<not counted>", name)
		return b.String()
	}
	fmt.Fprintf(&b, "%18s %-4s %-25s", number(l.mean, l.value.Event.Scale != 0), l.value.Event.Unit,
		name)
	fmt.Fprintf(&b, " # %8.3f %s", l.metric, l.what)
	if runs {
		fmt.Fprintf(&b, "  ( +- %5.2f%% )", l.spread)
	}
	if l.value.Confidence < pmc.Exact {
		fmt.Fprintf(&b, "  (%.2f%%)", 100*l.value.Coverage)
	}
	return b.String()
}

// number formats a count with commas between thousands.
func number(x float64, fraction bool) string {
	digits, rest := strconv.FormatFloat(x, 'f', 0, 64), ""
	if fraction {
		digits, rest, _ = strings.Cut(strconv.FormatFloat(x, 'f', 2, 64), ".")
		rest = "." + rest
	}
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String() + rest
}

func printTimes(w *tool.Output, runs []measured) {
	var elapsed []float64
	for _, r := range runs {
		elapsed = append(elapsed, r.elapsed.Seconds())
	}
	mean, spread, _ := meanSpread(elapsed)
	if len(runs) > 1 {
		w.Printf("\n%18.9f seconds time elapsed  ( +- %5.2f%% )\n\n", mean, spread)
		return
	}
	w.Printf("\n%18.9f seconds time elapsed\n\n", mean)
	if r := runs[0]; r.user+r.sys > 0 {
		w.Printf("%18.9f seconds user\n%18.9f seconds sys\n\n", r.user.Seconds(),
			r.sys.Seconds())
	}
}

// printNotes explains the numbers: why events are missing, and which counts are extrapolated.
func printNotes(w *tool.Output, note string, all []line) {
	if note != "" {
		w.Printf("Note: %s.\n", note)
	}
	said := map[string]bool{}
	shared, never := false, false
	for _, l := range all {
		if e := l.value.Error; e != "" && !said[e] {
			said[e] = true
			w.Printf("Note: %s.\n", e)
		}
		shared = shared || l.value.Confidence == pmc.High || l.value.Confidence == pmc.Low
		never = never || l.value.Confidence == pmc.NotCounted
	}
	if shared {
		w.Println("Note: events with a percentage shared the counters; they were counted for that part of the time and scaled.")
	}
	if never {
		w.Println("Note: events that were not counted never got a counter (others hold them: the NMI watchdog, another perf), or nothing ran.")
	}
}

// jsonLine is a line of -json, with the keys of perf stat -j.
type jsonLine struct {
	Interval   *float64 `json:"interval,omitempty"`
	Value      string   `json:"counter-value"`
	Unit       string   `json:"unit"`
	Event      string   `json:"event"`
	Variance   *float64 `json:"variance,omitempty"`
	Runtime    int64    `json:"event-runtime"`
	Running    float64  `json:"pcnt-running"`
	Metric     *float64 `json:"metric-value,omitempty"`
	MetricUnit string   `json:"metric-unit,omitempty"`
	// Confidence and Error are not in perf's output.
	Confidence string `json:"confidence"`
	Error      string `json:"error,omitempty"`
}

func (l line) json(interval *float64, runs int) jsonLine {
	j := jsonLine{
		Interval: interval, Unit: l.value.Event.Unit, Event: l.value.Event.Short(),
		Runtime: int64(l.value.Running), Running: 100 * l.value.Coverage,
		Confidence: l.value.Confidence.String(), Error: l.value.Error,
	}
	switch l.value.Confidence {
	case pmc.NotSupported:
		j.Value = "<not supported>"
	case pmc.NotCounted:
		j.Value = "<not counted>"
	default:
		j.Value = strconv.FormatFloat(l.mean, 'f', 6, 64)
		j.Metric, j.MetricUnit = &l.metric, l.what
	}
	if runs > 1 {
		j.Variance = &l.spread
	}
	return j
}

func printJSON(w *tool.Output, runs []measured) error {
	for _, l := range lines(runs) {
		if err := w.JSON(l.json(nil, len(runs))); err != nil {
			return err
		}
	}
	return w.Flush()
}

// intervals prints the counts since the last interval.
type intervals struct {
	json    bool
	last    pmc.Counts
	lastAt  time.Duration
	started bool
}

func (p *intervals) print(w *tool.Output, c *pmc.Counters, at time.Duration, wanted bool) error {
	if !wanted {
		return nil
	}
	var now pmc.Counts
	if err := c.Read(&now); err != nil {
		return err
	}
	d := now.Sub(p.last)
	all := lines([]measured{{counts: d, elapsed: at - p.lastAt}})
	p.last, p.lastAt = now, at
	if p.json {
		seconds := at.Seconds()
		for _, l := range all {
			if err := w.JSON(l.json(&seconds, 1)); err != nil {
				return err
			}
		}
		return nil
	}
	if !p.started {
		w.Println("#           time             counts unit events")
		p.started = true
	}
	for _, l := range all {
		if err := w.Printf("%16.9f %s\n", at.Seconds(), l.text(false)); err != nil {
			return err
		}
	}
	return nil
}
