package userfile

import (
	"debug/elf"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
)

// BareName removes the parameters from a demangled name: "ns::f" for "ns::f(int) const".
func BareName(full string) string {
	if i := strings.LastIndexByte(full, '('); i > 0 {
		return full[:i]
	}
	return full
}

// CutVersion splits SYMBOL@VERSION and SYMBOL@@VERSION.
func CutVersion(name string) (base, version string, ok bool) {
	base, version, ok = strings.Cut(name, "@")
	version = strings.TrimPrefix(version, "@")
	return base, version, ok && base != "" && version != ""
}

// Dedupe keeps one name for each address: the given one, else a global one.
func Dedupe(found []Symbol, name string) []Symbol {
	rank := func(s *Symbol) int {
		switch {
		case s.Name == name:
			return 0
		case s.Global:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(found, func(a, b Symbol) int {
		switch {
		case a.Value != b.Value:
			if a.Value < b.Value {
				return -1
			}
			return 1
		case rank(&a) != rank(&b):
			return rank(&a) - rank(&b)
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := found[:0]
	for _, s := range found {
		if len(out) > 0 && out[len(out)-1].Value == s.Value {
			last := &out[len(out)-1]
			last.Size = max(last.Size, s.Size)
			last.Global = last.Global || s.Global
			if last.Version == "" || s.Default && !last.Default {
				last.Version, last.Default = s.Version, s.Default
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// Imported reports whether the file has the name as an undefined symbol.
func Imported(f *elffile.File, name string) bool {
	t, err := f.Symbols(f.SectionOfType(elf.SHT_DYNSYM))
	if err != nil {
		return false
	}
	for _, sym := range t.All() {
		if sym.Shndx == uint16(elf.SHN_UNDEF) && t.Is(&sym, name) {
			return true
		}
	}
	return false
}
