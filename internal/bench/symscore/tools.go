package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/symbol"
)

// tool returns the names of a case's addresses, one answer each, from a process of its own.
type tool struct {
	name string
	ask  func(c *testCase) ([]string, cost, error)
}

// cost is the time of an answer: wall time with the start of the process, and CPU time.
type cost struct{ wall, cpu time.Duration }

// children are the tools that are part of this program: it runs itself with "-child NAME
// FILE", so that all tools pay for a process's start.
var children = map[string]func(path string, pcs []uint64) ([]string, error){
	"borescope":          borescopeNames,
	"borescope-readable": borescopeReadable,
	"borescope-chains":   borescopeChains,
	"borescope-go":       borescopeGo,
	"debug/gosym":        debugGosym,
	"debug/elf":          debugELF,
	"debug/dwarf":        debugDWARF,
}

func child(name string) func(c *testCase) ([]string, cost, error) {
	return func(c *testCase) ([]string, cost, error) {
		exe, err := os.Executable()
		if err != nil {
			return nil, cost{}, err
		}
		out, took, err := feed(c, exe, "-child", name, c.path)
		if err != nil {
			return nil, cost{}, err
		}
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != len(c.pcs) {
			return nil, cost{}, fmt.Errorf("%d lines for %d addresses", len(lines), len(c.pcs))
		}
		return lines, took, nil
	}
}

// runChild runs the tool name in a child process.
func runChild(name, path string, in io.Reader, w io.Writer) error {
	var pcs []uint64
	for s := bufio.NewScanner(in); s.Scan(); {
		pc, err := strconv.ParseUint(s.Text(), 0, 64)
		if err != nil {
			return err
		}
		pcs = append(pcs, pc)
	}
	answer := children[name]
	if answer == nil {
		return fmt.Errorf("no tool %q", name)
	}
	names, err := answer(path, pcs)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, n := range names {
		fmt.Fprintln(out, n)
	}
	return out.Flush()
}

// borescopeNames returns the names of the functions that the code belongs to.
func borescopeNames(path string, pcs []uint64) ([]string, error) {
	return resolved(path, &symbol.ELFOptions{RawNames: true}, pcs, func(frames []symbol.Frame) string {
		return clean(frames[len(frames)-1].Name)
	})
}

// borescopeChains returns chains of inlined calls with their lines.
func borescopeChains(path string, pcs []uint64) ([]string, error) {
	opts := &symbol.ELFOptions{RawNames: true, Source: true, DebugDirs: []string{}}
	return resolved(path, opts, pcs, func(frames []symbol.Frame) string {
		var b strings.Builder
		for k, f := range frames {
			name := f.Name
			if k == len(frames)-1 {
				name = "" // the tools differ in aliases
			}
			b.WriteString(link(clean(name), f.File, f.Line))
		}
		return chain(b.String())
	})
}

// resolved returns the result of text for the frames of each address.
func resolved(path string, opts *symbol.ELFOptions, pcs []uint64,
	text func([]symbol.Frame) string,
) ([]string, error) {
	e, err := symbol.OpenELF(path, opts)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	out := make([]string, len(pcs))
	var frames []symbol.Frame
	for i := range pcs {
		frames = e.Resolve(frames[:0], pcs[i:i+1])
		out[i] = text(frames)
	}
	return out, nil
}

// link formats one call of a chain.
func link(name, file string, line int) string {
	return fmt.Sprintf("%s %s:%d; ", goName(name), filepath.Base(file), line)
}

// chain returns a chain, or "" if nothing is known. A single function without a line counts
// as that: llvm-symbolizer takes the file of such a function from the symbol table.
func chain(s string) string {
	if strings.Count(s, "; ") == 1 && strings.HasSuffix(s, ":0; ") {
		return ""
	}
	return s
}

