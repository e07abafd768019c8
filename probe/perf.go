package probe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/internal/cgroups"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// Perf fires when a performance event overflows or a timer expires. It is the one kind for
// all sampling; profile, interval, software, hardware and perf are its spellings:
// "profile:hz:99", "profile:us:100", "interval:s:1", "software:page-faults:100",
// "hardware:cache-misses:10000", "perf:EVENT:period:N" and "perf:EVENT:hz:N", where EVENT
// is in perf's own spelling.
type Perf struct {
	// Event is what is counted. The zero value is the best clock for sampling where the
	// CPU is busy: hardware cycles if there is a PMU, else cpu-clock.
	Event pmc.Event
	// Freq is samples per second and CPU; Period is events per sample. Exactly one of
	// them is set, unless Every makes a timer.
	Freq   uint64
	Period uint64
	// Every is the interval of a timer, which fires on one CPU only.
	Every time.Duration
	// PID restricts sampling to one process; 0 is all. CPUs restricts it to these CPUs;
	// nil is every online CPU.
	PID  int
	CPUs []int
	// Cgroup restricts sampling to a cgroup, by its path below the cgroup mount; "" is all.
	Cgroup string
}

func (t Perf) requires(q *requirer) {
	q.perf()
	if f := feature.OfEvent(t.Event.Type, t.Event.Hardware()); f != 0 {
		q.feature(f, "the event's kind")
	}
}

func (t Perf) list(l *lister) error { return l.put(Match{Target: t}) }

func (Perf) word() string { return "perf" }

// Default periods of bpftrace for events given without a count (its
// docs/language.adoc, "hardware" and "software").
var defaultPeriods = map[string]uint64{
	"cycles": 1000000, "instructions": 1000000, "cache-references": 1000000, "cache-misses": 1000000,
	"branches": 100000, "branch-misses": 100000, "bus-cycles": 100000,
	"stalled-cycles-frontend": 1000000, "stalled-cycles-backend": 1000000, "ref-cycles": 1000000,
	"alignment-faults": 1, "bpf-output": 1, "context-switches": 1000, "cpu-clock": 1000000,
	"cpu-migrations": 1, "dummy": 1, "emulation-faults": 1, "major-faults": 1, "minor-faults": 100,
	"page-faults": 100, "task-clock": 1,
}

