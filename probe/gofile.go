package probe

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"go/version"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/pclntab"
)

// goRegs are the DWARF numbers of the register that holds the current g in
// ABIInternal: r14 on amd64, x28 on arm64.
var goRegs = map[string]int{"amd64": 14, "arm64": 28}

// goTarget describes the Go program that a probe is in, which is read once for all
// probes in it.
func (r *resolver) goTarget(f *elffile.File, path string) *GoTarget {
	if r.code.program == nil {
		v := r.goVersion(path)
		r.code.program = &GoTarget{GReg: goRegs[archOf(f.Machine)], Version: v, GoidOffset: goidOffset(v)}
	}
	return r.code.program
}

// goVersion reads the toolchain's version from the program's build info, ""
// where it has none.
func (r *resolver) goVersion(path string) string {
	ra, _, g, err := openAt(r.env, r.sources(), path)
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

// goidOffset is the offset of g.goid in runtime.g on 64-bit machines: stack (2
// words), stackguard0 and 1, _panic, _defer, m, sched (gobuf: 7 words up to Go
// 1.24, 6 from 1.25, which dropped ret), syscallsp, syscallpc, and from 1.23
// syscallbp, stktopsp, param, atomicstatus and stackLock (4 bytes each), goid.
// It is 0 for versions whose runtime is not known: those to come, and what was
// built between two of them. TestGoidOffset compares it with the DWARF of a program
// of the running toolchain.
func goidOffset(v string) int64 {
	v, _, _ = strings.Cut(v, " ") // "go1.25.1 X:nodwarf5"
	lang := version.Lang(v)
	switch {
	case lang == "" || version.Compare(lang, "go1.27") >= 0 || version.Compare(lang, "go1.17") < 0:
		return 0
	case version.Compare(lang, "go1.25") >= 0:
		return 152
	case version.Compare(lang, "go1.23") >= 0:
		return 160
	}
	return 152
}

// goSymbols finds functions of a stripped Go program by its function table. Where
// the code begins is not in every table: a function counts if what is at its
// address are instructions, to its end.
func (r *resolver) goSymbols(f *elffile.File, path string, want func([]byte) bool) ([]elfSymbol, error) {
	t, err := pclntab.New(f)
	if errors.Is(err, pclntab.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: Go function table: %w", path, err)
	}
	var out []elfSymbol
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
		s := elfSymbol{name: string(name), value: fn.Entry, size: fn.End - fn.Entry, global: true}
		if err := r.code.isFunction(s); err != nil {
			if bad != nil {
				continue
			}
			bad = fmt.Errorf("%s: the Go function table has %s at %#x, where none is: %w", path, s.name, s.value, err)
			continue
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, bad
	}
	return out, nil
}
