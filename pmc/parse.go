package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
)

// Options are the trees in which names are looked up. A nil *Options is the zero value.
type Options struct {
	// Root is the host's file system, for sys/bus/event_source/devices and tracefs; nil is
	// this machine. Paths have no leading slash.
	Root fs.FS
	// Events contains vendor event lists in perfmon's JSON (see VendorEvents), which define
	// names such as LONGEST_LAT_CACHE.MISS. Nil is none.
	Events fs.FS
}

// maxEventString bounds an event list; perf's own lists are a few kilobytes.
const maxEventString = 64 << 10

// SyntaxError reports an error in an event string.
type SyntaxError struct {
	// Input is the whole string. Offset is the byte, from 0, at which the invalid event, or
	// the brace of its group, begins.
	Input  string
	Offset int
	// Msg describes the mistake and the expected text.
	Msg string
	// Err is the cause, if there is one: fs.ErrNotExist for an unknown name.
	Err error
}

// Error returns `event "INPUT": column 3: MSG`; columns count bytes from one.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("event %.200q: column %d: %s", e.Input, e.Offset+1, e.Msg)
}

// Unwrap returns the cause, nil if there is none.
func (e *SyntaxError) Unwrap() error { return e.Err }

func syntaxError(input string, offset int, err error) error {
	return &SyntaxError{Input: input, Offset: offset, Msg: err.Error(), Err: err}
}

// ParseEvent parses one event in perf's spelling:
//
//	cycles, branch-misses, page-faults, cpu-clock …    generic events and perf's synonyms
//	L1-dcache-load-misses, LLC-loads …                 hardware cache events
//	r1a8                                               the CPU's own number, hexadecimal
//	4:0x1a8                                            attr.type:attr.config
//	cpu/event=0x3c,umask=0x0,cmask=1,inv/              a PMU of sysfs, by its format terms
//	cpu/cache-misses/, msr/tsc/                        a named event of a PMU
//	kprobe/func=vfs_read,offset=0x4/                   the kprobe PMU (retprobe for a return)
//	uprobe/path=/bin/bash,offset=0x1234,retprobe/      the uprobe PMU
//	mem:0x1000/8:rw                                    a breakpoint: address/length:access
//	sched:sched_switch                                 a tracepoint
//	LONGEST_LAT_CACHE.MISS                             a vendor's name, with Options.Events
//
// followed by modifiers after a colon (or directly after a slash): u, k, h count in user space,
// kernel, hypervisor only; G, H guests or the host only; I leaves out idle; p, pp, ppp and P
// select precise samples; S, D, e and W are as in Event. PMU events also take the terms config,
// config1 … config3, name, period and freq.
//
// Names of PMUs, their events and tracepoints are looked up under opts.Root. Generic events are
// not, except for hardware events on machines with CPUs of several kinds, which must name the
// kind (cpu_core/cycles/).
//
// Errors in s are of type *SyntaxError, and match fs.ErrNotExist for a name that does not exist
// here. A string that stands for several events is refused: see ParseList.
func ParseEvent(s string, opts *Options) (Event, error) {
	groups, err := ParseList(s, opts)
	if err != nil {
		return Event{}, err
	}
	if len(groups) != 1 || len(groups[0]) != 1 {
		var names []string
		for _, g := range groups {
			for _, e := range g {
				names = append(names, e.String())
			}
		}
		return Event{}, &SyntaxError{Input: s, Msg: fmt.Sprintf(
			"means %d events here, say which: %s", len(names), summary(names))}
	}
	return groups[0][0], nil
}

