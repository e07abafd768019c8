package system

import (
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Expand replaces attach points with wildcards by one point for each match. As in bpftrace it
// does that if the matches may have different arguments: tracepoints, raw tracepoints, fentry
// and fexit. A point does not change if it matches nothing, or if its matches cannot be
// listed on this machine. Call Expand between attach.Parse and types.Check. It changes the
// file.
func (s *System) Expand(f *syntax.File) {
	s.collect(f)
	for _, d := range f.Decls {
		p, ok := d.(*syntax.Probe)
		if !ok {
			continue
		}
		var points []*syntax.AttachPoint
		for _, a := range p.Points {
			points = append(points, s.expand(a)...)
		}
		p.Points = points
	}
}

// expand returns the matches of an attach point, or the point itself.
func (s *System) expand(a *syntax.AttachPoint) []*syntax.AttachPoint {
	self := []*syntax.AttachPoint{a}
	if !wild(a) {
		return self
	}
	var t probe.Target
	switch a.Provider {
	case "tracepoint":
		t = probe.Tracepoint{Group: a.Target, Name: a.Func}
	case "rawtracepoint":
		t = probe.RawTracepoint{Module: module(a.Target), Name: a.Func}
	case "fentry":
		t = probe.Fentry{Module: module(a.Target), Symbol: a.Func}
	case "fexit":
		t = probe.Fexit{Module: module(a.Target), Symbol: a.Func}
	default:
		return self
	}
	var list []*syntax.AttachPoint
	matches, _ := probe.List(t.String(), &probe.ListOptions{Env: s.env})
	for m := range matches {
		one := syntax.Clone(a)
		one.Text = m.Target.String()
		switch t := m.Target.(type) {
		case probe.Tracepoint:
			one.Target, one.Func = t.Group, t.Name
		case probe.RawTracepoint:
			one.Func = t.Name
		case probe.Fentry:
			one.Target, one.Func = t.Module, t.Symbol
		case probe.Fexit:
			one.Target, one.Func = t.Module, t.Symbol
		default:
			continue
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return self
	}
	return list
}
