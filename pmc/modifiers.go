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
		// Perf starts from nothing excluded here, so that "k" counts guests
		// while no modifier at all does not; "u" and "p" leave them out again.
		e.Exclude |= IncludeGuest
		if err := e.applyModifiers(own, &machine); err != nil {
			return err
		}
	}
	return e.applyModifiers(group, &machine)
}

// applyModifiers applies letters to e. The first letter of a class (user,
// kernel, hypervisor; host, guest) excludes all of the class but itself;
// machine says whether one of the second class has been seen.
func (e *Event) applyModifiers(mods string, machine *bool) error {
	const contexts = ExcludeUser | ExcludeKernel | ExcludeHV
	context := e.Exclude&contexts != 0
	for _, c := range mods {
		switch c {
		case 'u', 'k', 'h':
			if !context {
				e.Exclude |= contexts
				context = true
			}
			e.Exclude &^= map[rune]Exclude{'u': ExcludeUser, 'k': ExcludeKernel, 'h': ExcludeHV}[c]
			if c == 'u' && !*machine {
				e.Exclude &^= IncludeGuest
			}
		case 'G', 'H':
			if !*machine {
				e.Exclude = e.Exclude&^IncludeGuest | ExcludeHost
				*machine = true
			}
			if c == 'G' {
				e.Exclude |= IncludeGuest
			} else {
				e.Exclude &^= ExcludeHost
			}
		case 'I':
			e.Exclude |= ExcludeIdle
		case 'p':
			if !*machine {
				e.Exclude &^= IncludeGuest
			}
			if e.Precise++; e.Precise > 3 {
				return fmt.Errorf("modifiers %q: at most three p", mods)
			}
		default:
			flag := flagOf(c)
			if flag == 0 {
				return fmt.Errorf("no modifier %q: they are the letters %s", c, modifierLetters)
			}
			e.Flags |= flag
		}
	}
	return nil
}

func flagOf(letter rune) EventFlags {
	for _, m := range flagLetters {
		if rune(m.letter) == letter {
			return m.flag
		}
	}
	return 0
}

var flagLetters = [...]struct {
	flag   EventFlags
	letter byte
}{{FlagPreciseMax, 'P'}, {FlagSampleRead, 'S'}, {FlagPinned, 'D'}, {FlagExclusive, 'e'}, {FlagWeak, 'W'}}

// modifiers spells Exclude, Precise and Flags; modify is the inverse.
func (e Event) modifiers() string {
	var b strings.Builder
	if e.Exclude&(ExcludeUser|ExcludeKernel|ExcludeHV) != 0 {
		for _, m := range []struct {
			bit    Exclude
			letter byte
		}{{ExcludeUser, 'u'}, {ExcludeKernel, 'k'}, {ExcludeHV, 'h'}} {
			if e.Exclude&m.bit == 0 {
				b.WriteByte(m.letter)
			}
		}
	}
	if e.Exclude&ExcludeIdle != 0 {
		b.WriteByte('I')
	}
	b.WriteString(strings.Repeat("p", int(min(e.Precise, 3))))
	for _, m := range flagLetters {
		if e.Flags&m.flag != 0 {
			b.WriteByte(m.letter)
		}
	}
	mods := b.String()
	// What these letters alone say of guests; see modify.
	implied := IncludeGuest
	if mods == "" || strings.ContainsAny(mods, "up") {
		implied = 0
	}
	machine := e.Exclude & (ExcludeHost | IncludeGuest)
	switch {
	case machine == implied:
		return mods
	case machine == ExcludeHost|IncludeGuest:
		return mods + "G"
	case machine == IncludeGuest:
		return mods + "GH"
	}
	return mods + "H"
}
