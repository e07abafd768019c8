package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/borescope/borescope/probe"
)

// everything are the patterns of all kinds of probes that are listed without naming a file.
var everything = []string{
	"hardware:", "software:", "tracepoint:*:", "rawtracepoint:", "iter:", "fentry:", "kprobe:",
}

// listMatches prints the probes that match a pattern. Without a kind, it is looked for in all.
func (o *options) listMatches(pattern string) error {
	patterns := []string{pattern}
	if !strings.Contains(pattern, ":") {
		patterns = nil
		for _, kind := range everything {
			patterns = append(patterns, kind+"*"+pattern+"*")
		}
		if pattern == "" || strings.Contains(pattern, "*") {
			for i, kind := range everything {
				patterns[i] = kind + max(pattern, "*")
			}
		}
	}
	env := probe.NewEnv(nil)
	var errs []error
	for _, p := range patterns {
		matches, end := probe.List(p, &probe.ListOptions{Env: env, Args: o.verbose})
		for m := range matches {
			if err := o.stdout.Text(listed(m)); err != nil {
				return err
			}
		}
		if err := end(); err != nil && len(patterns) == 1 {
			errs = append(errs, err)
		} else if unsupported := (*probe.UnsupportedError)(nil); err != nil && !errors.As(err, &unsupported) {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// listed returns the lines of a match: its name and, if they are known, its arguments, as bpftrace -lv
// has them.
func listed(m probe.Match) string { return m.String() + "\n" }

// listScript prints the probes of a script.
func (o *options) listScript() error {
	p, err := o.compile()
	if err != nil {
		return err
	}
	for _, name := range p.Probes() {
		if err := o.stdout.Text(name + "\n"); err != nil {
			return err
		}
	}
	return nil
}