// feed runs a tool several times, with all addresses on its standard input; the cost is the
// least of them.
func feed(c *testCase, name string, args ...string) (string, cost, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", cost{}, errors.New("not installed")
	}
	var in bytes.Buffer
	for _, pc := range c.pcs {
		fmt.Fprintf(&in, "%#x\n", pc)
	}
	var out []byte
	best := cost{wall: 1 << 62, cpu: 1 << 62}
	for range c.runs {
		cmd := exec.Command(path, args...)
		cmd.Stdin = bytes.NewReader(in.Bytes())
		start := time.Now()
		if out, err = cmd.Output(); err != nil {
			return "", cost{}, fmt.Errorf("%s: %w", name, err)
		}
		best.wall = min(best.wall, time.Since(start))
		best.cpu = min(best.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return string(out), best, nil
}

// clean removes what tools add to names.
func clean(name string) string {
	if name == "??" {
		return ""
	}
	name, _, _ = strings.Cut(name, "@")
	// In the symbol table, Go's linker writes its middle dot as a dot.
	return strings.ReplaceAll(strings.TrimSuffix(name, ".abi0"), "·", ".")
}

// pairs parses output of two lines for each address.
func pairs(out string, n int) ([]string, error) {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 2*n {
		return nil, fmt.Errorf("%d lines for %d addresses", len(lines), n)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = clean(lines[2*i])
	}
	return names, nil
}

func euAddr2line(c *testCase) ([]string, cost, error) {
	// -S would add offsets; the symbol is what -f prints if there is no DWARF.
	out, took, err := feed(c, "eu-addr2line", "-S", "-e", c.path)
	if err != nil {
		return nil, cost{}, err
	}
	names, err := pairs(out, len(c.pcs))
	for i := range names {
		name := names[i]
		if k := strings.LastIndex(name, "+0x"); k > 0 {
			name = name[:k]
		}
		if k := strings.LastIndex(name, " (."); k > 0 {
			name = name[:k] // the section, for symbols without a type
		}
		names[i] = clean(name)
		if strings.HasPrefix(names[i], "(") {
			names[i] = ""
		}
	}
	return names, took, err
}

func addr2line(c *testCase) ([]string, cost, error) {
	out, took, err := feed(c, "addr2line", "-f", "-e", c.path)
	if err != nil {
		return nil, cost{}, err
	}
	names, err := pairs(out, len(c.pcs))
	return names, took, err
}

// blocks splits llvm-symbolizer's output, which has an empty line after each address.
func blocks(out string, n int) ([][]string, error) {
	list := strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n")
	if len(list) != n {
		return nil, fmt.Errorf("%d blocks for %d addresses", len(list), n)
	}
	all := make([][]string, n)
	for i := range list {
		all[i] = strings.Split(list[i], "\n")
	}
	return all, nil
}

func llvmFunctions(c *testCase) ([]string, cost, error) {
	out, took, err := feed(c, "llvm-symbolizer", "--no-inlines", "--functions=linkage",
		"--no-demangle", "-e", c.path)
	if err != nil {
		return nil, cost{}, err
	}
	all, err := blocks(out, len(c.pcs))
	if err != nil {
		return nil, cost{}, err
	}
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = clean(b[0])
	}
	return names, took, nil
}

func llvmChains(c *testCase) ([]string, cost, error) {
	out, took, err := feed(c, "llvm-symbolizer", "--inlines", "--functions=linkage", "--no-demangle",
		"-e", c.path)
	if err != nil {
		return nil, cost{}, err
	}
	all, err := blocks(out, len(c.pcs))
	if err != nil {
		return nil, cost{}, err
	}
	chains := make([]string, len(all))
	for i, b := range all {
		var s strings.Builder
		for k := 0; k+1 < len(b); k += 2 {
			name := clean(b[k])
			if k+2 >= len(b) {
				name = ""
			}
			file, line := splitLine(b[k+1])
			s.WriteString(link(name, file, line))
		}
		chains[i] = chain(s.String())
	}
	return chains, took, nil
}

// splitLine parses "file:line" with or without ":column".
func splitLine(s string) (file string, line int) {
	f := strings.Split(s, ":")
	if len(f) >= 3 {
		f = append([]string{strings.Join(f[:len(f)-2], ":")}, f[len(f)-2])
	}
	if len(f) == 2 {
		fmt.Sscanf(f[1], "%d", &line)
	}
	return f[0], line
}

func addr2lineChains(c *testCase) ([]string, cost, error) {
	out, took, err := feed(c, "addr2line", "-a", "-f", "-i", "-e", c.path)
	if err != nil {
		return nil, cost{}, err
	}
	var chains []string
	var calls []string
	flush := func() {
		if calls == nil {
			return
		}
		var s strings.Builder
		for k := 1; k+1 < len(calls); k += 2 {
			name := clean(calls[k])
			if k+2 >= len(calls) {
				name = ""
			}
			line, _, _ := strings.Cut(calls[k+1], " (")
			file, rest, _ := cutLast(line)
			n := 0
			fmt.Sscanf(rest, "%d", &n)
			s.WriteString(link(name, file, n))
		}
		chains = append(chains, chain(s.String()))
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "0x") {
			flush()
			calls = nil
		}
		calls = append(calls, line)
	}
	flush()
	if len(chains) != len(c.pcs) {
		return nil, cost{}, fmt.Errorf("%d answers for %d addresses", len(chains), len(c.pcs))
	}
	return chains, took, nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
