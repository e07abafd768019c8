package bpfprom

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/borescope/borescope/probe/ir/bpf"
)

// Stats returns what a session costs and has lost: script.Session.Stats, or that of an action.Session
// with 0 as lost, which is the number of records for which the session's ring had no room. Of a
// collector of stacks it has what that counts, too:
//
//	func() (st bpf.Stats, lost uint64, err error) {
//		s, err := stacks.Stats()
//		return bpf.Stats{Full: s.LostFull, NoScratch: s.LostNested, Missed: s.Missed, Truncated: s.CutShort}, 0, err
//	}
type Stats func() (st bpf.Stats, lost uint64, err error)

// Losses exports what a session costs and has lost. It is a prometheus.Collector, safe for concurrent
// use. Run times need the kernel's own statistics: ebpf.EnableStats, or the sysctl
// kernel.bpf_stats_enabled.
type Losses struct {
	descs   map[string]*prometheus.Desc // by costMetrics' names
	failing *prometheus.Desc

	// mu guards what follows.
	mu    sync.Mutex
	stats Stats            // nil: there is no session any more
	ended map[cost]float64 // of earlier sessions
	now   map[cost]float64 // of this one
	errs  uint64
}

// cost is one of costMetrics, and the value of its label.
type cost struct{ name, label string }

const (
	lostTotal  = "borescope_lost_total"
	fullTotal  = "borescope_map_full_total"
	runsTotal  = "borescope_program_runs_total"
	runSeconds = "borescope_program_run_seconds_total"
	mapBytes   = "borescope_map_bytes"
)

// costMetrics are the metrics of Losses, each with the label that it has besides the session.
var costMetrics = []struct{ name, label, help string }{
	{lostTotal, "reason", "What the session did not count, or not wholly, by reason: ring (records that had no room), " +
		"full (entries that had none), missed (a program was running), no_scratch, limited and throttled (the budget), " +
		"faults (memory could not be read), truncated, unwalked, broken, busy."},
	{fullTotal, "map", "Entries that did not fit in a map."},
	{runsTotal, "program", "Runs of a BPF program, while the kernel's statistics are on."},
	{runSeconds, "program", "Time that a BPF program ran, while the kernel's statistics are on."},
	{mapBytes, "map", "Memory of a map."},
}

// NewLosses exports a session's statistics under a name, which is the label session.
func NewLosses(session string, stats Stats) *Losses {
	constant := prometheus.Labels{"session": labelValue(session, defaultLabel)}
	l := &Losses{
		descs: map[string]*prometheus.Desc{}, stats: stats, ended: map[cost]float64{},
		failing: prometheus.NewDesc("borescope_stats_errors_total",
			"Scrapes that could not read the session's statistics.", nil, constant),
	}
	for _, m := range costMetrics {
		l.descs[m.name] = prometheus.NewDesc(m.name, m.help, []string{m.label}, constant)
	}
	return l
}

// Continue takes the statistics of a later session, and those of the earlier one a last time: they must
// still be readable. Nil is no session.
func (l *Losses) Continue(stats Stats) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.update()
	for c, v := range l.now {
		if c.name != mapBytes {
			l.ended[c] += v
		}
	}
	l.stats, l.now = stats, nil
	return err
}

// update reads the statistics.
func (l *Losses) update() error {
	if l.stats == nil {
		return nil
	}
	st, ring, err := l.stats()
	if err != nil {
		l.errs++
		return err
	}
	l.now = map[cost]float64{}
	for reason, n := range st.Lost(ring) {
		l.now[cost{lostTotal, reason}] = float64(n)
	}
	for _, m := range st.Maps {
		l.now[cost{fullTotal, m.Name}] = float64(m.Full)
		l.now[cost{mapBytes, m.Name}] = float64(m.Bytes)
	}
	for _, p := range st.Programs {
		l.now[cost{runsTotal, p.Name}] += float64(p.Runs)
		l.now[cost{runSeconds, p.Name}] += p.Time.Seconds()
	}
	return nil
}

var _ prometheus.Collector = (*Losses)(nil)

// Describe implements prometheus.Collector.
func (l *Losses) Describe(to chan<- *prometheus.Desc) {
	for _, d := range l.descs {
		to <- d
	}
	to <- l.failing
}

// Collect implements prometheus.Collector: it reads the statistics.
func (l *Losses) Collect(to chan<- prometheus.Metric) {
	for _, m := range l.collect() {
		to <- m
	}
}

func (l *Losses) collect() []prometheus.Metric {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.update() // is counted
	out := []prometheus.Metric{
		prometheus.MustNewConstMetric(l.failing, prometheus.CounterValue, float64(l.errs)),
	}
	sums := maps.Clone(l.ended)
	for c, v := range l.now {
		sums[c] += v
	}
	for c, v := range sums {
		kind := prometheus.CounterValue
		if c.name == mapBytes {
			kind = prometheus.GaugeValue
		}
		out = append(out, prometheus.MustNewConstMetric(l.descs[c.name], kind, v, labelValue(c.label, defaultLabel)))
	}
	return out
}
