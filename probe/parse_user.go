package probe

import (
	"errors"
	"strings"

	"github.com/borescope/borescope/internal/cpus"
)

// langs are the words between path and symbol that ask for a demangled name.
var langs = map[string]bool{"cpp": true, "rust": true, "go": true}

const uprobeForms = "uprobe:PATH:FUNCTION[+OFFSET], PATH:0xADDRESS, PATH:LANG:NAME or PATH:FILE:LINE[:COLUMN]"

func (s *scanned) uprobe() (Target, error) {
	if err := s.userParts(uprobeForms); err != nil {
		return nil, err
	}
	u := Uprobe{Path: s.parts[0].text}
	switch p := s.parts[1:]; {
	case len(p) > 1 && langs[p[0].text] && !p[0].quoted:
		name, err := s.rest(2)
		if err != nil {
			return nil, err
		}
		sym, off, err := s.demangledOffset(name)
		u.Lang, u.Symbol, u.Offset = p[0].text, sym, off
		return u, err
	case len(p) == 2:
		return s.sourceLine(u, p[0], p[1], nil)
	case len(p) == 3 && isNumber(p[1]):
		return s.sourceLine(u, p[0], p[1], &p[2])
	case len(p) > 2:
		return nil, s.errorf(p[2].off-1, "too many parts: want %s; a part with a colon is written in quotes", uprobeForms)
	case isAddress(p[0]):
		a, err := s.number(p[0], 64)
		u.Address = a
		return u, err
	default:
		sym, off, err := s.symbolOffset(p[0])
		u.Symbol, u.Offset = sym, off
		return u, err
	}
}

// userParts checks for PATH:SOMETHING. The path may be empty, which means the
// executable of the process given by pid=.
func (s *scanned) userParts(want string) error {
	if len(s.parts) < 2 {
		return s.errorf(s.end(), "something is missing: want %s", want)
	}
	if p := s.parts[0]; p.suffix != "" {
		return s.errorf(p.off, "nothing may follow the closing quote of the path")
	}
	if p := s.parts[len(s.parts)-1]; p.text == "" {
		return s.errorf(p.off, "empty part: want %s", want)
	}
	return nil
}

// isNumber tells a part that can be a line.
func isNumber(p part) bool {
	_, err := parseNumber(p.text, 31)
	return err == nil && !p.quoted
}

// sourceLine is FILE:LINE[:COLUMN].
func (s *scanned) sourceLine(u Uprobe, file, line part, column *part) (Target, error) {
	if file.text == "" {
		return nil, s.errorf(file.off, "empty part: want %s", uprobeForms)
	}
	if file.suffix != "" || line.suffix != "" {
		return nil, s.errorf(file.off, "nothing may follow a closing quote here: want %s", uprobeForms)
	}
	n, err := s.number(line, 31)
	if err != nil {
		return nil, s.errorf(line.off, "%q is no line number, and %q no language (cpp, rust, go): want %s",
			line.text, file.text, uprobeForms)
	}
	if n == 0 {
		return nil, s.errorf(line.off, "source lines begin at 1")
	}
	u.File, u.Line = file.text, int(n)
	if column == nil {
		return u, nil
	}
	if n, err = s.number(*column, 31); err != nil || n == 0 {
		return nil, s.errorf(column.off, "%q is no column: they begin at 1", column.text)
	}
	u.Column = int(n)
	return u, nil
}

// rest joins the parts from i on into one: the demangled name, whose colons
// need no quotes.
func (s *scanned) rest(i int) (part, error) {
	p := s.parts[i]
	if p.quoted || i == len(s.parts)-1 {
		if i < len(s.parts)-1 {
			return p, s.errorf(s.parts[i+1].off-1, "nothing but +OFFSET may follow the closing quote")
		}
		return p, nil
	}
	end := s.end()
	for _, q := range s.parts[i:] {
		if q.quoted {
			return p, s.errorf(q.off, "quote all of the name or nothing of it")
		}
	}
	p.text = s.input[p.off:end]
	return p, nil
}

// demangledOffset splits NAME+OFFSET where only a number after the last plus
// sign counts: C++ has operators of that name.
func (s *scanned) demangledOffset(p part) (string, uint64, error) {
	if p.quoted {
		return s.symbolOffset(p)
	}
	if i := strings.LastIndexByte(p.text, '+'); i > 0 {
		if n, err := parseNumber(p.text[i+1:], 64); err == nil {
			return p.text[:i], n, nil
		}
	}
	return p.text, 0, nil
}