// ParseList parses a list as perf's -e takes it: events separated by commas, groups in braces
// followed by modifiers for all their members, "{cycles,instructions}:u,page-faults". Each
// group is one slice; an event on its own is a slice of one.
//
// An event may stand for several: one for each kind of CPU on a hybrid machine ("cycles"), for
// each unit of a numbered PMU ("uncore_imc/cas_count_read/"), for each tracepoint that a
// wildcard matches ("sched:sched_wak*"). Outside braces each of these is a group.
func ParseList(s string, opts *Options) ([][]Event, error) {
	if len(s) > maxEventString {
		return nil, &SyntaxError{Input: s[:40], Msg: fmt.Sprintf("longer than %d bytes", maxEventString)}
	}
	p := parser{fsys: rootOf(opts), opts: opts, input: s}
	items, err := splitList(s)
	if err != nil {
		return nil, err
	}
	var out [][]Event
	for _, it := range items {
		group, err := p.item(it)
		if err != nil {
			return nil, err
		}
		if it.braces {
			out = append(out, group)
			continue
		}
		for _, e := range group {
			out = append(out, []Event{e})
		}
	}
	return out, nil
}

// listItem is an event, or the inside of a pair of braces, of a list.
type listItem struct {
	text   string
	offset int
	braces bool
	mods   string // after the braces
	inner  []listItem
}

// splitList splits at commas outside slashes and braces.
func splitList(s string) ([]listItem, error) {
	var items []listItem
	for pos := 0; ; {
		it := listItem{offset: pos}
		if strings.HasPrefix(s[pos:], "{") {
			end := strings.IndexByte(s[pos:], '}')
			if end < 0 {
				return nil, &SyntaxError{Input: s, Offset: pos, Msg: "no closing }"}
			}
			it.braces = true
			it.inner = splitEvents(s[pos+1:pos+end], pos+1)
			pos += end + 1
			n := strings.IndexByte(s[pos:], ',')
			if n < 0 {
				n = len(s) - pos
			}
			it.mods = s[pos : pos+n]
			pos += n
		} else {
			it.text = s[pos : pos+eventLen(s[pos:])]
			pos += len(it.text)
		}
		items = append(items, it)
		if pos >= len(s) {
			return items, nil
		}
		pos++ // the comma
	}
}

func splitEvents(s string, offset int) []listItem {
	var out []listItem
	for {
		n := eventLen(s)
		out = append(out, listItem{text: s[:n], offset: offset})
		if n >= len(s) {
			return out
		}
		s, offset = s[n+1:], offset+n+1
	}
}

// eventLen returns the length of the event that s begins with: up to a comma that is not
// between the slashes of a PMU event. A path in there has slashes of its own: the closing
// slash is the first one after the opening one that modifiers, a comma or the end follow.
func eventLen(s string) int {
	comma := strings.IndexByte(s, ',')
	slash := strings.IndexByte(s, '/')
	if comma < 0 {
		return len(s)
	}
	if slash < 0 || comma < slash || strings.HasPrefix(s, "mem:") {
		return comma
	}
	for i := slash + 1; i < len(s); i++ {
		if s[i] != '/' {
			continue
		}
		rest := s[i+1:]
		n := strings.IndexByte(rest, ',')
		if n < 0 {
			n = len(rest)
		}
		if mods := strings.TrimPrefix(strings.TrimSpace(rest[:n]), ":"); validModifiers(mods) {
			return i + 1 + n
		}
	}
	return len(s)
}

type parser struct {
	fsys    fs.FS
	opts    *Options
	input   string
	vendors []VendorEvent // read at the first vendor's name: a list takes megabytes
}

