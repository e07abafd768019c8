package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
)

// pmuEvent parses "PMU/TERMS/MODIFIERS". If the name matches several PMUs, the result has
// one event for each.
func (p *parser) pmuEvent(s string) (events []Event, mods string, err error) {
	first, last := strings.IndexByte(s, '/'), strings.LastIndexByte(s, '/')
	if first == last {
		return nil, "", errors.New("no closing /")
	}
	name, terms := s[:first], s[first+1:last]
	mods = strings.TrimPrefix(s[last+1:], ":")
	names := matchPMUs(p.fsys, name)
	if len(names) == 0 {
		all, err := pmuNames(p.fsys)
		if err != nil {
			return nil, "", fmt.Errorf("PMU %s: %w", name, err)
		}
		return nil, "", notexist.Errorf("no PMU %.60q here; there are %s", name, strings.Join(all, ", "))
	}
	for _, n := range names {
		pmu, err := lookPMU(p.fsys, n)
		if err != nil {
			return nil, "", err
		}
		e, err := pmu.parse(terms)
		if err != nil {
			return nil, "", err
		}
		events = append(events, e)
	}
	return events, mods, nil
}

// term is one "name=value" of a PMU event.
type term struct {
	name, value string
	hasValue    bool
}

func (t term) String() string {
	if t.hasValue {
		return t.name + "=" + t.value
	}
	return t.name
}

func splitTerms(s string) ([]term, error) {
	var out []term
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, fmt.Errorf("empty term in %.60q", s)
		}
		var t term
		t.name, t.value, t.hasValue = strings.Cut(part, "=")
		if t.name == "" || t.hasValue && t.value == "" {
			return nil, fmt.Errorf("bad term %.40q", part)
		}
		out = append(out, t)
	}
	return out, nil
}

// parse encodes the terms for this PMU.
func (p sysfsPMU) parse(s string) (Event, error) {
	e := Event{PMU: p.name, Type: p.typ}
	if strings.TrimSpace(s) == "" {
		e.Name = p.name + "//"
		return e, nil
	}
	terms, err := splitTerms(s)
	if err != nil {
		return Event{}, err
	}
	if g, ok := p.legacy(terms); ok {
		return g, nil
	}
	spelled := make([]string, len(terms))
	for i, t := range terms {
		spelled[i] = t.String()
		if err := p.apply(&e, t, terms); err != nil {
			return Event{}, fmt.Errorf("PMU %s: %w", p.name, err)
		}
	}
	e.Name = p.name + "/" + strings.Join(spelled, ",") + "/"
	return e, nil
}

// legacy returns a generic event on a core PMU ("cpu_core/cycles/"), unless the PMU has an
// event of exactly that name.
func (p sysfsPMU) legacy(terms []term) (Event, bool) {
	if len(terms) != 1 || terms[0].hasValue || !isCorePMU(p.name) {
		return Event{}, false
	}
	if _, ok, _ := p.alias(terms[0].name); ok {
		return Event{}, false
	}
	e, ok := genericByName(terms[0].name)
	if !ok || !e.Hardware() {
		return Event{}, false
	}
	return p.extended(e), true
}

// apply encodes one term: perf's own, a named event, then a format field.
func (p sysfsPMU) apply(e *Event, t term, all []term) error {
	if done, err := applyCommon(e, t); done || err != nil {
		return err
	}
	if p.path(e, t) {
		return nil
	}
	if !t.hasValue || t.value == "1" {
		text, ok, err := p.alias(t.name)
		if err != nil {
			return err
		}
		if ok {
			return p.applyAlias(e, t.name, text, all)
		}
	}
	f, ok, err := p.format(t.name)
	if err != nil {
		return err
	}
	if !ok {
		if p.parameterOf(t, all) {
			return nil
		}
		return p.unknownTerm(t)
	}
	v := uint64(1)
	if t.hasValue {
		if v, err = parseUint(t.value); err != nil {
			return fmt.Errorf("%s: bad number %.40q", t.name, t.value)
		}
	}
	return f.put(e, v)
}

