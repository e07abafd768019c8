package spelling

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Exactly returns the parts, of which there must be n, none empty. A suffix ("+4") is an
// error, except after the last part if the argument suffix is not empty.
func (s *Scanned) Exactly(n int, want, suffix string) ([]Part, error) {
	if len(s.Parts) < n {
		return nil, s.Errorf(s.Last(), "something is missing: want %s", want)
	}
	if len(s.Parts) > n {
		return nil, s.Errorf(s.Parts[n].Off-1,
			"too many parts: want %s; a part with a colon is written in quotes", want)
	}
	for i, p := range s.Parts {
		if p.Text == "" {
			return nil, s.Errorf(p.Off, "empty part: want %s", want)
		}
		if p.Suffix != "" && (i != n-1 || suffix == "") {
			return nil, s.Errorf(p.Off, "nothing may follow the closing quote here: want %s", want)
		}
	}
	return s.Parts, nil
}

// ModuleSymbol reads SYMBOL or MODULE:SYMBOL.
func (s *Scanned) ModuleSymbol(want string) (module, symbol string, err error) {
	n := 1
	if len(s.Parts) > 1 {
		n = 2
	}
	p, err := s.Exactly(n, want, "")
	if err != nil {
		return "", "", err
	}
	last := p[n-1]
	if !last.Quoted && strings.Contains(last.Text, "+") {
		return "", "", s.Errorf(last.Off+strings.IndexByte(last.Text, '+'),
			"%s takes no offset: it is at the function's entry or return; only kprobe and uprobe do", s.Kind)
	}
	if n == 2 {
		return p[0].Text, last.Text, nil
	}
	return "", last.Text, nil
}

// SymbolOffset splits SYMBOL+OFFSET.
func (s *Scanned) SymbolOffset(p Part) (string, uint64, error) {
	sym, off := p.Text, p.Suffix
	at := p.End - len(p.Suffix)
	if !p.Quoted {
		i := strings.LastIndexByte(sym, '+')
		if i < 0 {
			return sym, 0, nil
		}
		sym, off, at = sym[:i], sym[i:], p.Off+i
	} else if off == "" {
		return sym, 0, nil
	}
	if sym == "" {
		return "", 0, s.Errorf(p.Off, "an offset needs a function before it: want FUNCTION+OFFSET")
	}
	if off[0] != '+' {
		return "", 0, s.Errorf(at, "only +OFFSET may follow the closing quote")
	}
	n, err := ParseNumber(off[1:], 64)
	if err != nil {
		return "", 0, s.Errorf(at+1, "bad offset %q: %s", off[1:], err)
	}
	return sym, n, nil
}

// IsAddress reports whether a part is an address, not a function's name.
func IsAddress(p Part) bool {
	return !p.Quoted && p.Text != "" && p.Text[0] >= '0' && p.Text[0] <= '9'
}

// Number parses a part as a number of at most the given bits.
func (s *Scanned) Number(p Part, bits int) (uint64, error) {
	if p.Quoted {
		return 0, s.Errorf(p.Off, "want a number, not a quoted name")
	}
	n, err := ParseNumber(p.Text, bits)
	if err != nil {
		return 0, s.Errorf(p.Off, "bad number %q: %s", p.Text, err)
	}
	return n, nil
}

// ParseNumber parses a decimal or 0x number. Its error is short, for use in a longer message.
func ParseNumber(t string, bits int) (uint64, error) {
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

// UserParts checks that the target has the form PATH:SOMETHING. The path may be empty, which
// means the executable of the process given by pid=.
func (s *Scanned) UserParts(want string) error {
	if len(s.Parts) < 2 {
		return s.Errorf(s.Last(), "something is missing: want %s", want)
	}
	if p := s.Parts[0]; p.Suffix != "" {
		return s.Errorf(p.Off, "nothing may follow the closing quote of the path")
	}
	if p := s.Parts[len(s.Parts)-1]; p.Text == "" {
		return s.Errorf(p.Off, "empty part: want %s", want)
	}
	return nil
}

// IsNumber reports whether a part can be a line number.
func IsNumber(p Part) bool {
	_, err := ParseNumber(p.Text, 31)
	return err == nil && !p.Quoted
}

// Rest joins the parts from i on into one: a demangled name, in which colons need no quotes.
func (s *Scanned) Rest(i int) (Part, error) {
	p := s.Parts[i]
	if p.Quoted || i == len(s.Parts)-1 {
		if i < len(s.Parts)-1 {
			return p, s.Errorf(s.Parts[i+1].Off-1, "nothing but +OFFSET may follow the closing quote")
		}
		return p, nil
	}
	end := s.Last()
	for _, q := range s.Parts[i:] {
		if q.Quoted {
			return p, s.Errorf(q.Off, "quote all of the name or nothing of it")
		}
	}
	p.Text = s.Input[p.Off:end]
	return p, nil
}

// DemangledOffset splits NAME+OFFSET. It splits only if a number follows the last plus sign,
// because C++ has operators with that name.
func (s *Scanned) DemangledOffset(p Part) (string, uint64, error) {
	if p.Quoted {
		return s.SymbolOffset(p)
	}
	if i := strings.LastIndexByte(p.Text, '+'); i > 0 {
		if n, err := ParseNumber(p.Text[i+1:], 64); err == nil {
			return p.Text[:i], n, nil
		}
	}
	return p.Text, 0, nil
}
