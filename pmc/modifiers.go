package pmc

import (
	"fmt"
	"strings"
)

// modifierLetters are perf's (tools/perf/util/parse-events.l). "b", counting
// with BPF programs of perf's own, is not among them.
const modifierLetters = "ukhGHIpPSDeW"

func validModifiers(s string) bool { return strings.Trim(s, modifierLetters) == "" }

// modify applies an event's own modifiers and then its group's, the way perf
// does (parse_events__modifier_event, get_event_modifier).
func (e *Event) modify(own, group string) error {
	machine := false
	if own != "" {
		// Perf starts with no exclusions here, so that "k" counts guests while no modifier
		// at all does not; "u" and "p" exclude them again.
		e.Exclude.IncludeGuest = true
		if err := e.applyModifiers(own, &machine); err != nil {
			return err
		}
	}
	return e.applyModifiers(group, &machine)
}

// applyModifiers applies letters to e. The first letter of a class (user, kernel, hypervisor;
// host, guest) excludes the rest of the class; machine is set if a letter of the second class
// has been seen.
func (e *Event) applyModifiers(mods string, machine *bool) error {
	context := e.restricted()
	for _, c := range []byte(mods) {
		switch c {
		case 'u', 'k', 'h':
			if !context {
				e.Exclude.User, e.Exclude.Kernel, e.Exclude.HV = true, true, true
				context = true
			}
			*e.excluded(c) = false
			if c == 'u' && !*machine {
				e.Exclude.IncludeGuest = false
			}
		case 'G', 'H':
			if !*machine {
				e.Exclude.IncludeGuest, e.Exclude.Host = false, true
				*machine = true
			}
			if c == 'G' {
				e.Exclude.IncludeGuest = true
			} else {
				e.Exclude.Host = false
			}
		case 'I':
			e.Exclude.Idle = true
		case 'p':
			if !*machine {
				e.Exclude.IncludeGuest = false
			}
			if e.Precise++; e.Precise > 3 {
				return fmt.Errorf("modifiers %q: p may stand three times at most", mods)
			}
		default:
			flag := e.flag(c)
			if flag == nil {
				return fmt.Errorf("no modifier %q: they are the letters %s", c, modifierLetters)
			}
			*flag = true
		}
	}
	return nil
}

// restricted reports whether the event is not counted in some of the contexts
// of one machine.
func (e *Event) restricted() bool { return e.Exclude.User || e.Exclude.Kernel || e.Exclude.HV }

// excluded returns the field that excludes a letter's mode.
func (e *Event) excluded(letter byte) *bool {
	switch letter {
	case 'u':
		return &e.Exclude.User
	case 'k':
		return &e.Exclude.Kernel
	}
	return &e.Exclude.HV
}

const flagLetters = "PSDeW"

// flag returns the field for one of flagLetters, nil for another letter.
func (e *Event) flag(letter byte) *bool {
	switch letter {
	case 'P':
		return &e.PreciseMax
	case 'S':
		return &e.SampleRead
	case 'D':
		return &e.Pinned
	case 'e':
		return &e.Exclusive
	case 'W':
		return &e.Weak
	}
	return nil
}

// modifiers returns the letters that modify parses.
func (e Event) modifiers() string {
	var b strings.Builder
	if e.restricted() {
		for _, c := range []byte("ukh") {
			if !*e.excluded(c) {
				b.WriteByte(c)
			}
		}
	}
	if e.Exclude.Idle {
		b.WriteByte('I')
	}
	b.WriteString(strings.Repeat("p", int(min(e.Precise, 3))))
	for _, c := range []byte(flagLetters) {
		if *e.flag(c) {
			b.WriteByte(c)
		}
	}
	mods := b.String()
	// What these letters alone imply for guests; see modify.
	implied := mods != "" && !strings.ContainsAny(mods, "up")
	switch {
	case !e.Exclude.Host && e.Exclude.IncludeGuest == implied:
		return mods
	case e.Exclude.Host && e.Exclude.IncludeGuest:
		return mods + "G"
	case e.Exclude.IncludeGuest:
		return mods + "GH"
	}
	return mods + "H"
}
