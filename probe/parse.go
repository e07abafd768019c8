package probe

import (
	"strings"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// applyOptions sets what follows the target after a blank.
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
		if t, ok := withPID(t, int(n)); ok {
			return t, nil
		}
	case "maxactive":
		n, err := spelling.ParseNumber(o.Value, 31)
		if err != nil || n == 0 {
			return nil, s.Errorf(o.Off, "bad maxactive %q: want a number of calls", o.Value)
		}
		if k, ok := t.(Kretprobe); ok {
			k.MaxActive = int(n)
			return k, nil
		}
	case "sleepable":
		if o.Value != "" {
			return nil, s.Errorf(o.Off, "sleepable takes no value")
		}
		switch t := t.(type) {
		case Tracepoint:
			t.Sleepable = true
			return t, nil
		case RawTracepoint:
			t.Sleepable = true
			return t, nil
		}
	default:
		return perfOption(s, t, o)
	}
	return nil, s.Errorf(o.Off, "%s does not go with %s", o.Key, s.Kind)
}

// withPID restricts a target to a process, if its kind can be.
func withPID(t Target, pid int) (Target, bool) {
	switch t := t.(type) {
	case Uprobe:
		t.PID = pid
		return t, true
	case Uretprobe:
		t.PID = pid
		return t, true
	case USDT:
		t.PID = pid
		return t, true
	case Perf:
		t.PID = pid
		return t, true
	case Watchpoint:
		t.PID = pid
		return t, true
	case Iter:
		t.PID = pid
		return t, true
	}
	return t, false
}

func sleepable(on bool) string {
	if on {
		return " sleepable"
	}
	return ""
}

// word is a target's kind by its first word.
type word uint8

const (
	kindNone word = iota
	kindKprobe
	kindKretprobe
	kindFentry
	kindFexit
	kindFmodRet
	kindLSM
	kindTracepoint
	kindRawTracepoint
	kindUprobe
	kindUretprobe
	kindUSDT
	kindProfile
	kindInterval
	kindSoftware
	kindHardware
	kindPerf
	kindWatchpoint
	kindIter
	kindSocket
	kindBegin
	kindEnd
)

// kindNames are the kinds' names and bpftrace's short and older forms
// (docs/language.adoc there, "Probes").
var kindNames = map[string]word{
	"kprobe": kindKprobe, "k": kindKprobe,
	"kretprobe": kindKretprobe, "kr": kindKretprobe,
	"fentry": kindFentry, "f": kindFentry, "kfunc": kindFentry,
	"fexit": kindFexit, "fr": kindFexit, "kretfunc": kindFexit,
	"fmod_ret":   kindFmodRet,
	"lsm":        kindLSM,
	"tracepoint": kindTracepoint, "t": kindTracepoint,
	"rawtracepoint": kindRawTracepoint, "rt": kindRawTracepoint, "raw_tracepoint": kindRawTracepoint,
	"uprobe": kindUprobe, "u": kindUprobe,
	"uretprobe": kindUretprobe, "ur": kindUretprobe,
	"usdt": kindUSDT, "U": kindUSDT,
	"profile": kindProfile, "p": kindProfile,
	"interval": kindInterval, "i": kindInterval,
	"software": kindSoftware, "s": kindSoftware,
	"hardware": kindHardware, "h": kindHardware,
	"perf":       kindPerf,
	"watchpoint": kindWatchpoint, "w": kindWatchpoint,
	"iter": kindIter, "it": kindIter,
	"socket": kindSocket,
	"begin":  kindBegin, "BEGIN": kindBegin,
	"end": kindEnd, "END": kindEnd,
}

// ParseTarget reads a target in bpftrace's syntax, as the comments of the
// kinds show it, and is the inverse of String. Several targets separated by
// commas make a Set. Parts that hold colons, blanks, commas, plus signs or
// quotes are written in double quotes with Go's escapes; bpftrace's short
// forms (k, kr, t, rt, u, ur, U, p, i, s, h, w, it) are understood.
//
// What bpftrace has no spelling for follows after a blank: "pid=123",
// "cpus=0,2-3", "cgroup=/system.slice", "maxactive=64", "sleepable".
//
// It reads nothing but its argument, except that the events of a PMU
// ("perf:armv8_pmuv3/…/:hz:9") are looked up in this machine's sysfs. Errors are
// of type *SyntaxError.
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