// timeUnits are the units of profile and interval, largest first.
var timeUnits = []struct {
	name string
	d    time.Duration
}{{"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond}}

var (
	profileSpelled = spelled{
		words: []string{"profile", "p"},
		parse: func(s *spelling.Scanned) (Target, error) {
			return parseTimer(s, false)
		},
		pattern: timers("profile"),
	}
	intervalSpelled = spelled{
		words: []string{"interval", "i"},
		parse: func(s *spelling.Scanned) (Target, error) {
			return parseTimer(s, true)
		},
		pattern: timers("interval"),
	}
	softwareSpelled = counterSpelled(perfring.EventSoftware, "software", "s")
	hardwareSpelled = counterSpelled(perfring.EventHardware, "hardware", "h")
	perfSpelled     = spelled{words: []string{"perf"}, parse: parsePerfEvent}
)

// counterSpelled returns the kind of the generic events of a type.
func counterSpelled(typ uint32, words ...string) spelled {
	return spelled{
		words: words,
		parse: func(s *spelling.Scanned) (Target, error) { return parseCounter(s, typ) },
		pattern: func(l *lister, rest string) (string, bool, error) {
			return "", true, l.events(typ, words[0], rest)
		},
	}
}

func (t Perf) withPID(pid int) Target {
	t.PID = pid
	return t
}

// parseTimer parses profile:[UNIT:]N and interval:[UNIT:]N.
func parseTimer(s *spelling.Scanned, interval bool) (Target, error) {
	want := s.Kind + ":hz:N, or s, ms, us, ns in place of hz"
	n, unit := 2, "hz"
	if len(s.Parts) == 1 {
		// bpftrace: a bare number is Hz for profile and seconds for interval.
		n = 1
		if interval {
			unit = "s"
		}
	}
	p, err := s.Exactly(n, want, "")
	if err != nil {
		return nil, err
	}
	if n == 2 {
		unit = p[0].Text
	}
	v, err := s.Number(p[n-1], 63)
	if err != nil {
		return nil, err
	}
	if v == 0 {
		return nil, s.Errorf(p[n-1].Off, "must be more than 0")
	}
	if unit == "hz" {
		return parseFrequency(s, interval, p[n-1], v)
	}
	for _, u := range timeUnits {
		if u.name != unit {
			continue
		}
		if v > uint64(math.MaxInt64/u.d) {
			return nil, s.Errorf(p[n-1].Off, "too long a time")
		}
		d := u.d * time.Duration(v)
		if interval {
			return Perf{Every: d}, nil
		}
		return Perf{Event: pmc.CPUClock(), Period: uint64(d)}, nil
	}
	return nil, s.Errorf(p[0].Off, "unknown unit %q: want hz, s, ms, us or ns", unit)
}

func parseFrequency(s *spelling.Scanned, interval bool, p spelling.Part, hz uint64) (Target,
	error,
) {
	if !interval {
		return Perf{Freq: hz}, nil
	}
	if hz > uint64(time.Second) {
		return nil, s.Errorf(p.Off, "more than 10⁹ times a second")
	}
	return Perf{Every: time.Second / time.Duration(hz)}, nil
}

// parseCounter parses software:EVENT[:N] and hardware:EVENT[:N].
func parseCounter(s *spelling.Scanned, typ uint32) (Target, error) {
	want := s.Kind + ":EVENT[:PERIOD]"
	n := min(max(len(s.Parts), 1), 2)
	if n == 2 && s.Parts[1].Text == "" && !s.Parts[1].Quoted {
		s.Parts, n = s.Parts[:1], 1 // bpftrace allows the trailing colon
	}
	p, err := s.Exactly(n, want, "")
	if err != nil {
		return nil, err
	}
	ev, err := parseEvent(s, p[0], perfName(typ, p[0].Text))
	if err != nil {
		return nil, err
	}
	if ev.Type != typ && (typ != perfring.EventHardware || ev.Type != perfring.EventCache) {
		return nil, s.Errorf(p[0].Off, "%s is not a %s event; perf:EVENT:period:N takes any", p[0].Text,
			s.Kind)
	}
	period := defaultPeriods[ev.Name]
	if period == 0 {
		period = 1000000
	}
	if n == 2 {
		if period, err = s.Number(p[1], 63); err != nil {
			return nil, err
		}
		if period == 0 {
			return nil, s.Errorf(p[1].Off, "must be more than 0")
		}
	}
	return Perf{Event: ev, Period: period}, nil
}

// perfName returns perf's name of an event that bpftrace has another for.
func perfName(typ uint32, name string) string {
	if name == "cpu" && typ == perfring.EventSoftware {
		return "cpu-clock"
	}
	return name
}

// parsePerfEvent parses perf:EVENT:period:N and perf:EVENT:hz:N. The event's own
// colons need no quotes.
func parsePerfEvent(s *spelling.Scanned) (Target, error) {
	const want = "perf:EVENT:period:N or perf:EVENT:hz:N"
	n := len(s.Parts)
	if n < 3 {
		return nil, s.Errorf(s.Last(), "something is missing: want %s", want)
	}
	name := s.Parts[0]
	if !name.Quoted {
		last := s.Parts[n-3]
		name.Text = s.Input[name.Off:last.End]
	} else if n > 3 || name.Suffix != "" {
		return nil, s.Errorf(name.End, "want %s", want)
	}
	ev, err := parseEvent(s, name, name.Text)
	if err != nil {
		return nil, err
	}
	v, err := s.Number(s.Parts[n-1], 63)
	if err != nil {
		return nil, err
	}
	if v == 0 {
		return nil, s.Errorf(s.Parts[n-1].Off, "must be more than 0")
	}
	switch s.Parts[n-2].Text {
	case "hz":
		return Perf{Event: ev, Freq: v}, nil
	case "period":
		return Perf{Event: ev, Period: v}, nil
	}
	return nil, s.Errorf(s.Parts[n-2].Off, "unknown unit %q: want period or hz", s.Parts[n-2].Text)
}

func parseEvent(s *spelling.Scanned, p spelling.Part, name string) (pmc.Event, error) {
	if name == "clock" { // "perf:clock": the zero event, whatever suits the machine
		return pmc.Event{}, nil
	}
	ev, err := pmc.ParseEvent(name, nil)
	var bad *pmc.SyntaxError
	switch {
	case err == nil:
		return ev, nil
	case errors.As(err, &bad):
		return ev, s.Errorf(p.Off, "%s", bad.Msg)
	}
	return ev, s.Errorf(p.Off, "%s", err)
}

func perfOption(s *spelling.Scanned, t Target, o spelling.Option) (Target, error) {
	p, ok := t.(Perf)
	if !ok {
		return nil, s.Errorf(o.Off, "%s does not go with %s", o.Key, s.Kind)
	}
	if o.Key == "cgroup" {
		if o.Value == "" {
			return nil, s.Errorf(o.Off, "cgroup needs a path")
		}
		p.Cgroup = o.Value
		return p, nil
	}
	list, err := cpus.Parse(o.Value)
	if err == nil && len(list) == 0 {
		err = errors.New("want CPU numbers such as 0,2-3")
	}
	if err != nil {
		return nil, s.Errorf(o.Off, "bad cpus %q: %s", o.Value, err)
	}
	p.CPUs = list
	return p, nil
}

// String returns the shortest spelling of the sampling: profile, interval, software
// or hardware where one fits, else "perf:EVENT:period:N" or "perf:EVENT:hz:N";
// with " cpus=LIST", " cgroup=PATH" and " pid=N".
func (t Perf) String() string {
	s := t.spelling()
	if t.CPUs != nil {
		s += " cpus=" + cpus.Format(slices.Clone(t.CPUs))
	}
	if t.Cgroup != "" {
		s += " cgroup=" + spelling.Quote(t.Cgroup)
	}
	return s + pid(t.PID)
}

func (t Perf) spelling() string {
	clock := t.Event == pmc.CPUClock()
	switch {
	case t.Every != 0:
		return "interval:" + duration(t.Every)
	case t.Event.IsZero() && t.Freq != 0:
		return "profile:hz:" + decimal(t.Freq)
	case clock && t.Freq == 0 && t.Period != 0 && t.Period <= math.MaxInt64:
		return "profile:" + duration(time.Duration(t.Period))
	case t.Freq != 0:
		return "perf:" + quoteEvent(t.Event) + ":hz:" + decimal(t.Freq)
	}
	kind := "perf"
	if name := t.Event.String(); !strings.ContainsAny(name, ":/") {
		switch t.Event.Type {
		case perfring.EventSoftware:
			kind = "software"
		case perfring.EventHardware:
			kind = "hardware"
		}
	}
	if t.Event.IsZero() || kind == "perf" {
		return "perf:" + quoteEvent(t.Event) + ":period:" + decimal(t.Period)
	}
	return kind + ":" + t.Event.String() + ":" + decimal(t.Period)
}

func quoteEvent(e pmc.Event) string {
	if e.IsZero() {
		return "clock"
	}
	return spelling.Quote(e.String())
}

// duration returns UNIT:N in the largest unit that divides d.
func duration(d time.Duration) string {
	for _, u := range timeUnits {
		if d%u.d == 0 {
			return u.name + ":" + decimal(uint64(d/u.d))
		}
	}
	return "ns:" + decimal(uint64(d))
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// ptRegsSize is sizeof(bpf_user_pt_regs_t), which struct bpf_perf_event_data
// begins with (arch/*/include/uapi/asm/bpf_perf_event.h).
var ptRegsSize = map[string]int64{"amd64": 21 * 8, "arm64": 34 * 8}

// perfFields returns the fields of struct bpf_perf_event_data.
func perfFields(arch string) []Arg {
	base, ok := ptRegsSize[arch]
	if !ok {
		return nil
	}
	u64 := &btf.Int{Name: "unsigned long long", Size: 8}
	return []Arg{
		{Name: "sample_period", Type: u64, Loc: Location{Kind: LocationContext, Offset: base, Size: 8}},
		{Name: "addr", Type: u64, Loc: Location{Kind: LocationContext, Offset: base + 8, Size: 8}},
	}
}

// resolve resolves sampling to one site for each CPU, or one for a process.
func (t Perf) resolve(r *resolver) error {
	if err := checkPerf(t); err != nil {
		return err
	}
	p := ProgramPlan{
		Type: ebpf.PerfEvent, AttachType: ebpf.AttachPerfEvent, Context: ContextPerf,
		Fields: perfFields(r.env.Arch()), Method: MethodPerfLink,
	}
	switch {
	case t.Every != 0:
		t.Event = pmc.CPUClock()
	case t.Event.IsZero():
		t.Event = pmc.Cycles()
		if err := r.env.Supports(feature.HardwarePMU); err != nil {
			t.Event = pmc.CPUClock()
			p.FallbackReason = "cpu-clock instead of cycles: " + feature.Reason(err)
		}
	case t.Event.Type == perfring.EventBreakpoint:
		if err := r.env.Supports(feature.Watchpoint); errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if t.PID != 0 {
		if len(t.CPUs) > 0 {
			return errors.New("pid and cpus exclude each other: a process is followed wherever it runs")
		}
		p.Sites = []Site{{Target: t, PID: t.PID, CPU: -1}}
		r.add(p)
		return nil
	}
	list, err := t.cpus(r)
	if err != nil {
		return err
	}
	for _, c := range list {
		p.Sites = append(p.Sites, Site{Target: t, CPU: c})
	}
	r.add(p)
	return nil
}

// event encodes what a site counts. Its Cgroup is the caller's to close.
func (t Perf) event(_ *attacher, _ *ProgramPlan, s *Site) (*perfevent.Event, error) {
	ev := &perfevent.Event{What: t.Event, PID: -1, CPU: s.CPU}
	if t.Every != 0 {
		ev.What = pmc.CPUClock()
	}
	ev.Attr, ev.Path = ev.What.Attr(), ev.What.Path
	switch {
	case t.Every != 0:
		ev.Attr.Sample = uint64(t.Every)
	case t.Freq != 0:
		ev.Attr.Sample, ev.Attr.Flags = t.Freq, ev.Attr.Flags|perfring.AttrFreq
	default:
		ev.Attr.Sample = t.Period
	}
	if t.Event.PreciseMax {
		ev.Lower = true
		ev.Attr.Flags = ev.Attr.Flags.WithPrecise(3)
	}
	if t.Cgroup == "" {
		return ev, nil
	}
	var err error
	ev.Cgroup, err = cgroups.Open(t.Cgroup)
	return ev, err
}

func checkPerf(t Perf) error {
	n := 0
	for _, set := range []bool{t.Freq != 0, t.Period != 0, t.Every != 0} {
		if set {
			n++
		}
	}
	switch {
	case n == 0:
		return errors.New(
			"it says neither how often (Freq, Every) nor after how many events (Period) to fire")
	case n > 1:
		return errors.New("only one of Freq, Period and Every may be set")
	case t.Every < 0:
		return errors.New("negative time between firings")
	case t.Every != 0 && !t.Event.IsZero():
		return errors.New("an interval timer has no event")
	case t.Every != 0 && (t.PID != 0 || t.Cgroup != ""):
		return errors.New("an interval timer belongs to no process or cgroup")
	case t.PID < 0:
		return fmt.Errorf("bad pid %d", t.PID)
	case t.PID != 0 && t.Cgroup != "":
		return errors.New("pid and cgroup exclude each other")
	case t.Every == 0 && t.Event.IsZero() && t.Period != 0:
		return errors.New("a period needs an event to count")
	}
	return nil
}

// cpus returns the CPUs to open the event on: those that the target names, else all
// online ones. A timer needs only one.
func (t Perf) cpus(r *resolver) ([]int, error) {
	online, err := r.env.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	list := online
	if t.CPUs != nil {
		list = slices.Compact(slices.Sorted(slices.Values(t.CPUs)))
		for _, c := range list {
			if !slices.Contains(online, c) {
				return nil, notexist.Errorf("CPU %d is not online", c)
			}
		}
		if len(list) == 0 {
			return nil, errors.New("no CPU in the list")
		}
	}
	if t.Every != 0 {
		list = list[:1]
	}
	return list, nil
}

// events lists the generic performance events, whether this CPU has them or not.
func (l *lister) events(typ uint32, kind, pattern string) error {
	name, _, _ := strings.Cut(pattern, ":")
	g := glob.Compile(name)
	names := slices.AppendSeq(slices.Collect(maps.Keys(defaultPeriods)), slices.Values(eventAliases))
	slices.Sort(names)
	for _, n := range names {
		ev, err := pmc.ParseEvent(perfName(typ, n), nil)
		if err != nil || ev.Type != typ || !g.Match(n) {
			continue
		}
		target := Perf{Event: ev, Period: defaultPeriods[ev.Name]}
		if err := l.put(Match{Target: target, Name: kind + ":" + n + ":"}); err != nil {
			return err
		}
	}
	return nil
}

// eventAliases are bpftrace's other names of generic events, which are listed, too.
var eventAliases = []string{
	"cpu", "cs", "faults", "cpu-cycles", "branch-instructions",
}

// timers lists the units of a timer, each with one of it.
func timers(kind string) func(l *lister, rest string) (string, bool, error) {
	return func(l *lister, rest string) (string, bool, error) {
		unit, _, _ := strings.Cut(rest, ":")
		if unit != "" && !glob.IsPattern(unit) {
			return rest, false, nil
		}
		g := glob.Compile(cmp.Or(unit, "*"))
		put := func(unit string, each Perf) error {
			if !g.Match(unit) {
				return nil
			}
			return l.put(Match{Target: each, Name: kind + ":" + unit + ":"})
		}
		interval := kind == "interval"
		hz := Perf{Freq: 1}
		if interval {
			hz = Perf{Every: time.Second}
		}
		err := put("hz", hz)
		for _, u := range timeUnits {
			each := Perf{Event: pmc.CPUClock(), Period: uint64(u.d)}
			if interval {
				each = Perf{Every: u.d}
			}
			if err == nil {
				err = put(u.name, each)
			}
		}
		return "", true, err
	}
}