// applyCommon handles the terms that every PMU has.
func applyCommon(e *Event, t term) (done bool, err error) {
	var to *uint64
	switch t.name {
	case "config":
		to = &e.Config
	case "config1":
		to = &e.Config1
	case "config2":
		to = &e.Config2
	case "config3":
		to = &e.Config3
	case "period":
		to = &e.Period
	case "freq":
		to = &e.Freq
	case "name":
		if e.Label = strings.Trim(t.value, `'"`); e.Label == "" {
			return true, errors.New("name: empty")
		}
		return true, nil
	case "branch_type", "time", "call-graph", "stack-size", "inherit", "no-inherit", "max-stack",
		"max-events", "overwrite", "no-overwrite", "driver-config", "percore", "aux-output",
		"aux-sample-size", "metric-id":
		return true, fmt.Errorf(
			"term %s belongs to perf record or perf stat; give it when the event is opened", t.name)
	default:
		return false, nil
	}
	v, err := parseUint(t.value)
	if err != nil {
		return true, fmt.Errorf("%s: bad number %.40q", t.name, t.value)
	}
	*to = v
	return true, nil
}

// applyAlias encodes a named event of sysfs: its terms, in which "?" stands for the value of
// the user's term of the same name.
func (p sysfsPMU) applyAlias(e *Event, name, text string, all []term) error {
	terms, err := splitTerms(text)
	if err != nil {
		return fmt.Errorf("event %s: %w", name, err)
	}
	for _, t := range terms {
		if t.value == "?" {
			i := slices.IndexFunc(all, func(u term) bool { return u.name == t.name && u.hasValue })
			if i < 0 {
				return fmt.Errorf("event %s needs %s=VALUE", name, t.name)
			}
			// The user's own term sets it, if the PMU has a field of that name.
			continue
		}
		f, ok, err := p.format(t.name)
		if err != nil {
			return err
		}
		if done, err := applyCommon(e, t); done || err != nil {
			if err != nil {
				return fmt.Errorf("event %s: %w", name, err)
			}
			continue
		}
		if !ok {
			return fmt.Errorf("event %s: its term %s is not among the PMU's formats", name, t.name)
		}
		v := uint64(1)
		if t.hasValue {
			if v, err = parseUint(t.value); err != nil {
				return fmt.Errorf("event %s: bad number %.40q", name, t.value)
			}
		}
		if err := f.put(e, v); err != nil {
			return fmt.Errorf("event %s: %w", name, err)
		}
	}
	return p.properties(e, name)
}

// parameterOf reports whether t is the parameter of a named event in all for which the PMU has
// no field.
func (p sysfsPMU) parameterOf(t term, all []term) bool {
	for _, u := range all {
		if u.hasValue {
			continue
		}
		text, ok, _ := p.alias(u.name)
		if ok && slices.Contains(strings.Split(text, ","), t.name+"=?") {
			return true
		}
	}
	return false
}

// pathTerm returns the name of the term for the string of the kprobe and uprobe PMUs, for which
// perf has no term: kprobe_func and uprobe_path are pointers in config1
// (include/uapi/linux/perf_event.h, Linux 4.17).
func pathTerm(pmu string) string {
	switch pmu {
	case "kprobe":
		return "func"
	case "uprobe":
		return "path"
	}
	return ""
}

// path encodes the kprobe and uprobe PMUs' terms.
func (p sysfsPMU) path(e *Event, t term) bool {
	if pathTerm(p.name) == "" || !t.hasValue {
		return false
	}
	switch t.name {
	case pathTerm(p.name):
		e.Path = t.value
		return true
	case "offset", "addr":
		v, err := parseUint(t.value)
		if err != nil {
			return false
		}
		e.Config2 = v
		return true
	}
	return false
}

func (p sysfsPMU) unknownTerm(t term) error {
	formats := p.list("format")
	events := p.aliasNames()
	return notexist.Errorf("no term %.40q; it has %s%s", t.name,
		strings.Join(append([]string{"config"}, formats...), ", "),
		near.Hint(t.name, append(events, formats...)))
}

// list returns the names in a directory of the PMU.
func (p sysfsPMU) list(dir string) []string {
	entries, _ := fs.ReadDir(p.fsys, path.Join(pmuDir, p.name, dir))
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func (p sysfsPMU) aliasNames() []string {
	return slices.DeleteFunc(p.list("events"), isEventProperty)
}