func (s *scanned) uretprobe() (Target, error) {
	const want = "uretprobe:PATH:FUNCTION or PATH:LANG:NAME"
	if err := s.userParts(want); err != nil {
		return nil, err
	}
	u := Uretprobe{Path: s.parts[0].text}
	p := s.parts[1:]
	if len(p) > 1 && langs[p[0].text] && !p[0].quoted {
		name, err := s.rest(2)
		if err == nil && name.suffix != "" {
			err = s.errorf(name.off, "a return probe takes no offset")
		}
		u.Lang, u.Symbol = p[0].text, name.text
		return u, err
	}
	if len(p) > 1 {
		return nil, s.errorf(p[1].off-1, "too many parts: want %s; a part with a colon is written in quotes", want)
	}
	if isAddress(p[0]) {
		return nil, s.errorf(p[0].off, "a return probe needs a function's name, not an address")
	}
	sym, off, err := s.symbolOffset(p[0])
	if err == nil && off != 0 {
		err = s.errorf(p[0].off, "a return probe takes no offset")
	}
	u.Symbol = sym
	return u, err
}

func (s *scanned) usdt() (Target, error) {
	const want = "usdt:PATH:[PROVIDER:]NAME"
	if err := s.userParts(want); err != nil {
		return nil, err
	}
	if len(s.parts) > 3 {
		return nil, s.errorf(s.parts[3].off-1, "too many parts: want %s; a part with a colon is written in quotes", want)
	}
	for _, p := range s.parts {
		if p.suffix != "" {
			return nil, s.errorf(p.off, "nothing may follow a closing quote here: want %s", want)
		}
	}
	u := USDT{Path: s.parts[0].text, Name: s.parts[len(s.parts)-1].text}
	if len(s.parts) == 3 {
		u.Provider = s.parts[1].text
	}
	return u, nil
}

func (s *scanned) watchpoint() (Target, error) {
	p, err := s.exactly(3, "watchpoint:ADDRESS:LENGTH:MODE", "")
	if err != nil {
		return nil, err
	}
	w := Watchpoint{Mode: p[2].text}
	if isAddress(p[0]) {
		if w.Address, err = s.number(p[0], 64); err != nil {
			return nil, err
		}
	} else {
		w.Symbol = p[0].text
	}
	n, err := s.number(p[1], 8)
	if err != nil {
		return nil, err
	}
	if n != 1 && n != 2 && n != 4 && n != 8 {
		return nil, s.errorf(p[1].off, "a watchpoint is 1, 2, 4 or 8 bytes long")
	}
	w.Length = int(n)
	for i := range w.Mode {
		if !strings.Contains("rwx", w.Mode[i:i+1]) || strings.Contains(w.Mode[:i], w.Mode[i:i+1]) {
			return nil, s.errorf(p[2].off+i, "bad mode %q: want any of r, w, x, each once", w.Mode)
		}
	}
	return w, nil
}

// applyOptions sets what follows the target after a blank.
func (s *scanned) applyOptions(t Target) (Target, error) {
	seen := map[string]bool{}
	for _, o := range s.options {
		if seen[o.key] {
			return nil, s.errorf(o.off, "%s is given twice", o.key)
		}
		seen[o.key] = true
		var err error
		if t, err = s.applyOption(t, o); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (s *scanned) applyOption(t Target, o option) (Target, error) {
	switch o.key {
	case "pid":
		n, err := parseNumber(o.value, 31)
		if err != nil || n == 0 {
			return nil, s.errorf(o.off, "bad pid %q: want a process id", o.value)
		}
		if t, ok := withPID(t, int(n)); ok {
			return t, nil
		}
	case "maxactive":
		n, err := parseNumber(o.value, 31)
		if err != nil || n == 0 {
			return nil, s.errorf(o.off, "bad maxactive %q: want a number of calls", o.value)
		}
		if k, ok := t.(Kretprobe); ok {
			k.MaxActive = int(n)
			return k, nil
		}
	case "sleepable":
		if o.value != "" {
			return nil, s.errorf(o.off, "sleepable takes no value")
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
		return s.perfOption(t, o)
	}
	return nil, s.errorf(o.off, "%s does not go with %s", o.key, s.kind)
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

func (s *scanned) perfOption(t Target, o option) (Target, error) {
	p, ok := t.(Perf)
	if !ok {
		return nil, s.errorf(o.off, "%s does not go with %s", o.key, s.kind)
	}
	if o.key == "cgroup" {
		if o.value == "" {
			return nil, s.errorf(o.off, "cgroup needs a path")
		}
		p.Cgroup = o.value
		return p, nil
	}
	list, err := cpus.Parse(o.value)
	if err == nil && len(list) == 0 {
		err = errors.New("want CPU numbers such as 0,2-3")
	}
	if err != nil {
		return nil, s.errorf(o.off, "bad cpus %q: %s", o.value, err)
	}
	p.CPUs = list
	return p, nil
}
