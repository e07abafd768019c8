package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// retry is how long a script that does not run waits until it is tried again: a file or module that it
// probes may be there then.
const retry = time.Minute

// service runs the scripts of a directory.
type service struct {
	dir      string
	budget   ir.Budget // of each script
	registry *prometheus.Registry

	mu    sync.Mutex // guards what follows
	units map[string]*unit
	err   error // of reading the directory
}

func newService(dir string, budget ir.Budget) (*service, error) {
	s := &service{dir: dir, budget: budget, registry: prometheus.NewRegistry(), units: map[string]*unit{}}
	return s, errors.Join(
		s.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		s.registry.Register(collectors.NewGoCollector()),
		s.registry.Register(&scriptsUp{s}),
	)
}

// reload reads the directory, and runs it as it is now. A script that is wrong leaves its earlier
// version running. all also tries those again that failed. It returns what went wrong that it did
// not say before.
func (s *service) reload(all bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts, failed, err := readScripts(s.dir)
	if err != nil {
		if s.err != nil && s.err.Error() == err.Error() {
			return nil
		}
		s.err = err
		return err
	}
	s.err = nil
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.units)) {
		if _, is := texts[name]; !is && failed[name] == nil {
			errs = append(errs, s.units[name].remove(s.registry))
			delete(s.units, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		u := s.unit(name)
		if u.err == nil || u.err.Error() != failed[name].Error() {
			errs = append(errs, failed[name])
		}
		u.err, u.text = failed[name], ""
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		u := s.unit(name)
		again := u.err != nil && (all || time.Since(u.tried) > retry)
		if u.text == texts[name] && !again {
			continue
		}
		before := u.err
		u.text, u.tried, u.err = texts[name], time.Now(), s.load(u, texts[name])
		if u.err != nil && !(again && before != nil && before.Error() == u.err.Error()) {
			errs = append(errs, u.err)
		}
	}
	return errors.Join(errs...)
}

func (s *service) unit(name string) *unit {
	if s.units[name] == nil {
		s.units[name] = &unit{name: name, collectors: map[string]*bpfprom.Collector{}}
	}
	return s.units[name]
}

// load makes a text the version of a script that runs.
func (s *service) load(u *unit, text string) (err error) {
	if u.versions == nil {
		if u.versions, err = bpf.NewHandover(); err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
	}
	next, err := start(u.name, text, s.budget, u.versions)
	if err != nil {
		return err
	}
	if err := s.free(u, next); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", u.name, err), next.stop())
	}
	if err := u.take(next, s.registry); err != nil {
		return fmt.Errorf("%s: %w", u.name, err)
	}
	return nil
}

// free returns an error if another script, or this program, has one of the metrics.
func (s *service) free(u *unit, next *running) error {
	for _, e := range next.exports {
		for _, own := range []string{"borescope_", "go_", "process_", "promhttp_"} {
			if strings.HasPrefix(e.metric.Name, own) {
				return fmt.Errorf("%s as %s: names that begin with %s are this program's", e.name, e.metric.Name, own)
			}
		}
		for _, other := range s.units {
			if other == u || other.running == nil {
				continue
			}
			for _, o := range other.running.exports {
				if o.metric.Name == e.metric.Name {
					return fmt.Errorf("%s as %s: it is a metric of %s", e.name, e.metric.Name, other.name)
				}
			}
		}
	}
	return nil
}

// close ends all scripts.
func (s *service) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, u := range s.units {
		errs = append(errs, u.remove(s.registry))
	}
	clear(s.units)
	return errors.Join(errs...)
}

// scriptsUp exports which scripts run.
type scriptsUp struct{ s *service }

var (
	upDesc = prometheus.NewDesc("borescope_script_up",
		"1 if the script runs as its file says, 0 if an earlier version or none does.", []string{"script"}, nil)
	reloadsDesc = prometheus.NewDesc("borescope_script_reloads_total",
		"Versions of the script that took over from an earlier one.", []string{"script"}, nil)
)

// Describe implements prometheus.Collector.
func (c *scriptsUp) Describe(to chan<- *prometheus.Desc) { to <- upDesc; to <- reloadsDesc }

// Collect implements prometheus.Collector.
func (c *scriptsUp) Collect(to chan<- prometheus.Metric) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for name, u := range c.s.units {
		up := 0.0
		if u.err == nil && u.running != nil && !u.running.ended() {
			up = 1
		}
		to <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, name)
		to <- prometheus.MustNewConstMetric(reloadsDesc, prometheus.CounterValue, float64(u.reloads), name)
	}
}