func (p *parser) item(it listItem) ([]Event, error) {
	if !it.braces {
		return p.events(it, "")
	}
	mods := it.mods
	if mods != "" {
		if mods = strings.TrimPrefix(mods, ":"); mods == it.mods || mods == "" || !validModifiers(mods) {
			return nil, &SyntaxError{Input: p.input, Offset: it.offset, Msg: fmt.Sprintf(
				"bad group modifiers %.20q: want }:LETTERS, of %s", it.mods, modifierLetters)}
		}
	}
	var out []Event
	for _, in := range it.inner {
		events, err := p.events(in, mods)
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}

// events parses one event string, with modifiers of its group.
func (p *parser) events(it listItem, groupMods string) ([]Event, error) {
	lead := len(it.text) - len(strings.TrimLeft(it.text, " \t\n"))
	s := strings.TrimSpace(it.text)
	events, mods, err := p.base(s)
	if err == nil {
		for i := range events {
			if err = events[i].modify(mods, groupMods); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, syntaxError(p.input, it.offset+lead, err)
	}
	return events, nil
}

var errEmpty = errors.New(
	"no event here: want a name such as cycles, PMU/TERMS/ or GROUP:TRACEPOINT")

// base parses an event without its modifiers, and returns these.
func (p *parser) base(s string) (events []Event, mods string, err error) {
	switch {
	case s == "":
		return nil, "", errEmpty
	case strings.HasPrefix(s, "mem:"):
		e, mods, err := parseBreakpoint(s)
		return []Event{e}, mods, err
	}
	if pmu, _, ok := strings.Cut(s, "/"); ok && !strings.Contains(pmu, ":") {
		return p.pmuEvent(s)
	}
	name, mods, _ := strings.Cut(s, ":")
	if e, ok := genericByName(name); ok {
		events, err = p.perKind(e)
		return events, mods, err
	}
	if e, rest, ok := parseNumeric(s); ok {
		if e.Type == perfring.EventBreakpoint {
			return nil, "", errors.New(
				"a number can't say what a breakpoint watches: want mem:ADDRESS[/LENGTH][:ACCESS]")
		}
		return []Event{p.onePMU(e)}, rest, nil
	}
	if e, ok := parseRaw(name); ok {
		return []Event{e}, mods, nil
	}
	return p.named(s)
}

func genericByName(name string) (Event, bool) {
	if i := index(hardwareNames[:], name); i >= 0 {
		return generic(perfring.EventHardware, uint64(i)), true
	}
	if i := index(softwareNames[:], name); i >= 0 {
		return generic(perfring.EventSoftware, uint64(i)), true
	}
	if config, ok := parseCache(name); ok {
		return generic(perfring.EventCache, config), true
	}
	return Event{}, false
}

// perKind turns a generic hardware event into one for each kind of CPU on a hybrid machine.
// With PERF_PMU_CAP_EXTENDED_HW_TYPE, Linux 5.13, the PMU's type is in the upper half of
// config. Without it the kernel would count on one kind only, and the count would be too low
// without a warning.
func (p *parser) perKind(e Event) ([]Event, error) {
	if !e.Hardware() {
		return []Event{e}, nil
	}
	core := corePMUs(p.fsys)
	if len(core) < 2 {
		return []Event{e}, nil
	}
	var out []Event
	for _, name := range core {
		pmu, err := lookPMU(p.fsys, name)
		if err != nil {
			return nil, err
		}
		out = append(out, pmu.extended(e))
	}
	return out, nil
}

// extended returns a generic event on one PMU: "cpu_core/cycles/". If the PMU has an event of
// exactly that name with another encoding, the name is the number.
func (p sysfsPMU) extended(e Event) Event {
	generic := e.Name
	e.PMU = p.name
	e.Config |= uint64(p.typ) << 32
	e.Name = p.name + "/" + generic + "/"
	if _, ok, _ := p.alias(generic); ok {
		e.Label = e.Name
		e.Name = fmt.Sprintf("%d:0x%x", e.Type, e.Config)
	}
	return e
}

// onePMU recognizes the number of a generic event on one PMU.
func (p *parser) onePMU(e Event) Event {
	typ := uint32(e.Config >> 32)
	if typ == 0 || e.Type != perfring.EventHardware && e.Type != perfring.EventCache {
		return e
	}
	for _, name := range corePMUs(p.fsys) {
		if pmu, err := lookPMU(p.fsys, name); err == nil && pmu.typ == typ {
			return pmu.extended(generic(e.Type, uint64(uint32(e.Config))))
		}
	}
	return e
}

func parseRaw(s string) (Event, bool) {
	if len(s) < 2 || s[0] != 'r' {
		return Event{}, false
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s[1:], "0x"), 16, 64)
	return Raw(v), err == nil
}

// parseNumeric parses TYPE:CONFIG[:MODIFIERS].
func parseNumeric(s string) (e Event, mods string, ok bool) {
	typ, rest, _ := strings.Cut(s, ":")
	config, mods, _ := strings.Cut(rest, ":")
	t, err1 := parseUint(typ)
	c, err2 := parseUint(config)
	if err1 != nil || err2 != nil || t > 1<<31-1 {
		return Event{}, "", false
	}
	switch uint32(t) {
	case perfring.EventHardware, perfring.EventSoftware, perfring.EventCache, perfring.EventRaw:
		e = generic(uint32(t), c)
	default:
		e = Event{Type: uint32(t), Config: c}
		e.Name = e.spell()
	}
	return e, mods, true
}

// parseUint parses decimal and 0x numbers, as perf does: no octal, no signs.
func parseUint(s string) (uint64, error) {
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		return strconv.ParseUint(hex, 16, 64)
	}
	return strconv.ParseUint(s, 10, 64)
}

