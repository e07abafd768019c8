package probe

import (
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// applyOptions sets the options that follow the target after a blank.
func applyOptions(s *spelling.Scanned, t Target) (Target, error) {
	seen := map[string]bool{}
	for _, o := range s.Options {
		if seen[o.Key] {
			return nil, s.Errorf(o.Off, "%s is given twice", o.Key)
		}
		seen[o.Key] = true
		var err error
		if t, err = applyOption(s, t, o); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func applyOption(s *spelling.Scanned, t Target, o spelling.Option) (Target, error) {
	switch o.Key {
	case "pid":
		n, err := spelling.ParseNumber(o.Value, 31)
		if err != nil || n == 0 {
			return nil, s.Errorf(o.Off, "bad pid %q: want a process id", o.Value)
		}
		if t, ok := t.(interface{ withPID(pid int) Target }); ok {
			return t.withPID(int(n)), nil
		}
	case "maxactive":
		n, err := spelling.ParseNumber(o.Value, 31)
		if err != nil || n == 0 {
			return nil, s.Errorf(o.Off, "bad maxactive %q: want a number of calls", o.Value)
		}
		if t, ok := t.(interface{ withMaxActive(n int) Target }); ok {
			return t.withMaxActive(int(n)), nil
		}
	case "sleepable":
		if o.Value != "" {
			return nil, s.Errorf(o.Off, "sleepable takes no value")
		}
		if t, ok := t.(interface{ withSleepable() Target }); ok {
			return t.withSleepable(), nil
		}
	default:
		return perfOption(s, t, o)
	}
	return nil, s.Errorf(o.Off, "%s does not go with %s", o.Key, s.Kind)
}

func sleepable(on bool) string {
	if on {
		return " sleepable"
	}
	return ""
}

// spelled says how targets of a kind are written. It stands beside the kind.
type spelled struct {
	// words begin the text: the kind's name, then bpftrace's short and older forms
	// (docs/language.adoc there, "Probes").
	words []string
	// alone is set if the word is the whole target.
	alone bool
	parse func(s *spelling.Scanned) (Target, error)
	// pattern serves kinds for which List accepts more than parse does: it lists what
	// follows the word, or completes it.
	pattern func(l *lister, rest string) (complete string, listed bool, err error)
}

// kinds are all kinds, in the order in which error messages offer them.
var kinds = []spelled{
	kprobeSpelled, kretprobeSpelled, fentrySpelled, fexitSpelled, fmodRetSpelled, lsmSpelled,
	tracepointSpelled, rawTracepointSpelled, uprobeSpelled, uretprobeSpelled, usdtSpelled,
	profileSpelled, intervalSpelled, softwareSpelled, hardwareSpelled, perfSpelled, watchpointSpelled,
	iterSpelled, socketSpelled, beginSpelled, endSpelled,
}

// kindNamed returns the kind that the word names, nil if there is none.
func kindNamed(word string) *spelled {
	for i := range kinds {
		if slices.Contains(kinds[i].words, word) {
			return &kinds[i]
		}
	}
	return nil
}

// kindNames returns the names of the kinds.
func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.words[0]
	}
	return names
}

// ParseTarget parses a target in bpftrace's syntax, as the comments of the kinds show
// it, and is the inverse of String. Several targets separated by commas make a Set.
// Parts that contain colons, blanks, commas, plus signs or quotes are written in double
// quotes with Go's escapes. bpftrace's short forms (k, kr, t, rt, u, ur, U, p, i, s, h,
// w, it) are understood.
//
// Options for which bpftrace has no spelling follow after a blank: "pid=123",
// "cpus=0,2-3", "cgroup=/system.slice", "maxactive=64", "sleepable".
//
// It reads only its argument, except that the events of a PMU
// ("perf:armv8_pmuv3/…/:hz:9") are looked up in this machine's sysfs. Errors are of type
// *SyntaxError.
func ParseTarget(text string) (Target, error) {
	var set Set
	err := words.Scan(text, func(s *spelling.Scanned) error {
		t, err := build(s)
		set = append(set, t)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(set) == 1:
		return set[0], nil
	}
	return set, nil
}

// SyntaxError reports where a target's text is wrong, so that a front end can underline
// it. Input is the whole text and Offset a byte offset in it, from 0 to len(Input). Msg
// says what is wrong there and what would be right.
type SyntaxError = spelling.SyntaxError

// words are the kinds, and the options that may follow a target, which are this package's
// own: bpftrace has no spelling for them.
var words = spelling.Words{
	Kind: func(word string) (known, alone bool) {
		k := kindNamed(word)
		return k != nil, k != nil && k.alone
	},
	Option: func(word string) bool {
		switch word {
		case "pid", "maxactive", "sleepable", "cgroup", "cpus":
			return true
		}
		return false
	},
}

// build returns the target of the scanned text.
func build(s *spelling.Scanned) (Target, error) {
	k := kindNamed(s.Kind)
	switch {
	case s.Kind == "" && len(s.Parts) == 0:
		return nil, s.Errorf(s.Base, "empty target: want KIND:…, such as kprobe:vfs_read")
	case k == nil:
		return nil, s.Errorf(s.Base, "unknown kind %q%s", s.Kind, kindHint(s.Kind))
	}
	t, err := k.parse(s)
	if err != nil {
		return nil, err
	}
	return applyOptions(s, t)
}

// kindHint offers the kinds whose names are near, or all of them.
func kindHint(name string) string {
	names := kindNames()
	if hint := near.Hint(name, names); hint != "" {
		return hint
	}
	return ": want KIND:…, such as kprobe:vfs_read; kinds are " + strings.Join(names, ", ")
}

// single parses a kind that has exactly one part.
func single(want string, target func(text string) Target) func(*spelling.Scanned) (Target, error) {
	return func(s *spelling.Scanned) (Target, error) {
		p, err := s.Exactly(1, want, "")
		if err != nil {
			return nil, err
		}
		return target(p[0].Text), nil
	}
}

// nothing parses a kind that is a word alone.
func nothing(t Target) func(*spelling.Scanned) (Target, error) {
	return func(s *spelling.Scanned) (Target, error) {
		if len(s.Parts) > 0 {
			return nil, s.Errorf(s.Parts[0].Off-1, "%s takes nothing after it", s.Kind)
		}
		return t, nil
	}
}
