package probe

import (
	"debug/buildinfo"
	"errors"
	"fmt"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// goTarget describes the Go program that a probe is in, which is read once for all
// probes in it.
func (r *resolver) goTarget(f *elffile.File, path string) *GoTarget {
	if r.code.program == nil {
		v := r.goVersion(path)
		r.code.program = &GoTarget{GReg: usercode.GoRegs[archOf(f.Machine)], Version: v, GoidOffset: usercode.GoidOffset(v)}
	}
	return r.code.program
}

// goVersion reads the toolchain's version from the program's build info, ""
// where it has none.
func (r *resolver) goVersion(path string) string {
	ra, _, g, err := userfile.OpenAt(r.env, r.sources(), path)
	if err != nil {
		return ""
	}
	defer g.Close()
	info, err := buildinfo.Read(ra)
	if err != nil {
		return ""
	}
	return info.GoVersion
}

// goSymbols finds functions of a stripped Go program by its function table. Where
// the code begins is not in every table: a function counts if what is at its
// address are instructions, to its end.
func (r *resolver) goSymbols(f *elffile.File, path string, want func([]byte) bool) ([]userfile.Symbol, error) {
	t, err := pclntab.New(f)
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
		if err := r.take(1); err != nil {
			return nil, err
		}
		s := userfile.Symbol{Name: string(name), Value: fn.Entry, Size: fn.End - fn.Entry, Global: true}
		if err := r.code.IsFunction(s); err != nil {
			if bad != nil {
				continue
			}
			bad = fmt.Errorf("%s: the Go function table has %s at %#x, where none is: %w", path, s.Name, s.Value, err)
			continue
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, bad
	}
	return out, nil
}
