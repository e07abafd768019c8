package probe

import (
	"errors"
	"strings"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// langs are the words between path and symbol that ask for a demangled name.
var langs = map[string]bool{"cpp": true, "rust": true, "go": true}

const uprobeForms = "uprobe:PATH:FUNCTION[+OFFSET], PATH:0xADDRESS, PATH:LANG:NAME or PATH:FILE:LINE[:COLUMN]"

func parseUprobe(s *spelling.Scanned) (Target, error) {
	if err := s.UserParts(uprobeForms); err != nil {
		return nil, err
	}
	u := Uprobe{Path: s.Parts[0].Text}
	switch p := s.Parts[1:]; {
	case len(p) > 1 && langs[p[0].Text] && !p[0].Quoted:
		name, err := s.Rest(2)
		if err != nil {
			return nil, err
		}
		sym, off, err := s.DemangledOffset(name)
		u.Lang, u.Symbol, u.Offset = p[0].Text, sym, off
		return u, err
	case len(p) == 2:
		return parseSourceLine(s, u, p[0], p[1], nil)
	case len(p) == 3 && spelling.IsNumber(p[1]):
		return parseSourceLine(s, u, p[0], p[1], &p[2])
	case len(p) > 2:
		return nil, s.Errorf(p[2].Off-1, "too many parts: want %s; a part with a colon is written in quotes", uprobeForms)
	case spelling.IsAddress(p[0]):
		a, err := s.Number(p[0], 64)
		u.Address = a
		return u, err
	default:
		sym, off, err := s.SymbolOffset(p[0])
		u.Symbol, u.Offset = sym, off
		return u, err
	}
}

// sourceLine is FILE:LINE[:COLUMN].
func parseSourceLine(s *spelling.Scanned, u Uprobe, file, line spelling.Part, column *spelling.Part) (Target, error) {
	if file.Text == "" {
		return nil, s.Errorf(file.Off, "empty part: want %s", uprobeForms)
	}
	if file.Suffix != "" || line.Suffix != "" {
		return nil, s.Errorf(file.Off, "nothing may follow a closing quote here: want %s", uprobeForms)
	}
	n, err := s.Number(line, 31)
	if err != nil {
		return nil, s.Errorf(line.Off, "%q is no line number, and %q no language (cpp, rust, go): want %s",
			line.Text, file.Text, uprobeForms)
	}
	if n == 0 {
		return nil, s.Errorf(line.Off, "source lines begin at 1")
	}
	u.File, u.Line = file.Text, int(n)
	if column == nil {
		return u, nil
	}
	if n, err = s.Number(*column, 31); err != nil || n == 0 {
		return nil, s.Errorf(column.Off, "%q is no column: they begin at 1", column.Text)
	}
	u.Column = int(n)
	return u, nil
}

func parseUretprobe(s *spelling.Scanned) (Target, error) {
	const want = "uretprobe:PATH:FUNCTION or PATH:LANG:NAME"
	if err := s.UserParts(want); err != nil {
		return nil, err
	}
	u := Uretprobe{Path: s.Parts[0].Text}
	p := s.Parts[1:]
	if len(p) > 1 && langs[p[0].Text] && !p[0].Quoted {
		name, err := s.Rest(2)
		if err == nil && name.Suffix != "" {
			err = s.Errorf(name.Off, "a return probe takes no offset")
		}
		u.Lang, u.Symbol = p[0].Text, name.Text
		return u, err
	}
	if len(p) > 1 {
		return nil, s.Errorf(p[1].Off-1, "too many parts: want %s; a part with a colon is written in quotes", want)
	}
	if spelling.IsAddress(p[0]) {
		return nil, s.Errorf(p[0].Off, "a return probe needs a function's name, not an address")
	}
	sym, off, err := s.SymbolOffset(p[0])
	if err == nil && off != 0 {
		err = s.Errorf(p[0].Off, "a return probe takes no offset")
	}
	u.Symbol = sym
	return u, err
}

func parseUSDT(s *spelling.Scanned) (Target, error) {
	const want = "usdt:PATH:[PROVIDER:]NAME"
	if err := s.UserParts(want); err != nil {
		return nil, err
	}
	if len(s.Parts) > 3 {
		return nil, s.Errorf(s.Parts[3].Off-1, "too many parts: want %s; a part with a colon is written in quotes", want)
	}
	for _, p := range s.Parts {
		if p.Suffix != "" {
			return nil, s.Errorf(p.Off, "nothing may follow a closing quote here: want %s", want)
		}
	}
	u := USDT{Path: s.Parts[0].Text, Name: s.Parts[len(s.Parts)-1].Text}
	if len(s.Parts) == 3 {
		u.Provider = s.Parts[1].Text
	}
	return u, nil
}

func parseWatchpoint(s *spelling.Scanned) (Target, error) {
	p, err := s.Exactly(3, "watchpoint:ADDRESS:LENGTH:MODE", "")
	if err != nil {
		return nil, err
	}
	w := Watchpoint{Mode: p[2].Text}
	if spelling.IsAddress(p[0]) {
		if w.Address, err = s.Number(p[0], 64); err != nil {
			return nil, err
		}
	} else {
		w.Symbol = p[0].Text
	}
	n, err := s.Number(p[1], 8)
	if err != nil {
		return nil, err
	}
	if n != 1 && n != 2 && n != 4 && n != 8 {
		return nil, s.Errorf(p[1].Off, "a watchpoint is 1, 2, 4 or 8 bytes long")
	}
	w.Length = int(n)
	for i := range w.Mode {
		if !strings.Contains("rwx", w.Mode[i:i+1]) || strings.Contains(w.Mode[:i], w.Mode[i:i+1]) {
			return nil, s.Errorf(p[2].Off+i, "bad mode %q: want any of r, w, x, each once", w.Mode)
		}
	}
	return w, nil
}

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
