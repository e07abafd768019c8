package system

import (
	"errors"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/internal/limit"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Expand replaces attach points with wildcards by one point for each match. As in bpftrace it
// does that if the matches may have different arguments: tracepoints, raw tracepoints, fentry
// and fexit. A point does not change if it matches nothing, or if its matches cannot be
// listed on this machine.
//
// c is the script's configuration, as config.Read returns it; nil is bpftrace's default. If
// the script has more probes than c.MaxProbes, or generates more programs than c.MaxBPFProgs,
// Expand stops there: the error is a [syntax.Errors], and the file must not be used. Each list
// of names is read once for all scripts of the System.
//
// Call Expand between attach.Parse and types.Check. It changes the file.
func (s *System) Expand(f *syntax.File, c *config.Config) (warnings syntax.Errors, err error) {
	s.wanted, s.absent = nil, 0
	clear(s.files)
	x := &expansion{System: s, count: limit.New(c), matches: map[pattern][]name{}}
	if e := x.count.File(f, generates); e != nil {
		return nil, syntax.Errors{e} // before anything is listed
	}
	s.collect(f)
	for _, d := range f.Decls {
		p, ok := d.(*syntax.Probe)
		if !ok {
			continue
		}
		var points []*syntax.AttachPoint
		for _, a := range p.Points {
			var e *syntax.Error
			if points, e = x.append(points, a); e != nil {
				return nil, syntax.Errors{e}
			}
		}
		p.Points = points
		if usesArgs(p) {
			for _, a := range points {
				switch {
				case a.Provider == "tracepoint":
					s.wanted = append(s.wanted, name{a.Target, a.Func})
				case a.Provider == "uprobe" && !wild(a):
					s.files[a.Target] = append(s.files[a.Target], a)
				}
			}
		}
	}
	return nil, nil
}

// usesArgs reports whether an action uses args.
func usesArgs(p *syntax.Probe) bool {
	for n := range syntax.All(p) {
		if b, ok := n.(*syntax.Builtin); ok && b.Name == "args" {
			return true
		}
	}
	return false
}

// generates reports whether bpftrace generates a program for each match of an attach point.
func generates(a *syntax.AttachPoint) bool {
	switch a.Provider {
	case "tracepoint", "rawtracepoint", "fentry", "fexit":
		return wild(a)
	case "usdt":
		return wild(a) || a.Namespace == ""
	}
	return false
}

// mostMatching bounds the work of matching the wildcards of a script, about a nanosecond each.
// It allows all patterns for tracepoints that begin with a letter, 300 others, and dozens for
// kernel functions.
const mostMatching = 40_000_000

// expansion is one call of Expand.
type expansion struct {
	*System
	count   *limit.Counter
	matches map[pattern][]name
	work    int
}

// pattern is a pattern with wildcards, and the list in which it is looked up.
type pattern struct{ list, group, name string }

// append appends the matches of an attach point, or the point itself if it has none.
func (x *expansion) append(points []*syntax.AttachPoint, a *syntax.AttachPoint) (
	[]*syntax.AttachPoint, *syntax.Error,
) {
	if a.Provider == "usdt" || !generates(a) {
		return append(points, a), nil
	}
	found := x.match(a)
	if x.work > mostMatching {
		return nil, &syntax.Error{Loc: a.Loc, Msg: "the wildcards of the script have too many names " +
			"to match with this one: make them more specific, or fewer than " +
			strconv.Itoa(len(x.matches))}
	}
	if len(found) == 0 {
		return append(points, a), nil
	}
	for i, n := range found {
		if i > 0 { // the first is the point itself, which is counted
			if e := x.count.Add(a, true); e != nil {
				return nil, e
			}
		}
		one := *a
		set(&one, n)
		points = append(points, &one)
	}
	return points, nil
}

// set makes an attach point the one for a name.
func set(a *syntax.AttachPoint, n name) {
	var t probe.Target
	switch a.Provider {
	case "tracepoint":
		t = probe.Tracepoint{Group: n.group, Name: n.name}
	case "rawtracepoint":
		t = probe.RawTracepoint{Module: n.group, Name: n.name}
		n.group = a.Target
	case "fentry":
		t = probe.Fentry{Module: n.group, Symbol: n.name}
	case "fexit":
		t = probe.Fexit{Module: n.group, Symbol: n.name}
	}
	a.Target, a.Func, a.Text = n.group, n.name, t.String()
}

// match returns the names that an attach point's pattern matches. Equal patterns are matched
// once.
func (x *expansion) match(a *syntax.AttachPoint) []name {
	p := pattern{a.Provider, a.Target, a.Func}
	if p.list != "tracepoint" {
		p.group = module(p.group)
	}
	found, ok := x.matches[p]
	if ok {
		return found
	}
	switch p.list {
	case "tracepoint":
		found = x.among(x.tracepoints(), p)
	case "rawtracepoint":
		found = x.among(x.rawTracepoints(p.group), p)
	default:
		found = x.functions(p)
	}
	x.matches[p] = found
	return found
}

// among returns the names of a list that match.
func (x *expansion) among(list []name, p pattern) []name {
	var found []name
	group, names := glob.Compile(p.group), glob.Compile(p.name)
	inGroup := false
	for i, n := range list {
		if x.work++; x.work > mostMatching {
			break
		}
		if i == 0 || n.group != list[i-1].group { // the list is sorted
			inGroup = x.matchOne(&group, p.group, n.group)
		}
		if inGroup && x.matchOne(&names, p.name, n.name) {
			found = append(found, n)
		}
	}
	return found
}

// matchOne matches a name, and counts the work.
func (x *expansion) matchOne(g *glob.Pattern, pattern, name string) bool {
	if pattern == name || pattern == "*" {
		return true
	}
	if pattern != "" && name != "" && pattern[0] != name[0] && !glob.IsPattern(pattern[:1]) {
		return false
	}
	x.work += 16 + 2*len(name)
	if strings.ContainsAny(pattern, "?[") || strings.Count(pattern, "*") > 2 {
		x.work += len(pattern) * len(name) // the most that it can take
	}
	return g.Match(name)
}

// functions returns the kernel functions with trampolines that match, but no more than exceed
// the limit by one. The first is the point itself, which is counted.
func (x *expansion) functions(p pattern) []name {
	var t probe.Target = probe.Fentry{Module: p.group, Symbol: p.name}
	needs := feature.Fentry
	if p.list == "fexit" {
		t, needs = probe.Fexit{Module: p.group, Symbol: p.name}, feature.Fexit
	}
	if errors.Is(x.env.Supports(needs), errors.ErrUnsupported) {
		return nil // without reading the list
	}
	all, err := x.env.Traceable()
	if err != nil {
		return nil
	}
	const each = 16 // of matchOne, for most names and most patterns
	if x.work += each * len(all.Traceable); x.work > mostMatching {
		return nil
	}
	return names(t, x.env, 1+x.count.Left()+1)
}