// parseBreakpoint parses mem:ADDR[/LEN][:ACCESS][:MODIFIERS].
func parseBreakpoint(s string) (e Event, mods string, err error) {
	parts := strings.Split(s, ":")[1:]
	addr, length, hasLen := strings.Cut(parts[0], "/")
	at, err := parseUint(addr)
	if err != nil {
		return Event{}, "", fmt.Errorf("bad address %.40q: want mem:ADDRESS[/LENGTH][:ACCESS]", addr)
	}
	access := BPRead | BPWrite
	rest := parts[1:]
	if len(rest) > 0 && rest[0] != "" && strings.Trim(rest[0], "rwx") == "" {
		if access, err = parseAccess(rest[0]); err != nil {
			return Event{}, "", err
		}
		rest = rest[1:]
	}
	if len(rest) > 1 {
		return Event{}, "", fmt.Errorf("too much after the address: %.40q", s)
	}
	// Perf's defaults if no length is given (parse_events_add_breakpoint).
	n := uint64(4)
	if access == BPExec {
		n = 8
	}
	if hasLen {
		if n, err = parseUint(length); err != nil || n == 0 || n > 8 {
			return Event{}, "", fmt.Errorf("bad length %.20q: 1 to 8 bytes", length)
		}
	}
	if len(rest) == 1 {
		mods = rest[0]
	}
	return Breakpoint(at, int(n), access), mods, nil
}

func parseAccess(s string) (access uint32, err error) {
	for _, c := range s {
		bit := map[rune]uint32{'r': BPRead, 'w': BPWrite, 'x': BPExec}[c]
		if access&bit != 0 {
			return 0, fmt.Errorf("access %q repeats %c", s, c)
		}
		access |= bit
	}
	return access, nil
}

// named parses names that only the machine or a vendor's list defines: tracepoints, events
// of any PMU by bare name, vendor names.
func (p *parser) named(s string) ([]Event, string, error) {
	group, rest, some := strings.Cut(s, ":")
	if some {
		name, mods, _ := strings.Cut(rest, ":")
		events, err := p.tracepoints(group, name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || !validModifiers(rest) {
			return events, mods, err
		}
	}
	events, err := p.bareName(group)
	return events, rest, err
}

// bareName looks up an event by name in every PMU, then in the vendor's list.
func (p *parser) bareName(name string) ([]Event, error) {
	pmus, _ := pmuNames(p.fsys)
	var out []Event
	for _, n := range pmus {
		pmu, err := lookPMU(p.fsys, n)
		if err != nil {
			continue
		}
		if _, ok, _ := pmu.alias(name); ok {
			e, err := pmu.parse(name)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if p.opts != nil && p.opts.Events != nil {
		return p.vendorName(name)
	}
	return nil, unknownEvent(name, p.knownNames(pmus))
}

// unknownEvent returns the error for a name that does not exist, with the nearest existing
// ones.
func unknownEvent(name string, known []string) error {
	return notexist.Errorf("no event is called %.60q%s", name, near.Hint(name, known))
}

func (p *parser) knownNames(pmus []string) []string {
	var known []string
	for _, table := range [][][]string{hardwareNames[:], softwareNames[:]} {
		for _, names := range table {
			known = append(known, names...)
		}
	}
	for _, n := range pmus {
		pmu := sysfsPMU{fsys: p.fsys, name: n}
		known = append(known, pmu.aliasNames()...)
	}
	return known
}

// summary returns the first few names.
func summary(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(slices.Clone(names), ", ")
}
