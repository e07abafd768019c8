package main

import (
	"debug/elf"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// corpus returns the files that exist on this machine, each built in another way: with and
// without .symtab, C, C++, Go, Rust, static, position independent or not.
func corpus() []string {
	home, _ := os.UserHomeDir()
	return existing(
		"/lib/*-linux-gnu/libc.so.6", "/lib*/ld-linux-*.so.*", "/usr/lib/*-linux-gnu/libstdc++.so.6",
		"/usr/lib/*-linux-gnu/libLLVM-14.so.1", "/usr/bin/node", "/bin/bash", "/usr/bin/python3",
		"/usr/lib/*-linux-gnu/libcrypto.so.3", "/usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so",
		"/usr/local/go/bin/go", "/usr/local/go/pkg/tool/*/compile",
		filepath.Join(home, ".cargo/bin/rustc"), "/bin/busybox",
	)
}

// debugCorpus returns the files with DWARF, a Go program in dir among them.
func debugCorpus(dir string) []string {
	var files []string
	for _, lib := range existing("/lib/*-linux-gnu/libc.so.6", "/lib*/ld-linux-*.so.*",
		"/lib/*-linux-gnu/libm.so.6") {
		if d := debugFileOf(lib); d != "" {
			files = append(files, d)
		}
	}
	// The binaries of go run have no DWARF, so this program is built once more.
	self := filepath.Join(dir, "go-program")
	if err := exec.Command("go", "build", "-o", self, "./symscore").Run(); err == nil {
		files = append(files, self)
	}
	return files
}

func existing(patterns ...string) []string {
	var files []string
	for _, p := range patterns {
		m, _ := filepath.Glob(p)
		files = append(files, m[:min(len(m), 1)]...)
	}
	return files
}

// debugFileOf finds the debug file of a library by its build-id note.
func debugFileOf(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	s := f.Section(".note.gnu.build-id")
	if s == nil {
		return ""
	}
	b, err := s.Data()
	if err != nil || len(b) < 17 {
		return ""
	}
	const digits = "0123456789abcdef"
	var id strings.Builder
	for _, c := range b[16:] {
		id.WriteByte(digits[c>>4])
		id.WriteByte(digits[c&15])
	}
	name := "/usr/lib/debug/.build-id/" + id.String()[:2] + "/" + id.String()[2:] + ".debug"
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// testCase is a file with addresses to look up.
type testCase struct {
	path string
	pcs  []uint64
	runs int
	syms []elf.Symbol // functions by address
}

// openCase returns a file with n random addresses: two in functions for each one anywhere in
// the code.
func openCase(path string, n, runs int) (*testCase, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := f.Section(".text")
	if text == nil || text.Size == 0 {
		return nil, errors.New("no .text")
	}
	c := &testCase{path: path, runs: runs}
	syms, _ := f.Symbols()
	dyn, _ := f.DynamicSymbols()
	syms = append(syms, dyn...)
	if d, err := elf.Open(debugFileOf(path)); err == nil {
		more, _ := d.Symbols() // tools name a stripped library's functions by these
		syms = append(syms, more...)
		d.Close()
	}
	for _, s := range syms {
		if t := elf.ST_TYPE(s.Info); (t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC ||
			t == elf.STT_NOTYPE || t == elf.STT_OBJECT) && s.Section != elf.SHN_UNDEF {
			c.syms = append(c.syms, s)
		}
	}
	sort.SliceStable(c.syms, func(i, j int) bool { return c.syms[i].Value < c.syms[j].Value })
	var funcs []elf.Symbol
	for _, s := range c.syms {
		if s.Size > 0 && s.Value >= text.Addr && s.Value-text.Addr < text.Size {
			funcs = append(funcs, s)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for len(c.pcs) < n {
		if len(c.pcs)%3 == 0 || len(funcs) == 0 {
			c.pcs = append(c.pcs, text.Addr+rng.Uint64N(text.Size))
			continue
		}
		s := funcs[rng.IntN(len(funcs))]
		c.pcs = append(c.pcs, s.Value+rng.Uint64N(s.Size))
	}
	return c, nil
}

// aliasesAt returns a function that reports whether two names are of symbols with the same
// bounds around an address.
func (c *testCase) aliasesAt(pc uint64) func(a, b string) bool {
	return func(a, b string) bool {
		if a == "" || b == "" {
			return false
		}
		return slices.ContainsFunc(c.bounds(a, pc), func(x [2]uint64) bool {
			return slices.Contains(c.bounds(b, pc), x)
		})
	}
}

// bounds returns the bounds of the symbols with a name that contain the address.
func (c *testCase) bounds(name string, pc uint64) (list [][2]uint64) {
	for _, s := range c.syms {
		if s.Value > pc {
			break
		}
		base, _, _ := strings.Cut(s.Name, "@")
		if (base == name || strings.TrimSuffix(base, ".abi0") == name) &&
			(pc-s.Value < s.Size || s.Size == 0) {
			list = append(list, [2]uint64{s.Value, s.Size})
		}
	}
	return list
}
