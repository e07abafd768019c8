package system

import (
	"errors"
	"io/fs"
	"slices"
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
// and fexit; if the action uses the builtin probe, also kprobes and uprobes, since each match
// has a name of its own. A point does not change if its matches cannot be listed on this
// machine.
//
// Points that match nothing are dropped, and so are tracepoints and functions, of the kernel and
// of user files, that the machine does not have, as far as it can be asked.
// c.MissingProbes says what else happens then: the script is refused, there is a warning, or
// nothing. A probe without points is an error or is dropped.
//
// c is the script's configuration, as config.Read returns it; nil is bpftrace's default. If
// the script has more probes than c.MaxProbes, or generates more programs than c.MaxBPFProgs,
// Expand stops there. The error is a [syntax.Errors], and the file must not be used then. Each
// list of names is read once for all scripts of the System.
//
// Call Expand between attach.Parse and types.Check. It changes the file.
func (s *System) Expand(f *syntax.File, c *config.Config) (warnings syntax.Errors, err error) {
	if c == nil {
		c = config.Default()
	}
	s.wanted, s.absent = nil, 0
	clear(s.files)
	x := &expansion{
		System: s, count: limit.New(c), matches: map[pattern]found{}, missing: c.MissingProbes,
		file: f, absentIn: map[string]map[string]bool{},
	}
	if e := x.count.File(f, generates); e != nil {
		return nil, syntax.Errors{e} // before anything is listed
	}
	s.collect(f)
	s.collectTypes(f)
	for _, d := range f.Decls {
		if p, ok := d.(*syntax.Probe); ok {
			if e := x.probe(p); e != nil {
				return nil, syntax.Errors{e}
			}
		}
	}
	if x.said.Err() == nil {
		x.prune(f)
	}
	if err := x.said.Err(); err != nil {
		return nil, err
	}
	s.reach(f)
	return x.said, nil
}

// prune drops the probes without points.
func (x *expansion) prune(f *syntax.File) {
	f.Decls = slices.DeleteFunc(f.Decls, func(d syntax.Decl) bool {
		p, ok := d.(*syntax.Probe)
		if !ok || len(p.Points) > 0 {
			return false
		}
		const none = "Probe has no valid attach points. "
		switch x.missing {
		case "error":
			x.say(p.Loc, syntax.SeverityError, none+"If this is expected, set the 'missing_probes' "+
				"config variable to 'warn'.")
		case "warn":
			x.say(p.Loc, syntax.SeverityWarning, none+"It is being removed which may cause issues "+
				"with program behavior.")
		}
		return true
	})
}

// probe expands the points of a probe.
func (x *expansion) probe(p *syntax.Probe) *syntax.Error {
	named := limit.NamesProbe(p)
	var points []*syntax.AttachPoint
	for _, a := range p.Points {
		var e *syntax.Error
		if points, e = x.append(points, a, named); e != nil {
			return e
		}
	}
	p.Points = points
	if !usesArgs(p) {
		return nil
	}
	for _, a := range points {
		switch {
		case a.Provider == "tracepoint":
			x.wanted = append(x.wanted, name{group: a.Target, name: a.Func})
		case a.Provider == "uprobe" && !wild(a):
			x.files[a.Target] = append(x.files[a.Target], a)
		}
	}
	return nil
}

// mostErrors is the number of missing probes that are reported.
const mostErrors = 100

func (x *expansion) say(l syntax.Loc, s syntax.Severity, msg string) {
	if len(x.said) < mostErrors {
		x.said = append(x.said, &syntax.Error{Loc: l, Severity: s, Msg: msg})
	}
}

// kept warns of a kprobe on a function that the machine does not have, and reports whether the point
// is kept.
func (x *expansion) kept(a *syntax.AttachPoint) bool {
	if !x.loaded(a.Target) {
		x.say(a.Loc, syntax.SeverityError, "specified module "+a.Target+" in probe "+a.Provider+":"+a.Target+
			":"+a.Func+" is not loaded.")
		return false
	}
	if x.missing != "ignore" {
		x.say(a.Loc, syntax.SeverityWarning, a.Func+" is not traceable (either non-existing, inlined, or "+
			"marked as \"notrace\"); attaching to it will likely fail")
	}
	return x.o.Unsafe
}

// absentPoint reports a point without wildcards that the machine does not have.
func (x *expansion) absentPoint(a *syntax.AttachPoint) {
	msg := "No matches for " + a.Provider + " "
	if a.Target != "" {
		msg += a.Target + ":"
	}
	switch msg += a.Func; x.missing {
	case "error":
		x.say(a.Loc, syntax.SeverityError, msg+".")
	case "warn":
		x.say(a.Loc, syntax.SeverityWarning, msg+". Skipping.")
	}
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

// mostListed is the number of different patterns of kprobes and uprobes that are listed, each of
// which reads the symbols of the kernel or of files: milliseconds.
const mostListed = 40

// expansion is one call of Expand.
type expansion struct {
	*System
	count   *limit.Counter
	matches map[pattern]found
	work    int
	file    *syntax.File

	absentIn map[string]map[string]bool // attach points by user file, by key
	patterns int                        // in user files
	modules  map[string]bool            // that have functions, once they were looked for
	missing  string                     // what happens to missing probes: error, warn, ignore
	said     syntax.Errors
}

// pattern is a pattern with wildcards, and the list in which it is looked up.
type pattern struct{ list, group, name string }

// found are the matches of a pattern. They are not known if they could not be listed.
type found struct {
	names []name
	known bool
}

// append appends the matches of an attach point, or the point itself if it has no wildcards or
// if they cannot be listed. named is whether each match has a name of its own.
func (x *expansion) append(points []*syntax.AttachPoint, a *syntax.AttachPoint, named bool) (
	[]*syntax.AttachPoint, *syntax.Error,
) {
	switch {
	case a.Provider == "usdt" && !(named && generates(a)):
		return append(points, a), nil // of several probes that have as many arguments, one program
	case !generates(a) && !(named && wild(a) && byFunction(a)):
		if x.lacks(a) {
			// In any module: bpftrace takes it for a wildcard, too.
			if wild(a) || glob.IsPattern(a.Target) {
				return points, nil
			}
			if isKprobe(a) && x.kept(a) {
				return append(points, a), nil
			}
			x.absentPoint(a)
			return points, nil
		}
		return append(points, a), nil
	}
	found := x.match(a)
	if x.work > mostMatching {
		return nil, &syntax.Error{Loc: a.Loc, Msg: "the wildcards of the script have too many names " +
			"to match with this one: make them more specific, or fewer than " +
			strconv.Itoa(len(x.matches))}
	}
	if !found.known {
		return append(points, a), nil
	}
	for i, n := range found.names {
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

// lacks reports whether the machine does not have an event or a function. Events of modules may be
// missing in the list of raw tracepoints.
func (x *expansion) lacks(a *syntax.AttachPoint) bool {
	n := name{group: group(a), name: a.Func}
	switch a.Provider {
	case "tracepoint":
		return !x.listed(a.Provider, n)
	case "rawtracepoint":
		return !x.listed(a.Provider, n) && x.planned(a, x.target(a, n)) == nil
	case "kprobe", "kretprobe":
		return x.lacksFunction(n)
	case "fentry", "fexit":
		return a.Target != "bpf" && x.lacksFunction(n)
	case "uprobe", "uretprobe":
		return x.lacksUser(a)
	}
	return false
}

// lacksFunction reports whether the kernel has no function of a name or pattern. It has if its
// functions cannot be listed.
func (x *expansion) lacksFunction(n name) bool {
	switch {
	case n.name == "": // by address
		return false
	case glob.IsPattern(n.name) || glob.IsPattern(n.group):
		all, err := x.env.Traceable()
		return err == nil && len(all.Functions) > 0 && len(all.Match(n.group, n.name)) == 0
	}
	if x.o.Traceable {
		all, err := x.env.Traceable()
		return err == nil && len(all.Match(n.group, n.name)) == 0
	}
	found, err := x.env.KernelSymbols(n.group, n.name)
	if err != nil || len(found) > 0 {
		return false
	}
	if all, err := x.env.Functions(); err == nil {
		for range all.All() {
			return true
		}
	}
	return false
}

// loaded reports whether a module is in the kernel, "" and vmlinux, which is the kernel itself, too.
// It is if that cannot be told.
func (x *expansion) loaded(module string) bool {
	if module == "" || module == "vmlinux" {
		return true
	}
	if x.modules == nil {
		all, err := x.env.Functions()
		if err != nil {
			return true
		}
		x.modules = map[string]bool{}
		for f := range all.All() {
			x.modules[f.Module] = true
		}
	}
	return x.modules[module]
}

// mostUser is the number of user files, and of patterns in them, that are looked into: each reads a
// file's symbols. Of the others it is said when the script is compiled.
const mostUser = 40

// lacksUser reports whether a file, or its function, does not exist. A point without a file is in
// a process that is given later.
func (x *expansion) lacksUser(a *syntax.AttachPoint) bool {
	if a.Target == "" || a.Func == "" {
		return false
	}
	if abs, ok := strings.CutPrefix(a.Target, "/"); ok && x.o.PID == 0 && !glob.IsPattern(a.Target) && fs.ValidPath(abs) {
		if _, err := fs.Stat(x.env.Root(), abs); errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	if !wild(a) {
		absent, known := x.absentIn[a.Target]
		if !known && len(x.absentIn) < mostUser {
			absent = x.absentFunctions(a.Target)
			x.absentIn[a.Target] = absent
		}
		return absent[key(a)]
	}
	if x.patterns++; x.patterns > mostUser {
		return false
	}
	matches, failed := probe.List(x.target(a, name{group: a.Target, name: a.Func}).String(), &probe.ListOptions{Env: x.env})
	for range matches {
		return false
	}
	err := failed()
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// absentFunctions returns which of the script's attach points in a file are for a function that it
// does not have. It reads the file once.
func (x *expansion) absentFunctions(file string) map[string]bool {
	absent := map[string]bool{}
	var points []*syntax.AttachPoint
	var targets []probe.Target
	for n := range syntax.All(x.file) {
		a, ok := n.(*syntax.AttachPoint)
		if !ok || a.Target != file || a.Func == "" || wild(a) || absent[key(a)] {
			continue
		}
		if t := x.target(a, name{group: a.Target, name: a.Func}); t != nil {
			absent[key(a)] = true
			points, targets = append(points, a), append(targets, t)
		}
	}
	plan, err := probe.Resolve(x.env, targets, &probe.Options{NoTypes: true, Missing: probe.MissingIgnore})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // something else is wrong with it, which is said when the script is compiled
	}
	if err == nil {
		for i := range plan.Programs {
			delete(absent, key(points[plan.Programs[i].Group]))
		}
	}
	return absent
}

// isKprobe reports whether a point is a kprobe, at the start or the end of a function.
func isKprobe(a *syntax.AttachPoint) bool { return a.Provider == "kprobe" || a.Provider == "kretprobe" }

// byFunction reports whether a point with wildcards is one program for all matching functions,
// unless each needs its own.
func byFunction(a *syntax.AttachPoint) bool {
	switch a.Provider {
	case "kprobe", "kretprobe", "uprobe", "uretprobe":
		return true
	}
	return false
}

// group returns the group of an event's name.
func group(a *syntax.AttachPoint) string {
	if a.Provider == "tracepoint" {
		return a.Target
	}
	return module(a.Target)
}

// target returns a point's target in package probe, with a name in place of its own; a user probe is in
// the process with the number pid, or in all.
func target(a *syntax.AttachPoint, n name, pid int) probe.Target {
	switch a.Provider {
	case "tracepoint":
		return probe.Tracepoint{Group: n.group, Name: n.name}
	case "rawtracepoint":
		return probe.RawTracepoint{Module: n.group, Name: n.name}
	case "fentry":
		return probe.Fentry{Module: n.group, Symbol: n.name}
	case "fexit":
		return probe.Fexit{Module: n.group, Symbol: n.name}
	case "kprobe":
		return probe.Kprobe{Module: n.group, Symbol: n.name}
	case "kretprobe":
		return probe.Kretprobe{Module: n.group, Symbol: n.name}
	case "uprobe":
		return probe.Uprobe{Path: n.group, Symbol: n.name, Lang: a.Lang, PID: pid}
	case "uretprobe":
		return probe.Uretprobe{Path: n.group, Symbol: n.name, Lang: a.Lang, PID: pid}
	case "usdt":
		return probe.USDT{Path: n.group, Provider: n.provider, Name: n.name, PID: pid}
	}
	return nil
}

// target is the function target for probes in the process, if there is one.
func (s *System) target(a *syntax.AttachPoint, n name) probe.Target { return target(a, n, s.o.PID) }

// set makes an attach point the one for a name.
func set(a *syntax.AttachPoint, n name) {
	t := target(a, n, 0)
	if a.Provider == "rawtracepoint" {
		n.group = a.Target
	}
	a.Target, a.Namespace, a.Func, a.Text = n.group, n.provider, n.name, t.String()
}

// match returns the names that an attach point's pattern matches. Equal patterns are matched
// once.
func (x *expansion) match(a *syntax.AttachPoint) found {
	p := pattern{a.Provider + ":" + a.Lang + a.Namespace, a.Target, a.Func}
	switch a.Provider {
	case "rawtracepoint", "fentry", "fexit", "kprobe", "kretprobe":
		p.group = module(p.group)
	}
	m, ok := x.matches[p]
	if ok {
		return m
	}
	switch a.Provider {
	case "tracepoint":
		m = x.among(x.tracepoints(), p)
	case "rawtracepoint":
		m = x.among(x.rawTracepoints(p.group), p)
	case "fentry", "fexit":
		m = x.functions(a, p)
	default:
		if x.work += mostMatching / mostListed; x.work > mostMatching {
			return m
		}
		if m.names = names(x.target(a, name{p.group, a.Namespace, p.name}), x.env, 1+x.count.Left()+1); len(m.names) > 0 {
			m.known = true
		}
	}
	x.matches[p] = m
	return m
}

// among returns the names of a list that match. Nothing is known of an empty list.
func (x *expansion) among(list []name, p pattern) found {
	m := found{known: len(list) > 0}
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
			m.names = append(m.names, n)
		}
	}
	return m
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
// the limit by one. The first is the point itself, which is counted. If the machine does not
// list those that can be traced, they are the functions that its types have: a script can be
// typed there, too.
func (x *expansion) functions(a *syntax.AttachPoint, p pattern) found {
	needs := feature.Fentry
	if a.Provider == "fexit" {
		needs = feature.Fexit
	}
	most := 1 + x.count.Left() + 1
	const each = 16 // of matchOne, for most names and most patterns
	if !errors.Is(x.env.Supports(needs), errors.ErrUnsupported) {
		if all, err := x.env.Traceable(); err == nil {
			if x.work += each * len(all.Functions); x.work > mostMatching {
				return found{}
			}
			list := names(x.target(a, name{group: p.group, name: p.name}), x.env, most)
			return found{list, len(list) > 0 || len(x.prototyped()) > 0}
		}
	}
	if p.group != "" {
		return found{}
	}
	all := x.prototyped()
	if x.work += each * len(all); x.work > mostMatching {
		return found{}
	}
	m := x.among(all, pattern{p.list, "", p.name})
	m.names = m.names[:min(most, len(m.names))]
	return m
}
