package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe"
)

// Allow says which targets a rule allows, field by field. What a client writes is parsed
// into a probe.Target first, so that it does not matter how it is written.
//
// The strings are patterns of one field each (* ? [a-z], as in probe.Match) and match all of
// it; "" matches a field that is not set. All fields of a target have to match. Which fields
// a kind has is in the table; ! means that it has to be given:
//
//	uprobe                             file function! offsets lines languages
//	uretprobe                          file function! languages
//	usdt                               file provider! name!
//	sample                             event!
//	interval, begin, end
//	watchpoint                         name
//	kprobe                             function! offsets
//	kretprobe, fentry, fexit, fmod_ret function!
//	tracepoint                         group! name!
//	rawtracepoint, lsm, iter, socket   name!
//	*                                  every target of every kind
type Allow struct {
	// Kind is a word of the table, not a pattern. Only "*" allows addresses of instructions and
	// of the kernel's memory, samples of a cgroup, functions of BPF programs (fentry:bpf:…) and
	// maxactive.
	Kind string `json:"kind"`
	// File is the path of a program or library as probe.Uprobe has it. If that holds a "/", it
	// is compared without symbolic links, too. "" is the process's own program.
	File string `json:"file,omitempty"`
	// Function is the name of a function in the file's symbols, or in the kernel and all of its
	// modules.
	Function string `json:"function,omitempty"`
	// Group is that of a tracepoint, Provider that of a USDT probe.
	Group    string `json:"group,omitempty"`
	Provider string `json:"provider,omitempty"`
	// Name is that of a USDT probe, a tracepoint, a security hook, an iterator, a network
	// interface, or a watchpoint's kernel variable.
	Name string `json:"name,omitempty"`
	// Event is what is counted for samples, and no pattern: an event in perf's spelling
	// without modifiers, "clock" (of profile:hz:N), "software", "hardware" or "*".
	Event string `json:"event,omitempty"`

	// Also are words for what is not allowed otherwise. "offsets" allows other instructions of
	// the functions than their first. "lines" allows source lines; these name no function, so
	// Function has to be "*". "languages" allows asking by demangled names (cpp:, rust:, go:);
	// the symbols that these stand for have to match Function.
	Also []string `json:"also,omitempty"`
}

// allowFields are the fields of each kind; those with ! have to be given.
var allowFields = map[string]string{
	"uprobe":        "file function! offsets lines languages",
	"uretprobe":     "file function! languages",
	"usdt":          "file provider! name!",
	"sample":        "event!",
	"interval":      "",
	"begin":         "",
	"end":           "",
	"watchpoint":    "name",
	"kprobe":        "function! offsets",
	"kretprobe":     "function!",
	"fentry":        "function!",
	"fexit":         "function!",
	"fmod_ret":      "function!",
	"tracepoint":    "group! name!",
	"rawtracepoint": "name!",
	"lsm":           "name!",
	"iter":          "name!",
	"socket":        "name!",
	"*":             "",
}

// text returns the JSON of w.
func (w Allow) text() string {
	type plain Allow
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(plain(w)); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// UnmarshalJSON reads an object with the fields of Allow and no others. A text, which a rule's
// targets were in earlier versions, is refused with what to write instead.
func (w *Allow) UnmarshalJSON(b []byte) error {
	var old string
	if err := json.Unmarshal(b, &old); err == nil {
		return fmt.Errorf("policy: target %q is a text, which can be read in several ways: write %s instead",
			old, modern(old))
	}
	type plain Allow
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var p plain
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("policy: target %s: %w", b, err)
	}
	*w = Allow(p)
	return nil
}

// modern returns what to write in place of a target of an earlier version.
func modern(old string) string {
	t, err := probe.ParseTarget(old)
	if old == "*" {
		return Allow{Kind: "*"}.text()
	}
	if err != nil {
		return "one object for each kind, such as " +
			Allow{Kind: "uprobe", File: "/usr/bin/*", Function: "*"}.text()
	}
	set, ok := t.(probe.Set)
	if !ok {
		set = probe.Set{t}
	}
	var out []string
	for _, t := range set {
		p := placeOf(t)
		w := p.Allow
		if p.Kind == "usdt" && p.Provider == "" {
			w.Provider = "*"
		}
		if p.only != "" {
			out = append(out, fmt.Sprintf("%s, which allows everything (%s)",
				Allow{Kind: "*"}.text(), p.only))
			continue
		}
		if p.also(alsoLines) {
			w.Function = "*"
		}
		out = append(out, w.text())
	}
	return strings.Join(out, ", ")
}

