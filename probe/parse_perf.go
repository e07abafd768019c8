package probe

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/pmc"
)

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

func (s *scanned) perf(k kind) (Target, error) {
	switch k {
	case kindProfile, kindInterval:
		return s.timer(k)
	case kindSoftware, kindHardware:
		return s.counter(k)
	}
	return s.perfEvent()
}

// timer reads profile:[UNIT:]N and interval:[UNIT:]N.
func (s *scanned) timer(k kind) (Target, error) {
	want := s.kind + ":hz:N, or s, ms, us, ns in place of hz"
	n, unit := 2, "hz"
	if len(s.parts) == 1 {
		// bpftrace: a bare number is Hz for profile and seconds for interval.
		n = 1
		if k == kindInterval {
			unit = "s"
		}
	}
	p, err := s.exactly(n, want, "")
	if err != nil {
		return nil, err
	}
	if n == 2 {
		unit = p[0].text
	}
	v, err := s.number(p[n-1], 63)
	if err != nil {
		return nil, err
	}
	if v == 0 {
		return nil, s.errorf(p[n-1].off, "must be more than 0")
	}
	if unit == "hz" {
		return s.frequency(k, p[n-1], v)
	}
	for _, u := range timeUnits {
		if u.name != unit {
			continue
		}
		if v > uint64(math.MaxInt64/u.d) {
			return nil, s.errorf(p[n-1].off, "too long a time")
		}
		d := u.d * time.Duration(v)
		if k == kindInterval {
			return Perf{Every: d}, nil
		}
		return Perf{Event: pmc.CPUClock(), Period: uint64(d)}, nil
	}
	return nil, s.errorf(p[0].off, "unknown unit %q: want hz, s, ms, us or ns", unit)
}

func (s *scanned) frequency(k kind, p part, hz uint64) (Target, error) {
	if k == kindProfile {
		return Perf{Freq: hz}, nil
	}
	if hz > uint64(time.Second) {
		return nil, s.errorf(p.off, "more than 10⁹ times a second")
	}
	return Perf{Every: time.Second / time.Duration(hz)}, nil
}

// counter reads software:EVENT[:N] and hardware:EVENT[:N].
func (s *scanned) counter(k kind) (Target, error) {
	want := s.kind + ":EVENT[:PERIOD]"
	n := min(max(len(s.parts), 1), 2)
	if n == 2 && s.parts[1].text == "" && !s.parts[1].quoted {
		s.parts, n = s.parts[:1], 1 // bpftrace allows the trailing colon
	}
	p, err := s.exactly(n, want, "")
	if err != nil {
		return nil, err
	}
	ev, err := s.event(p[0], p[0].text)
	if err != nil {
		return nil, err
	}
	if want := map[kind]uint32{kindSoftware: pmc.TypeSoftware, kindHardware: pmc.TypeHardware}[k]; ev.Type != want {
		if k != kindHardware || ev.Type != pmc.TypeCache {
			return nil, s.errorf(p[0].off, "%s is no %s event; perf:EVENT:period:N takes any", p[0].text, s.kind)
		}
	}
	period := defaultPeriods[ev.Name]
	if period == 0 {
		period = 1000000
	}
	if n == 2 {
		if period, err = s.number(p[1], 63); err != nil {
			return nil, err
		}
		if period == 0 {
			return nil, s.errorf(p[1].off, "must be more than 0")
		}
	}
	return Perf{Event: ev, Period: period}, nil
}

// perfEvent reads perf:EVENT:period:N and perf:EVENT:hz:N. The event's own
// colons need no quotes.
func (s *scanned) perfEvent() (Target, error) {
	const want = "perf:EVENT:period:N or perf:EVENT:hz:N"
	n := len(s.parts)
	if n < 3 {
		return nil, s.errorf(s.end(), "something is missing: want %s", want)
	}
	name := s.parts[0]
	if !name.quoted {
		last := s.parts[n-3]
		name.text = s.input[name.off:last.end]
	} else if n > 3 || name.suffix != "" {
		return nil, s.errorf(name.end, "want %s", want)
	}
	ev, err := s.event(name, name.text)
	if err != nil {
		return nil, err
	}
	v, err := s.number(s.parts[n-1], 63)
	if err != nil {
		return nil, err
	}
	if v == 0 {
		return nil, s.errorf(s.parts[n-1].off, "must be more than 0")
	}
	switch s.parts[n-2].text {
	case "hz":
		return Perf{Event: ev, Freq: v}, nil
	case "period":
		return Perf{Event: ev, Period: v}, nil
	}
	return nil, s.errorf(s.parts[n-2].off, "unknown unit %q: want period or hz", s.parts[n-2].text)
}

func (s *scanned) event(p part, name string) (pmc.Event, error) {
	if name == "clock" { // "perf:clock": the zero event, whatever suits the machine
		return pmc.Event{}, nil
	}
	ev, err := pmc.ParseEvent(name, nil)
	var bad *pmc.SyntaxError
	switch {
	case err == nil:
		return ev, nil
	case errors.As(err, &bad):
		return ev, s.errorf(p.off, "%s", bad.Msg)
	}
	return ev, s.errorf(p.off, "%s", err)
}

// String is the shortest spelling of the sampling: profile, interval, software
// or hardware where one fits, else "perf:EVENT:period:N" or "perf:EVENT:hz:N";
// with " cpus=LIST", " cgroup=PATH" and " pid=N".
func (t Perf) String() string {
	s := t.spelling()
	if t.CPUs != nil {
		s += " cpus=" + cpus.Format(slices.Clone(t.CPUs))
	}
	if t.Cgroup != "" {
		s += " cgroup=" + quotePart(t.Cgroup)
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
		case pmc.TypeSoftware:
			kind = "software"
		case pmc.TypeHardware:
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
	return quotePart(e.String())
}

// duration is UNIT:N in the largest unit that divides it.
func duration(d time.Duration) string {
	for _, u := range timeUnits {
		if d%u.d == 0 {
			return u.name + ":" + decimal(uint64(d/u.d))
		}
	}
	return "ns:" + decimal(uint64(d))
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