// SyntaxError says where a target's text is wrong, so that a front end can underline it:
// Msg says what is wrong at the byte Offset, from 0 to len(Input), of the whole text,
// Input, and what would be right.
type SyntaxError = spelling.SyntaxError

// words are the kinds and the options that may trail a target, which are this package's
// own: bpftrace has no spelling for them.
var words = spelling.Words{
	Kind: func(word string) (known, alone bool) {
		k, known := kindNames[word]
		return known, k == kindBegin || k == kindEnd
	},
	Option: func(word string) bool {
		switch word {
		case "pid", "maxactive", "sleepable", "cgroup", "cpus":
			return true
		}
		return false
	},
}

// build builds the target of what was scanned.
func build(s *spelling.Scanned) (Target, error) {
	k, ok := kindNames[s.Kind]
	switch {
	case s.Kind == "" && len(s.Parts) == 0:
		return nil, s.Errorf(s.Base, "empty target: want KIND:…, such as kprobe:vfs_read")
	case !ok:
		return nil, s.Errorf(s.Base, "unknown kind %q%s", s.Kind, kindHint(s.Kind))
	}
	t, err := parseKind(s, k)
	if err != nil {
		return nil, err
	}
	return applyOptions(s, t)
}

// kindHint offers the kinds that are near to the name, or all of them.
func kindHint(name string) string {
	if hint := near.Hint(name, kindList); hint != "" {
		return hint
	}
	return ": want KIND:…, such as kprobe:vfs_read; kinds are " + strings.Join(kindList, ", ")
}

// kindList is the names offered when a kind is misspelled.
var kindList = []string{
	"kprobe", "kretprobe", "fentry", "fexit", "fmod_ret", "lsm", "tracepoint", "rawtracepoint",
	"uprobe", "uretprobe", "usdt", "profile", "interval", "software", "hardware", "perf",
	"watchpoint", "iter", "socket", "begin", "end",
}

func parseKind(s *spelling.Scanned, k word) (Target, error) {
	switch k {
	case kindKprobe:
		return parseKprobe(s)
	case kindKretprobe:
		m, sym, err := s.ModuleSymbol("kretprobe:[MODULE:]FUNCTION")
		return Kretprobe{Module: m, Symbol: sym}, err
	case kindFentry:
		m, sym, id, err := parseTrampoline(s, "fentry")
		return Fentry{Module: m, Symbol: sym, BPF: id}, err
	case kindFexit:
		m, sym, id, err := parseTrampoline(s, "fexit")
		return Fexit{Module: m, Symbol: sym, BPF: id}, err
	case kindFmodRet:
		m, sym, err := s.ModuleSymbol("fmod_ret:[MODULE:]FUNCTION")
		return FmodRet{Module: m, Symbol: sym}, err
	case kindTracepoint:
		p, err := s.Exactly(2, "tracepoint:GROUP:NAME", "")
		if err != nil {
			return nil, err
		}
		return Tracepoint{Group: p[0].Text, Name: p[1].Text}, nil
	case kindRawTracepoint:
		m, name, err := s.ModuleSymbol("rawtracepoint:[MODULE:]NAME")
		return RawTracepoint{Module: m, Name: name}, err
	case kindUprobe:
		return parseUprobe(s)
	case kindUretprobe:
		return parseUretprobe(s)
	case kindUSDT:
		return parseUSDT(s)
	case kindProfile, kindInterval, kindSoftware, kindHardware, kindPerf:
		return parsePerf(s, k)
	case kindWatchpoint:
		return parseWatchpoint(s)
	}
	return parseShort(s, k)
}

// parseShort reads the kinds that have at most one part.
func parseShort(s *spelling.Scanned, k word) (Target, error) {
	if k == kindBegin || k == kindEnd {
		if len(s.Parts) > 0 {
			return nil, s.Errorf(s.Parts[0].Off-1, "%s takes nothing after it", s.Kind)
		}
		if k == kindBegin {
			return Begin{}, nil
		}
		return End{}, nil
	}
	want := map[word]string{kindLSM: "lsm:HOOK", kindIter: "iter:NAME", kindSocket: "socket:INTERFACE"}[k]
	p, err := s.Exactly(1, want, "")
	if err != nil {
		return nil, err
	}
	switch k {
	case kindLSM:
		return LSM{Hook: p[0].Text}, nil
	case kindIter:
		return Iter{Name: p[0].Text}, nil
	}
	return SocketFilter{Interface: p[0].Text}, nil
}
