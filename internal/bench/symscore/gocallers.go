package main

import (
	"bufio"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/borescope/borescope/symbol"
)

// goBuilds are ways to build a Go program which differ in the place of its function table,
// and in its other symbols.
var goBuilds = []struct {
	name string
	cgo  string
	args []string
}{
	{"plain", "0", nil},
	{"stripped", "0", []string{"-ldflags=-s -w"}},
	{"pie", "0", []string{"-buildmode=pie"}},
	{"pie, stripped", "0", []string{"-buildmode=pie", "-ldflags=-s -w"}},
	{"cgo, external link", "1", []string{"-ldflags=-linkmode=external"}},
	{"cgo, external, stripped", "1", []string{"-ldflags=-linkmode=external -s -w"}},
	{"cgo, external, pie", "1", []string{"-buildmode=pie", "-ldflags=-linkmode=external -s -w"}},
}

// goCallers builds this very program in several ways, and runs each build to name places in
// itself with runtime.CallersFrames. It scores the tools, which have only the file, against
// these names.
func goCallers(w *tabwriter.Writer, n, runs int, verbose bool) error {
	dir, err := os.MkdirTemp("", "symscore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, b := range goBuilds {
		exe := filepath.Join(dir, fmt.Sprint("go-program-", i))
		cmd := exec.Command("go",
			append(append([]string{"build", "-o", exe}, b.args...), "./symscore")...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo)
		if msg, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(w, "%s\tcannot be built here: %s\n", b.name, strings.TrimSpace(string(msg)))
			continue
		}
		if err := goBuild(w, b.name, exe, n, runs, verbose); err != nil {
			return fmt.Errorf("go program, %s: %w", b.name, err)
		}
	}
	return w.Flush()
}

// goBuild scores one program.
func goBuild(w *tabwriter.Writer, name, exe string, n, runs int, verbose bool) error {
	out, err := exec.Command(exe, "-callers", "-n", fmt.Sprint(n)).Output()
	if err != nil {
		return err
	}
	c := &testCase{path: exe, runs: runs}
	var want []string
	for line := range strings.Lines(string(out)) {
		var pc uint64
		addr, chain, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, err := fmt.Sscanf(addr, "%v", &pc); err != nil {
			return err
		}
		c.pcs, want = append(c.pcs, pc), append(want, chain)
	}
	for _, t := range []struct {
		tool
		// part returns the part of the reference's answer that the tool can give.
		part func(chain string) string
	}{
		{tool{"borescope", child("borescope-go")}, func(s string) string { return s }},
		{tool{"llvm-symbolizer", llvmChains}, withoutOuter},
		{tool{"debug/gosym", child("debug/gosym")}, outer},
	} {
		got, took, err := t.ask(c)
		if err != nil {
			fmt.Fprintf(w, "%s\t%s\t%v\n", name, t.name, err)
			continue
		}
		var s score
		for i := range want {
			before := s.right
			s.add(got[i], t.part(want[i]), func(a, b string) bool { return false })
			if verbose && t.name == "borescope" && s.right == before {
				fmt.Fprintf(os.Stderr, "%s %#x: got %q, want %q\n", name, c.pcs[i], got[i], want[i])
			}
		}
		report(w, name, t.name, s, took)
	}
	return nil
}

// callers prints addresses in this program, as they are in its file, each with the names from
// the runtime: half of them are of calls, half are anywhere.
func callers(out io.Writer, n int) error {
	lo, code, bias, err := ownCode()
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	rng := rand.New(rand.NewPCG(3, 4))
	for done := 0; done < n; {
		at := rng.IntN(len(code))
		if done%2 == 0 {
			at = nextCall(lo, code, at)
		}
		pc := lo + uintptr(at)
		if runtime.FuncForPC(pc+1) == nil || runtime.FuncForPC(pc+1).Entry() == pc+1 {
			continue // padding: not a return address
		}
		// The runtime takes addresses for return addresses, and expands the inlined calls of
		// all but the last one.
		frames := runtime.CallersFrames([]uintptr{pc + 1, 1})
		var b strings.Builder
		line := 0
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if f.Function == "" || f.Line <= 0 {
				line = 0
				break
			}
			line = f.Line
			if b.Len() == 0 || !elided(f.Function, f.File) {
				b.WriteString(link(f.Function, f.File, f.Line))
			}
		}
		if line == 0 {
			continue // padding, or C
		}
		fmt.Fprintf(w, "%#x %s\n", uint64(pc)-bias, b.String())
		done++
	}
	return w.Flush()
}

