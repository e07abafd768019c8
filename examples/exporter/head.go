package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/probe/ir"
)

// head is what the comments at the head of a script say: which of its maps are metrics, and what it may
// cost.
//
//	// metric @usecs name=runq_latency_seconds scale=1e-6 labels=cpu classic: Time that tasks wait for a CPU.
//	// budget cpu=2% events=100 memory=16M
type head struct {
	metrics []declared
	budget  ir.Budget
}

// declared is a line that makes a map a metric.
type declared struct {
	where  string // file:line
	name   string // of the map
	metric bpfprom.Metric
}

// readHead reads the lines of a script up to the first that is neither empty nor a comment.
func readHead(file, text string) (*head, error) {
	h := &head{}
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		comment, ok := strings.CutPrefix(line, "//")
		if !ok && line != "" && !strings.HasPrefix(line, "#!") {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(comment), " ")
		where := fmt.Sprintf("%s:%d", file, i+1)
		var err error
		switch word {
		case "metric":
			err = h.readMetric(where, rest)
		case "budget":
			err = h.readBudget(rest)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", where, word, err))
		}
	}
	return h, errors.Join(errs...)
}

// readMetric reads "@map name=… …: Help."
func (h *head) readMetric(where, text string) error {
	// The help follows the first colon before a blank or the end: a metric's name may have colons.
	options, help, found := strings.Cut(text+" ", ": ")
	if !found {
		return errors.New(`no help text behind ": "`)
	}
	words := strings.Fields(options)
	if len(words) == 0 || !strings.HasPrefix(words[0], "@") {
		return errors.New("it names no map")
	}
	d := declared{where: where, name: words[0], metric: bpfprom.Metric{Help: strings.TrimSpace(help)}}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if err := d.set(key, value); err != nil {
			return err
		}
	}
	for _, other := range h.metrics {
		if other.name == d.name {
			return fmt.Errorf("%s is one already", d.name)
		}
	}
	h.metrics = append(h.metrics, d)
	return nil
}

// set sets one option of a metric.
func (d *declared) set(key, value string) (err error) {
	m := &d.metric
	switch key {
	case "name":
		m.Name = value
	case "labels":
		m.Labels = strings.Split(value, ",")
	case "type":
		kind, ok := map[string]bpfprom.Kind{"counter": bpfprom.Counter, "gauge": bpfprom.Gauge}[value]
		if m.Kind = kind; !ok {
			err = fmt.Errorf("type %q is neither counter nor gauge", value)
		}
	case "scale":
		if m.Scale, err = strconv.ParseFloat(value, 64); err == nil && m.Scale <= 0 {
			err = fmt.Errorf("scale %s is not positive", value)
		}
	case "max":
		if m.MaxSeries, err = strconv.Atoi(value); err == nil && m.MaxSeries < 1 {
			err = fmt.Errorf("max %s is not a number of series", value)
		}
	case "expire":
		if m.Expire, err = time.ParseDuration(value); err == nil && m.Expire <= 0 {
			err = fmt.Errorf("expire %s is not a positive duration", value)
		}
	case "classic":
		m.Classic = true
	default:
		err = fmt.Errorf("unknown option %q: want name, labels, type, scale, max, expire, classic", key)
	}
	return err
}

// readBudget reads "cpu=2% events=100 memory=16M".
func (h *head) readBudget(text string) (err error) {
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "cpu":
			h.budget.CPUPercent, err = percent(value)
		case "events":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 32)
			h.budget.EventsPerSecond = uint32(n)
		case "memory":
			h.budget.MapBytes, err = size(value)
		default:
			err = fmt.Errorf("unknown option %q: want cpu, events, memory", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// percent reads a share of a CPU: "2%" or "2".
func percent(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err == nil && !(v >= 0 && v <= 100) {
		err = fmt.Errorf("%s is not a share of a CPU", s)
	}
	return v, err
}

// size reads a number of bytes: "16M", "512K", "4096".
func size(s string) (int64, error) {
	shift := map[byte]int{'K': 10, 'M': 20, 'G': 30}
	digits, by := s, 0
	if n := len(s); n > 0 && shift[s[n-1]] > 0 {
		digits, by = s[:n-1], shift[s[n-1]]
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v < 0 || v > math.MaxInt64>>by {
		return 0, fmt.Errorf("%q is not a number of bytes", s)
	}
	return v << by, nil
}

// within returns a budget with the tighter of two bounds each; 0 is none.
func within(a, b ir.Budget) ir.Budget {
	return ir.Budget{
		CPUPercent:      tighter(a.CPUPercent, b.CPUPercent),
		EventsPerSecond: tighter(a.EventsPerSecond, b.EventsPerSecond),
		MapBytes:        tighter(a.MapBytes, b.MapBytes),
	}
}

func tighter[T float64 | uint32 | int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
