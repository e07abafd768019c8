package bpfprom

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/borescope/borescope/hist"
)

// Kind is what a map's numbers are.
type Kind uint8

// The kinds. Averages and histograms are what they are whatever the kind.
const (
	// Auto is a counter if the metric's name ends in _total, else a gauge.
	Auto Kind = iota
	// Counter is a number that only grows. A smaller one means that the map was cleared.
	Counter
	// Gauge is a number as it is in the map now.
	Gauge
)

// Other is the value of all labels of the series that has the keys beyond Metric.MaxSeries.
const Other = "[other]"

const (
	defaultSeries = 1000
	defaultLabel  = 128
)

// Metric says how a map is exported. All fields but Name have a default.
type Metric struct {
	// Name is the metric's name, such as "vfs_reads_total".
	Name string
	// Help is the text that explains it.
	Help string
	// Kind is what numbers are.
	Kind Kind
	// Labels are the names of the parts of a key, in their order: one for each exported field of
	// a struct, or for each element of a script's tuple. Nil: the fields' names in lower case
	// ("RemotePort" is remote_port), or "key".
	Labels []string
	// Const are labels that all series have.
	Const prometheus.Labels
	// Scale is the size of the map's unit in the metric's: 1e-9 for nanoseconds in seconds. 0 is 1.
	Scale float64
	// Classic adds the buckets of a classic histogram to the native one: exact ones, of any Scale.
	// Histograms that cannot be native have them in any case: linear ones, those with negative
	// values, and those with a Scale that is no power of two.
	Classic bool
	// Buckets is an empty histogram with the buckets that a table of []hist.Bucket has. Nil:
	// powers of two.
	Buckets hist.Distribution // a *hist.Log2 or *hist.Linear
	// MaxSeries bounds the metric's series; 0 is 1,000.
	MaxSeries int
	// Expire ends series of counters, averages and histograms whose keys are not in the map any more,
	// once nothing was added to them for that long: others have room then. To Prometheus such a series
	// ends, and one whose key comes back begins anew at 0, which rate and increase understand; sums of
	// the totals fall. 0 ends none, as long as the collector lives. Gauges end with their keys.
	Expire time.Duration
	// MaxLabel bounds the value of a label, in bytes; 0 is 128.
	MaxLabel int

	buckets distribution // Buckets
}

// Check reports what is wrong with a metric, whatever its map.
func (m Metric) Check() error { return m.check() }

// check fills in the defaults, and reports what is wrong.
func (m *Metric) check() error {
	if !model.LegacyValidation.IsValidMetricName(m.Name) {
		return fmt.Errorf("%q is not the name of a metric", m.Name)
	}
	if m.Kind > Gauge {
		return fmt.Errorf("%s: unknown kind %d", m.Name, m.Kind)
	}
	names := slices.Concat(m.Labels, slices.Collect(maps.Keys(m.Const)))
	for i, l := range names {
		switch {
		case !model.LegacyValidation.IsValidLabelName(l) || strings.HasPrefix(l, "__") || l == "le" || l == "quantile":
			return fmt.Errorf("%s: %q is not the name of a label", m.Name, l)
		case slices.Contains(names[:i], l):
			return fmt.Errorf("%s: label %s is given twice", m.Name, l)
		}
	}
	if m.Scale == 0 {
		m.Scale = 1
	}
	if m.Scale < 0 || math.IsInf(m.Scale, 0) || math.IsNaN(m.Scale) {
		return fmt.Errorf("%s: scale %v", m.Name, m.Scale)
	}
	if m.MaxSeries < 0 || m.MaxLabel < 0 || m.Expire < 0 {
		return fmt.Errorf("%s: a bound is negative", m.Name)
	}
	if m.MaxSeries == 0 {
		m.MaxSeries = defaultSeries
	}
	if m.MaxLabel == 0 {
		m.MaxLabel = defaultLabel
	}
	switch d := m.Buckets.(type) {
	case nil:
		m.buckets = new(hist.Log2)
	case *hist.Log2:
		m.buckets = d
	case *hist.Linear:
		m.buckets = d
	default:
		return fmt.Errorf("%s: buckets of a %T", m.Name, d)
	}
	return nil
}

// help returns the help text, with what must be known of the sums of histograms.
func (m *Metric) help(value reflect.Type) string {
	if !isHistogram(value) {
		return m.Help
	}
	return strings.TrimSpace(m.Help + " The sum is an estimate, of the middles of the buckets.")
}
