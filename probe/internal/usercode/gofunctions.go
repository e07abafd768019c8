package usercode

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// GoFunctions finds functions of a stripped Go program in its function table. It calls take(1)
// for each function that want selects, before it decodes it. Not every table contains the
// address at which the code begins, so a function counts only if the bytes at its address are
// instructions, to its end.
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
