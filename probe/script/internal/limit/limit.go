// Package limit counts the probes of a script, and the programs that are generated for them,
// up to the limits of its configuration. It counts as bpftrace does: an attach point is a
// probe, also if it is one of the matches of wildcards. One that has several functions but
// only one program, as kprobe:* has, is one probe. Programs are those that wildcards and the
// builtin probe generate: one for each match, and one for each attach point of a probe whose
// action uses the builtin.
package limit

import (
	"fmt"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/syntax"
)

// mostProbes is the limit above which no configuration goes: so many attach points are too
// many for what is done with each.
const mostProbes = 25_000

// Counter is the number of probes and programs so far. It must be used by one goroutine at a
// time.
type Counter struct {
	probes, programs         uint64
	mostProbes, mostPrograms uint64
}

// New returns a Counter for a script's configuration. Nil: bpftrace's defaults.
func New(c *config.Config) *Counter {
	if c == nil {
		c = config.Default()
	}
	return &Counter{mostProbes: c.MaxProbes, mostPrograms: c.MaxBPFProgs}
}

// File counts the attach points in a file, of which each is one probe so far. It returns the
// error for the first one that exceeds a limit, else nil. generates reports whether an attach
// point generates a program for each match.
func (c *Counter) File(f *syntax.File, generates func(*syntax.AttachPoint) bool) *syntax.Error {
	for _, d := range f.Decls {
		p, ok := d.(*syntax.Probe)
		if !ok {
			continue
		}
		named := NamesProbe(p)
		for _, a := range p.Points {
			if e := c.Add(a, named || generates(a)); e != nil {
				return e
			}
		}
	}
	return nil
}

// Add counts a probe, and a program if the probe generates one. It returns the error for a
// probe that exceeds a limit, else nil.
func (c *Counter) Add(a *syntax.AttachPoint, program bool) *syntax.Error {
	if program {
		c.programs++
	}
	c.probes++
	switch {
	case c.programs > c.mostPrograms:
		return refusal(a, fmt.Sprintf("Your program is trying to generate more than %d BPF programs, "+
			"which exceeds the current limit of %[1]d", c.mostPrograms),
			"You can increase the limit through the BPFTRACE_MAX_BPF_PROGS environment variable.",
			c.found("max_bpf_progs", c.programs))
	case c.probes > c.mostProbes:
		return refusal(a, fmt.Sprintf("Can't attach to %d probes because it exceeds the current limit "+
			"of %d probes.", c.probes, c.mostProbes),
			"You can increase the limit through the BPFTRACE_MAX_PROBES environment variable, but BE "+
				"CAREFUL since a high number of probes attached can cause your system to crash.",
			c.found("max_probes", c.probes))
	case c.probes > mostProbes:
		return refusal(a, fmt.Sprintf("the script has more than %d probes: make it shorter", mostProbes))
	}
	return nil
}

// Left returns the number of probes with a program each that can still be added.
func (c *Counter) Left() int {
	left := func(most, n uint64) uint64 { return most - min(n, most) }
	return int(min(left(mostProbes, c.probes), left(c.mostProbes, c.probes),
		left(c.mostPrograms, c.programs)))
}

// found returns the hint that says how many were found until the count stopped, and how a
// script itself sets the limit.
func (c *Counter) found(option string, n uint64) string {
	return fmt.Sprintf("%d were found so far: the count stopped here. In a script the limit is "+
		"config = { %s = N }.", n, option)
}

func refusal(a *syntax.AttachPoint, msg string, hints ...string) *syntax.Error {
	return &syntax.Error{Loc: a.Loc, Msg: msg, Hints: hints}
}

// NameOf returns the name of what may be a builtin, "" for other nodes.
func NameOf(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.Builtin:
		return n.Name
	case *syntax.Identifier:
		return n.Name
	case *syntax.Call:
		return n.Name
	}
	return ""
}

// NamesProbe reports whether an action uses the builtin probe, whose value is another one at
// each attach point.
func NamesProbe(p *syntax.Probe) bool {
	for n := range syntax.All(p) {
		if name := NameOf(n); name == "probe" || name == "__builtin_probe" {
			return true
		}
	}
	return false
}