// validate returns what is wrong with w, "" if nothing is.
func (w *Allow) validate() string {
	known, ok := allowFields[w.Kind]
	if !ok {
		return fmt.Sprintf("no kind of targets is called %q: there are %s", w.Kind,
			strings.Join(slices.Sorted(maps.Keys(allowFields)), ", "))
	}
	fields := strings.Fields(known)
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"file", w.File != ""},
		{"function", w.Function != ""},
		{"group", w.Group != ""},
		{"provider", w.Provider != ""},
		{"name", w.Name != ""},
		{"event", w.Event != ""},
		{alsoOffsets, w.also(alsoOffsets)},
		{alsoLines, w.also(alsoLines)},
		{alsoLanguages, w.also(alsoLanguages)},
	} {
		switch must := slices.Contains(fields, f.name+"!"); {
		case must && !f.given:
			return fmt.Sprintf("%s: %s is missing; \"*\" is any", w.text(), f.name)
		case f.given && !must && !slices.Contains(fields, f.name):
			return fmt.Sprintf("%s: targets of this kind have no %s", w.text(), f.name)
		}
	}
	for _, word := range w.Also {
		if !slices.Contains(alsoWords, word) {
			return fmt.Sprintf("%s: also has no %q: there are %s", w.text(), word,
				strings.Join(alsoWords, ", "))
		}
	}
	if w.also(alsoLines) && w.Function != "*" {
		return fmt.Sprintf("%s: lines name no function, so function has to be \"*\"", w.text())
	}
	if w.Kind == "sample" {
		if _, err := eventNamed(w.Event); err != nil {
			return fmt.Sprintf("%s: %v", w.text(), err)
		}
	}
	return ""
}

// Words of Also.
const (
	alsoOffsets   = "offsets"
	alsoLines     = "lines"
	alsoLanguages = "languages"
)

var alsoWords = []string{alsoOffsets, alsoLines, alsoLanguages}

func (w *Allow) also(word string) bool { return slices.Contains(w.Also, word) }

// place is a target taken apart: Allow's fields hold its own, and Also what it uses.
type place struct {
	Allow
	sample probe.Perf
	// later is set if the function is known only when the target has been resolved.
	later bool
	// only is why nothing but "*" allows it, "" for other targets.
	only string
}

// uses adds what a place takes if it does.
func (p *place) uses(it bool, word string) {
	if it {
		p.Also = append(p.Also, word)
	}
}

// isAddress is why only "*" allows a target.
const isAddress = "it is an address"

func placeOf(t probe.Target) place {
	switch t := t.(type) {
	case probe.Uprobe:
		named := t.Symbol != ""
		p := place{
			Allow: Allow{Kind: "uprobe", File: t.Path, Function: t.Symbol},
			later: named && t.Lang != "",
		}
		p.uses(named && t.Offset != 0, alsoOffsets)
		p.uses(!named && t.File != "", alsoLines)
		p.uses(p.later, alsoLanguages)
		if !named && t.File == "" {
			p.only = isAddress
		}
		return p
	case probe.Uretprobe:
		p := place{
			Allow: Allow{Kind: "uretprobe", File: t.Path, Function: t.Symbol}, later: t.Lang != "",
		}
		p.uses(p.later, alsoLanguages)
		return p
	case probe.USDT:
		return place{Allow: Allow{Kind: "usdt", File: t.Path, Provider: t.Provider, Name: t.Name}}
	case probe.Perf:
		if t.Every != 0 {
			return place{Allow: Allow{Kind: "interval"}}
		}
		p := place{Allow: Allow{Kind: "sample", Event: nameOf(t)}, sample: t}
		if t.Cgroup != "" {
			p.only = "it is of a cgroup"
		}
		return p
	case probe.Watchpoint:
		p := place{Allow: Allow{Kind: "watchpoint", Name: t.Symbol}}
		if t.Symbol == "" && t.Address>>63 != 0 {
			p.only = isAddress
		}
		return p
	case probe.Begin:
		return place{Allow: Allow{Kind: "begin"}}
	case probe.End:
		return place{Allow: Allow{Kind: "end"}}
	}
	return placeInKernel(t)
}

