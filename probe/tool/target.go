package tool

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
)

// ParseTarget parses a target in bpftrace's syntax (probe.ParseTarget). A name without a kind
// is a kernel function. User probes without a process are restricted to pid, unless it is 0.
func ParseTarget(text string, pid int) (probe.Target, error) {
	if !strings.Contains(text, ":") && text != "begin" && text != "end" {
		text = "kprobe:" + text
	}
	target, err := probe.ParseTarget(text)
	return restrict(target, pid), err
}

func restrict(target probe.Target, pid int) probe.Target {
	switch t := target.(type) {
	case probe.Uprobe:
		t.PID = cmp.Or(t.PID, pid)
		return t
	case probe.Uretprobe:
		t.PID = cmp.Or(t.PID, pid)
		return t
	case probe.USDT:
		t.PID = cmp.Or(t.PID, pid)
		return t
	case probe.Set:
		set := slices.Clone(t)
		for i := range set {
			set[i] = restrict(set[i], pid)
		}
		return set
	}
	return target
}

// Target is ParseTarget or, with regexps, parses a target that ends in a regular expression:
// "^vfs_(read|write)$", "tracepoint:sched:.*wake". The result is the set of matching targets
// of the machine; at replay it is all targets of that kind. An error is a mistake on the
// command line, as Usagef returns it.
func (t *Tool) Target(text string, regexps bool, pid int) (target probe.Target, err error) {
	if regexps {
		target, err = t.parseRegexp(text, pid)
	} else {
		target, err = ParseTarget(text, pid)
	}
	if err != nil {
		return nil, t.Usagef("%w", err)
	}
	return target, nil
}

// parseRegexp returns the machine's targets that match.
func (t *Tool) parseRegexp(text string, pid int) (probe.Target, error) {
	place, expression := cutPattern(text)
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	if t.Replaying() {
		return ParseTarget(place+"*", pid)
	}
	all, failed := probe.List(place+"*", &probe.ListOptions{Env: t.Env()})
	var set probe.Set
	for l := range all {
		// A name of several functions does not identify any of them.
		if !l.Duplicate && re.MatchString(lastPart(l.Target)) {
			set = append(set, restrict(l.Target, pid))
		}
	}
	if err := failed(); err != nil {
		return nil, err
	}
	if set == nil {
		return nil, fmt.Errorf("%s: nothing matches", text)
	}
	return set, nil
}

// cutPattern cuts off the part of a target that is a pattern.
func cutPattern(text string) (place, pattern string) {
	kind, _, _ := strings.Cut(text, ":")
	parts := 1 + strings.Count(text, ":")
	switch kind {
	case "k", "kr", "f", "fr", "kprobe", "kretprobe", "fentry", "fexit", "rt", "rawtracepoint":
		parts = min(parts, 2)
	case "t", "u", "ur", "tracepoint", "uprobe", "uretprobe":
		parts = min(parts, 3)
	case "U", "usdt":
		parts = min(parts, 4)
	default:
		return "kprobe:", text
	}
	split := strings.SplitN(text, ":", parts)
	last := len(split) - 1
	return strings.Join(split[:last], ":") + ":", split[last]
}

// lastPart returns the part after the last colon of a target: a function, or an event.
func lastPart(target probe.Target) string {
	name, _, _ := strings.Cut(target.String(), " pid=")
	return name[strings.LastIndexByte(name, ':')+1:]
}
