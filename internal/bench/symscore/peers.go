package main

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// bccSource is a program that loads a library and looks up addresses in it with libbcc, which
// only names addresses of processes.
const bccSource = `
#define _GNU_SOURCE
#include <bcc/bcc_syms.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct link_map *lib = dlopen(argv[1], RTLD_LAZY);
	char line[64];
	if (!lib)
		return 1;
	void *cache = bcc_symcache_new(getpid(), NULL);
	while (fgets(line, sizeof line, stdin)) {
		struct bcc_symbol sym = {0};
		int err = bcc_symcache_resolve_no_demangle(cache, lib->l_addr + strtoull(line, NULL, 0), &sym);
		puts(err || !sym.name ? "" : sym.name);
	}
	return 0;
}
`

// libbcc compiles bccSource and runs it.
func libbcc(c *testCase) ([]string, cost, error) {
	if !strings.Contains(filepath.Base(c.path), ".so") ||
		strings.HasPrefix(filepath.Base(c.path), "ld-") {
		return nil, cost{}, errors.New("names addresses of processes: only libraries are asked for here")
	}
	dir, err := os.MkdirTemp("", "symscore")
	if err != nil {
		return nil, cost{}, err
	}
	defer os.RemoveAll(dir)
	src, exe := filepath.Join(dir, "bcc.c"), filepath.Join(dir, "bcc")
	if err := os.WriteFile(src, []byte(bccSource), 0o600); err != nil {
		return nil, cost{}, err
	}
	if err := exec.Command("gcc", "-O2", "-o", exe, src, "-lbcc", "-ldl").Run(); err != nil {
		return nil, cost{}, errors.New("not installed (needs gcc and libbpfcc-dev)")
	}
	once := *c
	once.runs = 1 // it takes seconds
	out, took, err := feed(&once, exe, c.path)
	if err != nil {
		return nil, cost{}, err
	}
	names := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(names) != len(c.pcs) {
		return nil, cost{}, errors.New("an answer is missing")
	}
	for i := range names {
		names[i] = clean(names[i])
	}
	return names, took, nil
}

// blazesym runs symscore-blazesym, built from the folder of that name, if it is installed.
func blazesym(what string) func(c *testCase) ([]string, cost, error) {
	return func(c *testCase) ([]string, cost, error) {
		out, took, err := feed(c, "symscore-blazesym", what, c.path)
		if err != nil {
			return nil, cost{}, err
		}
		answers := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(answers) != len(c.pcs) {
			return nil, cost{}, errors.New("an answer is missing")
		}
		for i, a := range answers {
			if what == "names" {
				answers[i] = clean(a)
			} else {
				answers[i] = chain(a)
			}
		}
		return answers, took, nil
	}
}

// debugELF is the simple way with debug/elf: all symbols, sorted, and a binary search.
func debugELF(path string, pcs []uint64) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	syms, _ := f.Symbols()
	dyn, _ := f.DynamicSymbols()
	var funcs []elf.Symbol
	for _, s := range append(syms, dyn...) {
		if t := elf.ST_TYPE(s.Info); (t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC) &&
			s.Section != elf.SHN_UNDEF {
			funcs = append(funcs, s)
		}
	}
	sort.Slice(funcs, func(i, j int) bool { return funcs[i].Value < funcs[j].Value })
	out := make([]string, len(pcs))
	for i, pc := range pcs {
		if k := sort.Search(len(funcs), func(k int) bool {
			return funcs[k].Value > pc
		}); k > 0 && pc-funcs[k-1].Value < funcs[k-1].Size {
			out[i] = clean(funcs[k-1].Name)
		}
	}
	return out, nil
}

// unitLines is the part of a unit that debugDWARF keeps.
type unitLines struct {
	lines []dwarf.LineEntry // by address
	calls []inlinedCall     // outer ones first
	files []*dwarf.LineFile
}

type inlinedCall struct {
	lo, hi uint64
	name   string
	file   int64
	line   int
}

// debugDWARF uses debug/dwarf like a program that caches the contents of each unit: the
// lines, and the inlined calls from a walk over the entries.
func debugDWARF(path string, pcs []uint64) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	type unitRange struct {
		lo, hi uint64
		unit   *dwarf.Entry
	}
	var units []unitRange
	r := d.Reader()
	for e, err := r.Next(); e != nil && err == nil; e, err = r.Next() {
		if ranges, err := d.Ranges(e); e.Tag == dwarf.TagCompileUnit && err == nil {
			for _, x := range ranges {
				units = append(units, unitRange{x[0], x[1], e})
			}
		}
		r.SkipChildren()
	}
	sort.Slice(units, func(i, j int) bool { return units[i].lo < units[j].lo })
	known := map[*dwarf.Entry]*unitLines{}
	out := make([]string, len(pcs))
	for i, pc := range pcs {
		k := sort.Search(len(units), func(k int) bool { return units[k].lo > pc })
		if k == 0 || pc >= units[k-1].hi {
			continue
		}
		u := units[k-1].unit
		if known[u] == nil {
			known[u] = readUnit(d, u)
		}
		out[i] = known[u].chain(pc)
	}
	return out, nil
}

func readUnit(d *dwarf.Data, unit *dwarf.Entry) *unitLines {
	u := &unitLines{}
	if lr, err := d.LineReader(unit); err == nil && lr != nil {
		var e dwarf.LineEntry
		for lr.Next(&e) == nil {
			u.lines = append(u.lines, e)
		}
		u.files = lr.Files()
	}
	sort.SliceStable(u.lines, func(i, j int) bool { return u.lines[i].Address < u.lines[j].Address })
	r := d.Reader()
	r.Seek(unit.Offset)
	depth := 0
	for e, err := r.Next(); e != nil && err == nil; e, err = r.Next() {
		switch {
		case e.Tag == 0:
			if depth--; depth <= 0 {
				return u
			}
			continue
		case e.Tag == dwarf.TagInlinedSubroutine:
			ranges, _ := d.Ranges(e)
			file, _ := e.Val(dwarf.AttrCallFile).(int64)
			line, _ := e.Val(dwarf.AttrCallLine).(int64)
			name := originName(d, e)
			for _, x := range ranges {
				u.calls = append(u.calls, inlinedCall{x[0], x[1], name, file, int(line)})
			}
		}
		if e.Children {
			depth++
		}
	}
	return u
}

// originName follows an entry's origins to the one that has a name.
func originName(d *dwarf.Data, e *dwarf.Entry) string {
	for range 8 {
		if s, ok := e.Val(dwarf.AttrLinkageName).(string); ok {
			return s
		}
		off, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			off, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if !ok {
			break
		}
		r := d.Reader()
		r.Seek(off)
		next, err := r.Next()
		if err != nil || next == nil {
			break
		}
		e = next
	}
	s, _ := e.Val(dwarf.AttrName).(string)
	return s
}

func (u *unitLines) chain(pc uint64) string {
	k := sort.Search(len(u.lines), func(k int) bool { return u.lines[k].Address > pc })
	if k == 0 || u.lines[k-1].EndSequence {
		return ""
	}
	file, line := u.lines[k-1].File.Name, u.lines[k-1].Line
	var b strings.Builder
	for i := len(u.calls) - 1; i >= 0; i-- {
		c := &u.calls[i]
		if pc < c.lo || pc >= c.hi {
			continue
		}
		b.WriteString(link(clean(c.name), file, line))
		file, line = "", c.line
		if c.file >= 0 && int(c.file) < len(u.files) && u.files[c.file] != nil {
			file = u.files[c.file].Name
		}
	}
	b.WriteString(link("", file, line))
	return chain(b.String())
}