func placeInKernel(t probe.Target) place {
	const ofBPF = "it is a function of a BPF program"
	function := func(kind, symbol string) place {
		return place{Allow: Allow{Kind: kind, Function: symbol}}
	}
	var p place
	switch t := t.(type) {
	case probe.Kprobe:
		p = function("kprobe", t.Symbol)
		p.uses(t.Symbol != "" && t.Offset != 0, alsoOffsets)
		if t.Symbol == "" {
			p.only = isAddress
		}
	case probe.Kretprobe:
		if p = function("kretprobe", t.Symbol); t.MaxActive != 0 {
			p.only = "it has maxactive"
		}
	case probe.Fentry:
		if p = function("fentry", t.Symbol); t.BPF != 0 {
			p.only = ofBPF
		}
	case probe.Fexit:
		if p = function("fexit", t.Symbol); t.BPF != 0 {
			p.only = ofBPF
		}
	case probe.FmodRet:
		p = function("fmod_ret", t.Symbol)
	case probe.Tracepoint:
		p.Allow = Allow{Kind: "tracepoint", Group: t.Group, Name: t.Name}
	case probe.RawTracepoint:
		p.Allow = Allow{Kind: "rawtracepoint", Name: t.Name}
	case probe.LSM:
		p.Allow = Allow{Kind: "lsm", Name: t.Hook}
	case probe.Iter:
		p.Allow = Allow{Kind: "iter", Name: t.Name}
	case probe.SocketFilter:
		p.Allow = Allow{Kind: "socket", Name: t.Interface}
	default:
		p.only = "policies do not know its kind"
	}
	return p
}

// allows reports whether w allows a place. If only a switch of w is missing, it says which.
func (w *Allow) allows(p *place) (ok bool, lacks string) {
	if w.Kind == "*" {
		return true, ""
	}
	if w.Kind != p.Kind || !glob.Match(w.File, p.File) || !glob.Match(w.Group, p.Group) ||
		!glob.Match(w.Provider, p.Provider) ||
		!glob.Match(w.Name, p.Name) || !p.later && !glob.Match(w.Function, p.Function) ||
		p.Kind == "sample" && !sameEvent(w.Event, p.sample) {
		return false, ""
	}
	for _, word := range p.Also {
		if !w.also(word) {
			return false, "the rule does not allow " + word
		}
	}
	return p.only == "", p.only
}

// Words for events that are no event's name.
const (
	anyEvent      = "*"
	clockEvent    = "clock" // the zero event
	softwareEvent = "software"
	hardwareEvent = "hardware"
)

// eventNamed returns the samples of an event that a policy names, the zero value for one of
// the words.
func eventNamed(name string) (probe.Perf, error) {
	switch name {
	case anyEvent, clockEvent, softwareEvent, hardwareEvent:
		return probe.Perf{}, nil
	}
	t, err := probe.ParseTarget("perf:" + name + ":period:1")
	if err != nil {
		return probe.Perf{}, err
	}
	p, ok := t.(probe.Perf)
	if !ok {
		return p, fmt.Errorf("%q is not an event", name)
	}
	return p, nil
}

// nameOf returns how a policy names the event of samples.
func nameOf(t probe.Perf) string {
	if t.Event.IsZero() {
		return clockEvent
	}
	e := t.Event
	return e.String()
}

// sameEvent reports whether a policy's event is that of samples. What counts is the encoding.
func sameEvent(name string, t probe.Perf) bool {
	switch name {
	case anyEvent:
		return true
	case clockEvent:
		return t.Event.IsZero()
	case softwareEvent:
		return t.Event.Type == typeSoftware
	case hardwareEvent:
		return t.Event.Hardware()
	}
	p, err := eventNamed(name)
	return err == nil && !t.Event.IsZero() && encoding(p) == encoding(t)
}

// eventCode is what the kernel is told of an event.
type eventCode struct {
	typ, bp    uint32
	config     [4]uint64
	kernelPath string
}

func encoding(t probe.Perf) eventCode {
	e := &t.Event
	return eventCode{e.Type, e.BPType, [4]uint64{e.Config, e.Config1, e.Config2, e.Config3}, e.Path}
}