// nextCall returns an address in the first call of a Go function after code[at], or at if
// there is none. It is that of the call's last byte, which a stack walker looks up. It
// decodes only the instructions of amd64.
func nextCall(lo uintptr, code []byte, at int) int {
	const size = 5 // E8 and a distance
	if runtime.GOARCH != "amd64" {
		return at
	}
	for i := at; i+size <= min(len(code), at+4096); i++ {
		if code[i] != 0xe8 {
			continue
		}
		next := i + size
		to := lo + uintptr(next) + uintptr(int64(int32(binary.LittleEndian.Uint32(code[i+1:]))))
		if f := runtime.FuncForPC(to); f != nil && f.Entry() == to {
			return next - 1
		}
	}
	return at
}

// ownCode returns the address of this program's code, the code, and the difference between
// its address and the one in the file.
func ownCode() (lo uintptr, code []byte, bias uint64, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, nil, 0, err
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, nil, 0, err
	}
	f, err := elf.Open(exe)
	if err != nil {
		return 0, nil, 0, err
	}
	defer f.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to, off uint64
		var perm string
		if !strings.HasSuffix(strings.TrimSpace(line), exe) {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x %s %x", &from, &to, &perm, &off); err != nil {
			return 0, nil, 0, err
		}
		i := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool {
			return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0
		})
		if perm[2] != 'x' || i < 0 {
			continue
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			return 0, nil, 0, err
		}
		defer mem.Close()
		code = make([]byte, to-from)
		if _, err := mem.ReadAt(code, int64(from)); err != nil {
			return 0, nil, 0, err
		}
		p := f.Progs[i]
		return uintptr(from), code, from - off - (p.Vaddr - p.Off), nil
	}
	return 0, nil, 0, errors.New("this program's code is mapped from no file")
}

// The functions below are the answers of child processes to goBuild.

// borescopeGo returns chains with all names.
func borescopeGo(path string, pcs []uint64) ([]string, error) {
	return resolved(path, nil, pcs, func(frames []symbol.Frame) string {
		var b strings.Builder
		for _, f := range frames {
			if f.Name != "" && (b.Len() == 0 || !elided(f.Name, f.File)) {
				b.WriteString(link(f.Name, f.File, f.Line))
			}
		}
		return b.String()
	})
}

// debugGosym returns the function that the code belongs to; the package has no inlined calls.
func debugGosym(path string, pcs []uint64) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tab := f.Section(".gopclntab")
	if tab == nil {
		tab = f.Section(".data.rel.ro.gopclntab")
	}
	if tab == nil {
		return nil, errors.New("no .gopclntab")
	}
	data, err := tab.Data()
	if err != nil {
		return nil, err
	}
	t, err := gosym.NewTable(nil, gosym.NewLineTable(data, f.Section(".text").Addr))
	if err != nil {
		return nil, err
	}
	out := make([]string, len(pcs))
	for i, pc := range pcs {
		if fn := t.PCToFunc(pc); fn != nil {
			out[i] = goName(fn.Name)
		}
	}
	return out, nil
}

// goName writes type arguments as the runtime prints them: "[...]".
func goName(s string) string {
	if i, j := strings.IndexByte(s, '['), strings.LastIndexByte(s, ']'); i > 0 && j > i {
		return s[:i] + "[...]" + s[j+1:]
	}
	return s
}

// elided reports whether the runtime leaves a function out of the callers of an inlined one,
// because the compiler marks it as a wrapper (abi.FuncIDWrapper).
func elided(name, file string) bool {
	return file == "<autogenerated>" || wrapper.MatchString(name)
}

var wrapper = regexp.MustCompile(`^reflect\.call(Method|Reflect)$|\.(defer|go)wrap\d+$`)

// withoutOuter removes the name of the last function from a chain, as chain does.
func withoutOuter(s string) string {
	s = strings.TrimSuffix(s, "; ")
	head, last := "", s
	if i := strings.LastIndex(s, "; "); i >= 0 {
		head, last = s[:i+2], s[i+2:]
	}
	return head + last[strings.LastIndexByte(last, ' '):] + "; "
}

// outer returns the name of the last function of a chain.
func outer(s string) string {
	s = strings.TrimSuffix(s, "; ")
	s = s[strings.LastIndex(s, "; ")+1:]
	s = strings.TrimPrefix(s, " ")
	return s[:strings.LastIndexByte(s, ' ')]
}
