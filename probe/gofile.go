package probe

import (
	"bytes"
	"debug/buildinfo"
	"debug/gosym"
	"fmt"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
)

// goRegs are the DWARF numbers of the register that holds the current g in
// ABIInternal: r14 on amd64, x28 on arm64.
var goRegs = map[string]int{"amd64": 14, "arm64": 28}

// goTarget describes the Go program that a probe is in.
func (r *resolver) goTarget(f *elffile.File, path string) *GoTarget {
	t := &GoTarget{GReg: goRegs[archOf(f.Machine)], Version: r.goVersion(path)}
	t.GoidOffset = goidOffset(t.Version)
	return t
}

// goVersion reads the toolchain's version from the program's build info, ""
// where it has none.
func (r *resolver) goVersion(path string) string {
	ra, _, g, err := r.env.openAt(path)
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
// TestGoidOffset compares it with the DWARF of a program of the running
// toolchain.
func goidOffset(version string) int64 {
	minor := 0
	if rest, ok := strings.CutPrefix(version, "go1."); ok {
		v, ok := parseVersion("1." + rest)
		if ok {
			minor = v[1]
		}
	}
	switch {
	case minor >= 25:
		return 152
	case minor >= 23:
		return 160
	}
	return 152
}

// goSymbols finds functions of a stripped Go program by its function table.
func (r *resolver) goSymbols(f *elffile.File, path string, want func([]byte) bool) ([]elfSymbol, error) {
	tab := f.Section(".gopclntab")
	if tab == nil {
		tab = f.Section(".data.rel.ro.gopclntab")
	}
	text := f.Section(".text")
	if tab == nil || text == nil {
		return nil, nil
	}
	b, err := f.Data(tab)
	if err != nil {
		return nil, err
	}
	// gosym keeps slices of what it is given; the mapping must not outlive the file.
	t, err := gosym.NewTable(nil, gosym.NewLineTable(bytes.Clone(b), text.Addr))
	if err != nil {
		return nil, fmt.Errorf("%s: Go function table: %w", path, err)
	}
	var out []elfSymbol
	for i := range t.Funcs {
		fn := &t.Funcs[i]
		if want([]byte(fn.Name)) {
			out = append(out, elfSymbol{name: fn.Name, value: fn.Entry, size: fn.End - fn.Entry, global: true})
		}
	}
	return out, nil
}
