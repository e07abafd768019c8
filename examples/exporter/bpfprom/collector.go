package bpfprom

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/borescope/borescope/mapx"
)

// Collector exports one map. It is a prometheus.Collector, safe for concurrent use, and has nothing to
// close: a map that was closed counts as one that cannot be read, and its counts stay.
type Collector struct {
	metric        Metric
	desc          *prometheus.Desc
	over, failing *prometheus.Desc
	expiring      *prometheus.Desc
	now           func() time.Time

	// mu guards what follows.
	mu     sync.Mutex
	read   func() ([]entry, error) // nil: there is no map any more
	shape  shape
	last   map[string]*tracked // by the key's parts: what was read last
	series map[string]*series  // by the labels
	rest   *series             // of the keys without a series of their own
	keys   int                 // how many these are
	errs   uint64
	err    error // of the last reading

	expired uint64 // series
}

// entry is one entry of a map.
type entry struct {
	key   []string // its parts
	value amount
}

// tracked is a key that the map has.
type tracked struct {
	last amount
	in   *series
}

// series is a series of the metric.
type series struct {
	labels []string
	total  amount
	grew   time.Time
}

// New exports a table: one of probe/action, of script.Map, of bpf.OpenTable, or of mapx. Its values are
// numbers, mapx.Average, mapx.Totals, bpf.Stat, *hist.Log2, *hist.Linear or []hist.Bucket, and its keys
// numbers, texts, or structs of these; of an interface type they may be any of them. The error names
// what is wrong with the metric or with the table's types.
//
// The collector borrows the table, and reads it once for each scrape. What the table has already is
// counted.
func New[K comparable, V any](table mapx.Table[K, V], m Metric) (*Collector, error) {
	if err := m.fit(reflect.TypeFor[K](), reflect.TypeFor[V]()); err != nil {
		return nil, fmt.Errorf("export %w", err)
	}
	constant := prometheus.Labels{"metric": m.Name}
	c := &Collector{
		metric: m, desc: prometheus.NewDesc(m.Name, m.help(reflect.TypeFor[V]()), m.Labels, m.Const),
		over: prometheus.NewDesc("borescope_series_over",
			"Keys of the metric's map that have no series of their own.", nil, constant),
		failing: prometheus.NewDesc("borescope_read_errors_total",
			"Scrapes that could not read the metric's map.", nil, constant),
		expiring: prometheus.NewDesc("borescope_series_expired_total",
			"Series of the metric that ended as their keys had left the map.", nil, constant),
		now: time.Now, series: map[string]*series{}, last: map[string]*tracked{},
	}
	c.read = reader(table, &c.metric)
	return c, nil
}

