package usercode

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// GoFunctions finds functions of a stripped Go program by its function table; take books
// one before it is looked at. Where
// the code begins is not in every table: a function counts if what is at its
// address are instructions, to its end.
func (b *Boundaries) GoFunctions(path string, want func([]byte) bool,
	take func(n int) error,
) ([]userfile.Symbol, error) {
	t, err := pclntab.New(b.F)
	if errors.Is(err, pclntab.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: Go function table: %w", path, err)
	}
	var out []userfile.Symbol
	var bad error
	names := t.Names()
	for i := range t.Len() {
		fn, ok := t.Func(i)
		if !ok {
			continue
		}
		name, err := names.At(uint64(fn.NameOffset()))
		if err != nil {
			return nil, fmt.Errorf("%s: Go function table: %w", path, err)
		}
		if !want(name) {
			continue
		}
		if err := take(1); err != nil {
			return nil, err
		}
		s := userfile.Symbol{Name: string(name), Value: fn.Entry, Size: fn.End - fn.Entry, Global: true}
		if err := b.IsFunction(s); err != nil {
			if bad != nil {
				continue
			}
			bad = fmt.Errorf("%s: the Go function table has %s at %#x, where none is: %w", path, s.Name,
				s.Value, err)
			continue
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, bad
	}
	return out, nil
}
