package ksyms

import (
	"io"
	"slices"

	"github.com/borescope/borescope/internal/kallsyms"
)

// ParseNear reads a stream as Parse does, but keeps only the symbols that pcs can be named by:
// those next to one of the addresses, and others of the same address. Such a table returns the
// whole table's names for pcs, in a hundredth of its memory.
func ParseNear(r io.Reader, all bool, pcs []uint64) (*Table, error) {
	pcs = slices.Clone(pcs)
	slices.Sort(pcs)
	pcs = slices.Compact(pcs)
	gaps := make([]symbolGap, len(pcs)+1)
	lines := kallsyms.NewLines(r)
	hidden := true
	g := 0 // the gap of the last symbol: usually of the next one, too
	for lines.Next() {
		v := lines.Address
		hidden = hidden && v == 0
		if !all && !IsCode(lines.Type) {
			continue
		}
		if g > 0 && v <= pcs[g-1] || g < len(pcs) && v > pcs[g] {
			g, _ = slices.BinarySearch(pcs, v)
		}
		gaps[g].add(lines)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	p := &parser{mods: []string{"[kernel]"}}
	if hidden && lines.Line() > 0 {
		return &Table{mods: p.mods, Hidden: true}, nil
	}
	for i := range gaps {
		first, last := &gaps[i].first, &gaps[i].last
		p.addAll(first)
		if last.at != first.at {
			p.addAll(last)
		}
	}
	t := p.table()
	t.Names = make([]string, len(t.typ))
	return t, nil
}

// symbolGap contains the first and the last symbols above one of the addresses and not above
// the next.
type symbolGap struct{ first, last nearSymbols }

// nearSymbols are the symbols of one address, syms[:n].
type nearSymbols struct {
	at   uint64
	n    int // of syms
	syms []nearSymbol
}

type nearSymbol struct {
	typ       byte
	name, mod []byte
}

func (g *symbolGap) add(line *kallsyms.Lines) {
	v := line.Address
	if g.first.n == 0 || v <= g.first.at {
		g.first.add(line, v)
	}
	if g.last.n == 0 || v >= g.last.at {
		g.last.add(line, v)
	}
}

// add adds a symbol of an address, in place of those of another address, whose memory it uses
// again.
func (s *nearSymbols) add(line *kallsyms.Lines, at uint64) {
	if s.n > 0 && at != s.at {
		s.n = 0
	}
	s.at = at
	if s.n == len(s.syms) {
		s.syms = append(s.syms, nearSymbol{})
	}
	sym := &s.syms[s.n]
	sym.typ, sym.name, sym.mod = line.Type, append(sym.name[:0], line.Name()...),
		append(sym.mod[:0], line.Module()...)
	s.n++
}

func (p *parser) addAll(s *nearSymbols) {
	for _, sym := range s.syms[:s.n] {
		p.add(s.at, sym.typ, sym.name, sym.mod)
	}
}
