package probe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/near"
)

// kind is a target's kind by its first word.
type kind uint8

const (
	kindNone kind = iota
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
var kindNames = map[string]kind{
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
	for _, r := range splitTargets(text) {
		s, err := scanTarget(text, r[0], r[1])
		if err != nil {
			return nil, err
		}
		t, err := s.target()
		if err != nil {
			return nil, err
		}
		set = append(set, t)
	}
	if len(set) == 1 {
		return set[0], nil
	}
	return set, nil
}

// target builds the target of what was scanned.
func (s *scanned) target() (Target, error) {
	k, ok := kindNames[s.kind]
	switch {
	case s.kind == "" && len(s.parts) == 0:
		return nil, s.errorf(s.base, "empty target: want KIND:…, such as kprobe:vfs_read")
	case !ok:
		return nil, s.errorf(s.base, "unknown kind %q%s", s.kind, kindHint(s.kind))
	}
	t, err := s.parse(k)
	if err != nil {
		return nil, err
	}
	return s.applyOptions(t)
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

func (s *scanned) parse(k kind) (Target, error) {
	switch k {
	case kindKprobe:
		return s.kprobe()
	case kindKretprobe:
		m, sym, err := s.moduleSymbol("kretprobe:[MODULE:]FUNCTION")
		return Kretprobe{Module: m, Symbol: sym}, err
	case kindFentry:
		m, sym, id, err := s.trampoline("fentry")
		return Fentry{Module: m, Symbol: sym, BPF: id}, err
	case kindFexit:
		m, sym, id, err := s.trampoline("fexit")
		return Fexit{Module: m, Symbol: sym, BPF: id}, err
	case kindFmodRet:
		m, sym, err := s.moduleSymbol("fmod_ret:[MODULE:]FUNCTION")
		return FmodRet{Module: m, Symbol: sym}, err
	case kindTracepoint:
		p, err := s.exactly(2, "tracepoint:GROUP:NAME", "")
		if err != nil {
			return nil, err
		}
		return Tracepoint{Group: p[0].text, Name: p[1].text}, nil
	case kindRawTracepoint:
		m, name, err := s.moduleSymbol("rawtracepoint:[MODULE:]NAME")
		return RawTracepoint{Module: m, Name: name}, err
	case kindUprobe:
		return s.uprobe()
	case kindUretprobe:
		return s.uretprobe()
	case kindUSDT:
		return s.usdt()
	case kindProfile, kindInterval, kindSoftware, kindHardware, kindPerf:
		return s.perf(k)
	case kindWatchpoint:
		return s.watchpoint()
	}
	return s.parseShort(k)
}

// parseShort reads the kinds that have at most one part.
func (s *scanned) parseShort(k kind) (Target, error) {
	if k == kindBegin || k == kindEnd {
		if len(s.parts) > 0 {
			return nil, s.errorf(s.parts[0].off-1, "%s takes nothing after it", s.kind)
		}
		if k == kindBegin {
			return Begin{}, nil
		}
		return End{}, nil
	}
	want := map[kind]string{kindLSM: "lsm:HOOK", kindIter: "iter:NAME", kindSocket: "socket:INTERFACE"}[k]
	p, err := s.exactly(1, want, "")
	if err != nil {
		return nil, err
	}
	switch k {
	case kindLSM:
		return LSM{Hook: p[0].text}, nil
	case kindIter:
		return Iter{Name: p[0].text}, nil
	}
	return SocketFilter{Interface: p[0].text}, nil
}

// exactly returns n parts, none of them empty. Suffixes ("+4") are refused
// unless allowed for the last.
func (s *scanned) exactly(n int, want, suffix string) ([]part, error) {
	if len(s.parts) < n {
		return nil, s.errorf(s.end(), "something is missing: want %s", want)
	}
	if len(s.parts) > n {
		return nil, s.errorf(s.parts[n].off-1, "too many parts: want %s; a part with a colon is written in quotes", want)
	}
	for i, p := range s.parts {
		if p.text == "" {
			return nil, s.errorf(p.off, "empty part: want %s", want)
		}
		if p.suffix != "" && (i != n-1 || suffix == "") {
			return nil, s.errorf(p.off, "nothing may follow the closing quote here: want %s", want)
		}
	}
	return s.parts, nil
}

// moduleSymbol reads SYMBOL or MODULE:SYMBOL.
func (s *scanned) moduleSymbol(want string) (module, symbol string, err error) {
	n := 1
	if len(s.parts) > 1 {
		n = 2
	}
	p, err := s.exactly(n, want, "")
	if err != nil {
		return "", "", err
	}
	last := p[n-1]
	if !last.quoted && strings.Contains(last.text, "+") {
		return "", "", s.errorf(last.off+strings.IndexByte(last.text, '+'),
			"%s takes no offset: it is at the function's entry or return; only kprobe and uprobe do", s.kind)
	}
	if n == 2 {
		return p[0].text, last.text, nil
	}
	return "", last.text, nil
}

func (s *scanned) trampoline(name string) (module, symbol string, id uint32, err error) {
	if len(s.parts) != 3 {
		module, symbol, err = s.moduleSymbol(name + ":[MODULE:]FUNCTION or " + name + ":bpf:ID:FUNCTION")
		return module, symbol, 0, err
	}
	p, err := s.exactly(3, name+":bpf:ID:FUNCTION", "")
	if err != nil {
		return "", "", 0, err
	}
	if p[0].text != "bpf" || p[0].quoted {
		return "", "", 0, s.errorf(p[0].off, "want %s:bpf:ID:FUNCTION, with the id of a loaded BPF program", name)
	}
	n, err := s.number(p[1], 32)
	if err == nil && n == 0 {
		err = s.errorf(p[1].off, "BPF program ids begin at 1")
	}
	return "", p[2].text, uint32(n), err
}

func (s *scanned) kprobe() (Target, error) {
	const want = "kprobe:[MODULE:]FUNCTION[+OFFSET] or kprobe:0xADDRESS"
	n := 1
	if len(s.parts) > 1 {
		n = 2
	}
	p, err := s.exactly(n, want, "+")
	if err != nil {
		return nil, err
	}
	last := p[n-1]
	if isAddress(last) {
		if n == 2 {
			return nil, s.errorf(last.off, "a raw address takes no module: want kprobe:0xADDRESS")
		}
		a, err := s.number(last, 64)
		if err == nil && a == 0 {
			err = s.errorf(last.off, "address 0 is no kernel instruction")
		}
		return Kprobe{Address: a}, err
	}
	sym, off, err := s.symbolOffset(last)
	if err != nil {
		return nil, err
	}
	k := Kprobe{Symbol: sym, Offset: off}
	if n == 2 {
		k.Module = p[0].text
	}
	return k, nil
}

// symbolOffset splits SYMBOL+OFFSET.
func (s *scanned) symbolOffset(p part) (string, uint64, error) {
	sym, off := p.text, p.suffix
	at := p.end - len(p.suffix)
	if !p.quoted {
		i := strings.LastIndexByte(sym, '+')
		if i < 0 {
			return sym, 0, nil
		}
		sym, off, at = sym[:i], sym[i:], p.off+i
	} else if off == "" {
		return sym, 0, nil
	}
	if sym == "" {
		return "", 0, s.errorf(p.off, "an offset needs a function before it: want FUNCTION+OFFSET")
	}
	if off[0] != '+' {
		return "", 0, s.errorf(at, "only +OFFSET may follow the closing quote")
	}
	n, err := parseNumber(off[1:], 64)
	if err != nil {
		return "", 0, s.errorf(at+1, "bad offset %q: %s", off[1:], err)
	}
	return sym, n, nil
}

// isAddress tells an address from a function's name.
func isAddress(p part) bool {
	return !p.quoted && p.text != "" && p.text[0] >= '0' && p.text[0] <= '9'
}

func (s *scanned) number(p part, bits int) (uint64, error) {
	if p.quoted {
		return 0, s.errorf(p.off, "want a number, not a quoted name")
	}
	n, err := parseNumber(p.text, bits)
	if err != nil {
		return 0, s.errorf(p.off, "bad number %q: %s", p.text, err)
	}
	return n, nil
}

// parseNumber reads a decimal or 0x number, saying in a word what is wrong.
func parseNumber(t string, bits int) (uint64, error) {
	base := 10
	digits := t
	if strings.HasPrefix(t, "0x") || strings.HasPrefix(t, "0X") {
		base, digits = 16, t[2:]
	}
	n, err := strconv.ParseUint(digits, base, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("does not fit into %d bits", bits)
	case err != nil:
		return 0, errors.New("want a decimal number or one that begins with 0x")
	}
	return n, nil
}
