package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script"
)

// unit is a script of the directory, in its versions one after the other.
type unit struct {
	name string
	// Of the last text that was tried: why it does not run, nil if it does, and when.
	text  string
	err   error
	tried time.Time

	versions   *bpf.Handover // nil if none was ever tried
	running    *running      // nil if no version ever ran
	collectors map[string]*bpfprom.Collector
	losses     *bpfprom.Losses
	reloads    int
}

// running is a version of a script that runs, or has ended by itself.
type running struct {
	session *script.Session
	exports []exported
	budget  ir.Budget
	probes  []string
	began   time.Time
	cancel  context.CancelFunc
	done    chan struct{} // is closed when the script has ended
	err     error         // of the script, once done is closed
}

// ended reports whether a script has ended by itself.
func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// start attaches a version of a script, whose probes do nothing before its TakeOver.
func start(name, text string, most ir.Budget, versions *bpf.Handover) (r *running, err error) {
	h, err := readHead(name, text)
	if err != nil {
		return nil, err
	}
	budget := within(h.budget, most)
	p, err := script.Compile(name, text, &script.Options{Budget: budget})
	if err != nil {
		return nil, err
	}
	r = &running{budget: budget, probes: p.Probes(), began: time.Now(), done: make(chan struct{})}
	if r.exports, err = exports(name, text, p.Types(), h); err != nil {
		return nil, err
	}
	for i := range r.exports {
		e := &r.exports[i]
		for _, m := range p.IR().Maps {
			if scriptName(m.Name) == e.name {
				e.buckets = [...]int64{int64(m.Bits), m.Min, m.Max, m.Step}
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if r.session, err = script.Attach(ctx, p, &script.AttachOptions{Handover: versions}); err != nil {
		cancel()
		return nil, err
	}
	r.cancel = cancel
	go func() {
		defer close(r.done)
		_, r.err = r.session.Wait()
	}()
	return r, nil
}

// stats returns what a version costs and has lost, with the maps' names as the script has them.
func (r *running) stats() (st bpf.Stats, lost uint64, err error) {
	st, lost, err = r.session.Stats()
	for i := range st.Maps {
		st.Maps[i].Name = scriptName(st.Maps[i].Name)
	}
	return st, lost, err
}

// scriptName returns the name that a script has for a map of its program.
func scriptName(name string) string {
	if rest, ok := strings.CutPrefix(name, "AT_"); ok {
		return "@" + rest
	}
	return name
}

// stop ends a version of a script and frees it.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.session.Close()
}

// take makes a new version count in the place of the one that runs, whose counts stay.
func (u *unit) take(next *running, registry *prometheus.Registry) error {
	if err := next.session.TakeOver(); err != nil {
		return errors.Join(err, next.stop())
	}
	var errs []error
	old := u.running
	u.running = next
	if old != nil {
		u.reloads++
		errs = append(errs, u.resume(old, next, registry))
	}
	for i := range next.exports {
		errs = append(errs, u.export(&next.exports[i], registry))
	}
	if u.losses == nil {
		u.losses = bpfprom.NewLosses(u.name, next.stats)
		errs = append(errs, registry.Register(u.losses))
	} else {
		errs = append(errs, u.losses.Continue(next.stats))
	}
	if old != nil {
		errs = append(errs, old.stop())
	}
	return errors.Join(errs...)
}

// resume gives the collectors of the earlier version the maps of the next one, and removes those that
// it has no equal metric for.
func (u *unit) resume(old, next *running, registry *prometheus.Registry) error {
	var errs []error
	for i := range old.exports {
		e := &old.exports[i]
		c := u.collectors[e.name]
		if c == nil {
			continue
		}
		if next.has(e) {
			_, err := e.collect(next.session, c)
			errs = append(errs, err)
			continue
		}
		registry.Unregister(c)
		delete(u.collectors, e.name)
	}
	return errors.Join(errs...)
}

// has reports whether a version has the same metric.
func (r *running) has(e *exported) bool {
	for i := range r.exports {
		if r.exports[i].equal(e) {
			return true
		}
	}
	return false
}

// export registers a metric that no collector has yet.
func (u *unit) export(e *exported, registry *prometheus.Registry) error {
	if u.collectors[e.name] != nil {
		return nil
	}
	c, err := e.collect(u.running.session, nil)
	if err != nil {
		return err
	}
	if err := registry.Register(c); err != nil {
		return fmt.Errorf("%s as %s: %w", e.name, e.metric.Name, err)
	}
	u.collectors[e.name] = c
	return nil
}

// remove ends a script whose file is gone, with its metrics.
func (u *unit) remove(registry *prometheus.Registry) error {
	for _, c := range u.collectors {
		registry.Unregister(c)
	}
	if u.losses != nil {
		registry.Unregister(u.losses)
	}
	var err error
	if u.running != nil {
		err = u.running.stop()
	}
	return errors.Join(err, u.versions.Close())
}