// Continue gives a collector the map of a later session, whose keys must have as many parts and whose
// values must be of the same kind. The earlier map is read a last time: end its session before, so that it counts
// nothing any more, and close it after. A gauge is that of the new map. A nil table is none: the
// counts stay.
//
// The error is that of reading the earlier map: what it counted since the last scrape is missing then.
func Continue[K comparable, V any](c *Collector, table mapx.Table[K, V]) error {
	m := c.metric
	if table != nil {
		if err := m.fit(reflect.TypeFor[K](), reflect.TypeFor[V]()); err != nil {
			return fmt.Errorf("continue %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update()
	err := c.err
	clear(c.last)
	if c.read, c.keys, c.err = nil, 0, nil; table != nil {
		c.read = reader(table, &c.metric)
	}
	if c.kind() == Gauge {
		clear(c.series)
	}
	return err
}

// fit fills in the defaults, and reports what is wrong with the metric for a map of these types.
func (m *Metric) fit(key, value reflect.Type) error {
	names, known := labelNames(key)
	if m.Labels == nil {
		m.Labels = names
	}
	if err := m.check(); err != nil {
		return err
	}
	if known && len(names) != len(m.Labels) {
		return fmt.Errorf("%s: %d labels for the %d parts of a %s", m.Name, len(m.Labels), len(names), key)
	}
	if err := exportable(value, m); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return nil
}

// reader returns what reads a table.
func reader[K comparable, V any](table mapx.Table[K, V], m *Metric) func() ([]entry, error) {
	return func() ([]entry, error) {
		snap, err := table.Snapshot()
		if err != nil {
			return nil, err
		}
		out := make([]entry, 0, len(snap.Entries))
		for _, e := range snap.Entries {
			v, err := amountOf(e.Value, m)
			if err != nil {
				return nil, err
			}
			var key []string
			if len(m.Labels) > 0 {
				key = keyParts(nil, e.Key)
			}
			if len(key) != len(m.Labels) {
				return nil, fmt.Errorf("a key of %d parts for %d labels", len(key), len(m.Labels))
			}
			out = append(out, entry{key, v})
		}
		return out, nil
	}
}

// Err returns why the map could not be read the last time, nil if it could.
func (c *Collector) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// kind returns what the metric is.
func (c *Collector) kind() Kind {
	switch {
	case c.shape > number:
		return Counter
	case c.metric.Kind != Auto:
		return c.metric.Kind
	case strings.HasSuffix(c.metric.Name, "_total"):
		return Counter
	}
	return Gauge
}

// update reads the map.
func (c *Collector) update() {
	if c.read == nil {
		return
	}
	entries, err := c.read()
	if err == nil {
		err = c.take(entries)
	}
	if c.err = err; err != nil {
		c.errs++
	}
}

// take adds what a map has to the series.
func (c *Collector) take(entries []entry) error {
	now, order, err := merge(entries)
	if err != nil {
		return err
	}
	if len(order) > 0 {
		if shape := now[order[0]].value.shape; c.shape == noShape {
			c.shape = shape
		} else if c.shape != shape {
			return fmt.Errorf("the map of %s has values of another kind than before", c.metric.Name)
		}
	}
	if c.kind() == Gauge {
		return c.takeGauges(now, order)
	}
	for id := range c.last {
		if now[id] == nil {
			delete(c.last, id)
		}
	}
	at := c.now()
	c.expire(at)
	c.keys = 0
	for _, id := range order {
		e, t := now[id], c.last[id]
		if t == nil {
			t = &tracked{in: c.seriesOf(e.key)}
			c.last[id] = t
		}
		added, err := e.value.since(t.last)
		if !added.empty() {
			t.in.grew = at
		}
		if err == nil {
			err = t.in.total.add(added)
		}
		if err != nil {
			return err
		}
		t.last = e.value
		if t.in == c.rest {
			c.keys++
		}
	}
	return nil
}

// expire ends the series whose keys have been gone for long.
func (c *Collector) expire(now time.Time) {
	if c.metric.Expire == 0 {
		return
	}
	used := map[*series]bool{}
	for _, t := range c.last {
		used[t.in] = true
	}
	for id, s := range c.series {
		if !used[s] && now.Sub(s.grew) >= c.metric.Expire {
			delete(c.series, id)
			c.expired++
		}
	}
}

// takeGauges replaces all series by those of a map. Keys that had one before have one first.
func (c *Collector) takeGauges(now map[string]*entry, order []string) error {
	had := c.series
	c.series, c.keys = map[string]*series{}, 0
	for _, known := range []bool{true, false} {
		for _, id := range order {
			e := now[id]
			if (had[strings.Join(c.labels(e.key), "\xff")] != nil) != known {
				continue
			}
			s := c.seriesOf(e.key)
			if s == c.rest {
				c.keys++ // what the others are together means nothing
				continue
			}
			if err := s.total.add(e.value); err != nil {
				return err
			}
		}
	}
	c.rest = nil
	return nil
}

// merge returns the entries by their keys' texts, and these in the map's order. Keys with the same
// texts are one.
func merge(entries []entry) (by map[string]*entry, order []string, err error) {
	by = make(map[string]*entry, len(entries))
	for _, e := range entries {
		var id strings.Builder
		for _, part := range e.key {
			fmt.Fprintf(&id, "%d:%s", len(part), part)
		}
		known := by[id.String()]
		if known == nil {
			by[id.String()] = &e
			order = append(order, id.String())
			continue
		}
		var sum amount
		if err := sum.add(known.value); err != nil {
			return nil, nil, err
		}
		if err := sum.add(e.value); err != nil {
			return nil, nil, err
		}
		known.value = sum
	}
	return by, order, nil
}

// labels returns the values of the labels for a key.
func (c *Collector) labels(key []string) []string {
	out := make([]string, len(key))
	for i, part := range key {
		out[i] = labelValue(part, c.metric.MaxLabel)
	}
	return out
}

// seriesOf returns the series of a key, a new one as long as there may be more.
func (c *Collector) seriesOf(key []string) *series {
	labels := c.labels(key)
	id := strings.Join(labels, "\xff") // no byte of UTF-8
	if s := c.series[id]; s != nil {
		return s
	}
	others := slices.Repeat([]string{Other}, len(labels))
	// A key that is called like the others is one of them.
	if named := len(labels) > 0 && slices.Equal(labels, others); !named && len(c.series) < c.metric.MaxSeries {
		s := &series{labels: labels, grew: c.now()}
		c.series[id] = s
		return s
	}
	if c.rest == nil {
		c.rest = &series{labels: others}
	}
	return c.rest
}

var _ prometheus.Collector = (*Collector)(nil)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.desc, c.over, c.failing, c.expiring} {
		to <- d
	}
}

// Collect implements prometheus.Collector: it reads the map.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, m := range c.collect() {
		to <- m
	}
}

// collect reads the map and returns its metrics, so that whoever receives them slowly keeps nobody
// waiting.
func (c *Collector) collect() []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update()
	out := []prometheus.Metric{
		prometheus.MustNewConstMetric(c.over, prometheus.GaugeValue, float64(c.keys)),
		prometheus.MustNewConstMetric(c.failing, prometheus.CounterValue, float64(c.errs)),
	}
	if c.metric.Expire > 0 {
		out = append(out, prometheus.MustNewConstMetric(c.expiring, prometheus.CounterValue, float64(c.expired)))
	}
	if c.kind() == Gauge && c.err != nil {
		return out // nobody knows what they are now
	}
	for _, s := range c.series {
		out = append(out, c.export(s))
	}
	if c.rest != nil {
		out = append(out, c.export(c.rest))
	}
	return out
}

// export returns a series as a metric.
func (c *Collector) export(s *series) prometheus.Metric {
	scale := c.metric.Scale
	switch c.shape {
	case summary:
		return prometheus.MustNewConstSummary(c.desc, s.total.count, scaled(s.total.float(), scale), nil, s.labels...)
	case histogram:
		return &distributed{desc: c.desc, labels: s.labels, h: histogramOf(s.total.dist, scale, c.metric.Classic)}
	}
	kind := prometheus.CounterValue
	if c.kind() == Gauge {
		kind = prometheus.GaugeValue
	}
	return prometheus.MustNewConstMetric(c.desc, kind, scaled(s.total.float(), scale), s.labels...)
}

// scaled returns a number of the map in the metric's unit. One over an integer divides: 2047·1e-6 is
// not the number nearest to 0.002047, but 2047/1e6 is.
func scaled(v, scale float64) float64 {
	if inverse := math.Round(1 / scale); inverse > 1 && 1/inverse == scale {
		return v / inverse
	}
	return v * scale
}
