package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// Uprobe fires when an instruction of a program or library is reached.
// "uprobe:/bin/bash:readline", "uprobe:libc:malloc", "uprobe:/bin/x:0x1234",
// "uprobe:/bin/x:main+4", "uprobe:/bin/x:cpp:ns::f(int)", "uprobe:/bin/x:main.c:42".
type Uprobe struct {
	// Path is the file: absolute, relative, a library's soname, or "" with PID for that
	// process's executable. It may hold wildcards. ARCHIVE!/FILE is a file stored in a ZIP
	// archive (Android's APK).
	Path string
	// Symbol is a function: an ELF symbol, symbol@version, a Go name, or, as Lang says, a
	// demangled C++ or Rust name. It may hold wildcards. A Go function is probed behind
	// its stack check, which a call passes once. Its first instruction runs again after the
	// stack has grown; to probe it, use Address.
	Symbol string
	// Lang restricts Symbol to demangled names: "cpp", "rust", "go", or "" for none.
	Lang string
	// Offset is added to Symbol, in bytes. Without Symbol, Address counts.
	Offset uint64
	// Address is a virtual address in the file's own numbering, as nm and objdump print
	// it, where an instruction begins (else see Options.Unsafe). It is used without Symbol.
	Address uint64
	// File, Line and, if not 0, Column are a source position (DWARF), used without Symbol.
	File   string
	Line   int
	Column int
	// PID restricts the probe to one process (thread group); 0 is all.
	PID int
}

// Uretprobe fires when a user function returns. Parts of functions that are jumped to (name.cold)
// do not return: they are errors, and patterns leave them out. In Go programs it is attached to
// every return instruction, because return probes that replace the return address break
// goroutine stacks. "uretprobe:/bin/bash:readline".
type Uretprobe struct {
	Path   string // as a Uprobe's
	Symbol string // as a Uprobe's
	Lang   string // as a Uprobe's
	PID    int    // restricts the probe to one process; 0 is all
}

func (t Uprobe) requires(q *requirer) { q.user(t.PID) }

func (t Uprobe) list(l *lister) error {
	return l.userFunctions(t.Path, t.Symbol, t.PID, false, func(p, s string) Target {
		return Uprobe{Path: p, Symbol: s, PID: t.PID}
	})
}

func (t Uprobe) word() string { return t.Symbol }

func (t Uretprobe) requires(q *requirer) { q.user(t.PID) }

func (t Uretprobe) list(l *lister) error {
	return l.userFunctions(t.Path, t.Symbol, t.PID, true, func(p, s string) Target {
		return Uretprobe{Path: p, Symbol: s, PID: t.PID}
	})
}

func (t Uretprobe) word() string { return t.Symbol }

// langs are the words between path and symbol that ask for a demangled name.
var langs = map[string]bool{"cpp": true, "rust": true, "go": true}

const uprobeForms = "uprobe:PATH:FUNCTION[+OFFSET], PATH:0xADDRESS, PATH:LANG:NAME or PATH:FILE:LINE[:COLUMN]"

func parseUprobe(s *spelling.Scanned) (Target, error) {
	if err := s.UserParts(uprobeForms); err != nil {
		return nil, err
	}
	u := Uprobe{Path: s.Parts[0].Text}
	switch p := s.Parts[1:]; {
	case len(p) > 1 && langs[p[0].Text] && !p[0].Quoted:
		name, err := s.Rest(2)
		if err != nil {
			return nil, err
		}
		sym, off, err := s.DemangledOffset(name)
		u.Lang, u.Symbol, u.Offset = p[0].Text, sym, off
		return u, err
	case len(p) == 2:
		return parseSourceLine(s, u, p[0], p[1], nil)
	case len(p) == 3 && spelling.IsNumber(p[1]):
		return parseSourceLine(s, u, p[0], p[1], &p[2])
	case len(p) > 2:
		return nil, s.Errorf(p[2].Off-1,
			"too many parts: want %s; a part with a colon is written in quotes", uprobeForms)
	case spelling.IsAddress(p[0]):
		a, err := s.Number(p[0], 64)
		u.Address = a
		return u, err
	default:
		sym, off, err := s.SymbolOffset(p[0])
		u.Symbol, u.Offset = sym, off
		return u, err
	}
}

// parseSourceLine parses FILE:LINE[:COLUMN].
func parseSourceLine(s *spelling.Scanned, u Uprobe, file, line spelling.Part,
	column *spelling.Part,
) (Target, error) {
	if file.Text == "" {
		return nil, s.Errorf(file.Off, "empty part: want %s", uprobeForms)
	}
	if file.Suffix != "" || line.Suffix != "" {
		return nil, s.Errorf(file.Off, "nothing may follow a closing quote here: want %s", uprobeForms)
	}
	n, err := s.Number(line, 31)
	if err != nil {
		return nil, s.Errorf(line.Off,
			"%q is not a line number, and %q not a language (cpp, rust, go): want %s",
			line.Text, file.Text, uprobeForms)
	}
	if n == 0 {
		return nil, s.Errorf(line.Off, "source lines begin at 1")
	}
	u.File, u.Line = file.Text, int(n)
	if column == nil {
		return u, nil
	}
	if n, err = s.Number(*column, 31); err != nil || n == 0 {
		return nil, s.Errorf(column.Off, "%q is not a column: columns are numbers from 1", column.Text)
	}
	u.Column = int(n)
	return u, nil
}

func parseUretprobe(s *spelling.Scanned) (Target, error) {
	const want = "uretprobe:PATH:FUNCTION or PATH:LANG:NAME"
	if err := s.UserParts(want); err != nil {
		return nil, err
	}
	u := Uretprobe{Path: s.Parts[0].Text}
	p := s.Parts[1:]
	if len(p) > 1 && langs[p[0].Text] && !p[0].Quoted {
		name, err := s.Rest(2)
		if err == nil && name.Suffix != "" {
			err = s.Errorf(name.Off, "a return probe takes no offset")
		}
		u.Lang, u.Symbol = p[0].Text, name.Text
		return u, err
	}
	if len(p) > 1 {
		return nil, s.Errorf(p[1].Off-1,
			"too many parts: want %s; a part with a colon is written in quotes", want)
	}
	if spelling.IsAddress(p[0]) {
		return nil, s.Errorf(p[0].Off, "a return probe needs a function's name, not an address")
	}
	sym, off, err := s.SymbolOffset(p[0])
	if err == nil && off != 0 {
		err = s.Errorf(p[0].Off, "a return probe takes no offset")
	}
	u.Symbol = sym
	return u, err
}

// String returns "uprobe:PATH:SYMBOL[+OFFSET]", "uprobe:PATH:LANG:SYMBOL",
// "uprobe:PATH:FILE:LINE[:COLUMN]" or "uprobe:PATH:0xADDRESS", with " pid=N".
func (t Uprobe) String() string {
	s := "uprobe:" + spelling.Quote(t.Path) + ":"
	switch {
	case t.Symbol != "":
		s += userSymbol(t.Lang, t.Symbol) + spelling.PlusOffset(t.Offset)
	case t.File != "":
		s += quoteFile(t.File) + ":" + strconv.Itoa(t.Line)
		if t.Column != 0 {
			s += ":" + strconv.Itoa(t.Column)
		}
	default:
		s += fmt.Sprintf("0x%x", t.Address)
	}
	return s + pid(t.PID)
}

// String returns "uretprobe:PATH:SYMBOL" or "uretprobe:PATH:LANG:SYMBOL", with " pid=N".
func (t Uretprobe) String() string {
	return "uretprobe:" + spelling.Quote(t.Path) + ":" + userSymbol(t.Lang, t.Symbol) + pid(t.PID)
}

// quoteFile quotes a file name that would be read as a language.
func quoteFile(t string) string {
	if langs[t] {
		return strconv.Quote(t)
	}
	return spelling.Quote(t)
}

func userSymbol(lang, symbol string) string {
	if lang == "" {
		return spelling.QuoteName(symbol)
	}
	// A colon at the end would be read as an empty part.
	if spelling.Plain(symbol, true) && !strings.HasSuffix(symbol, ":") {
		return lang + ":" + symbol
	}
	return lang + ":" + strconv.Quote(symbol)
}

func pid(n int) string {
	if n == 0 {
		return ""
	}
	return " pid=" + strconv.Itoa(n)
}

func (t Uprobe) resolve(r *resolver) error {
	u := userProbe{
		lang: t.Lang, symbol: t.Symbol, offset: t.Offset, address: t.Address,
		file: t.File, line: t.Line, column: t.Column, pid: t.PID,
		renamed: func(path, symbol string) Target {
			n := t
			n.Path, n.Symbol = path, symbol
			if n.Symbol != t.Symbol {
				n.Lang = "" // the name of the symbol itself
			}
			return n
		},
	}
	return r.user(t.Path, u)
}

func (t Uretprobe) resolve(r *resolver) error {
	if t.Symbol == "" {
		return errors.New("it names no function")
	}
	u := userProbe{
		lang: t.Lang, symbol: t.Symbol, pid: t.PID, returns: true,
		renamed: func(path, symbol string) Target {
			n := t
			n.Path, n.Symbol = path, symbol
			if n.Symbol != t.Symbol {
				n.Lang = ""
			}
			return n
		},
	}
	return r.user(t.Path, u)
}

func (Uprobe) event(a *attacher, g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	return a.uprobeEvent(g, s)
}

func (Uretprobe) event(a *attacher, g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	return a.uprobeEvent(g, s)
}

func (a *attacher) uprobeEvent(g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	t, err := a.pmu("uprobe", feature.Uprobe)
	if err != nil {
		return nil, err
	}
	path, err := a.file(s.Path)
	if err != nil {
		return nil, err
	}
	ev := &perfevent.Event{
		Attr: perfring.Attr{Type: t.Number, Config2: s.Offset}, Path: path,
		Explain: func(err error) error {
			return a.explainUprobe(s, err)
		},
	}
	if g.returnProbe() {
		ev.Attr.Config |= 1 << t.Return
	}
	// config:32-63 since 4.20, commit a6ca88b241d5.
	ev.Attr.Config |= s.RefCtrOffset << 32
	if s.RefCtrOffset>>32 != 0 {
		return nil, fmt.Errorf("the semaphore's file offset %#x does not fit into 32 bits",
			s.RefCtrOffset)
	}
	if s.PID != 0 {
		ev.PID, ev.CPU = s.PID, -1
		return ev, nil
	}
	return a.anyCPU(ev)
}

// explainUprobe explains the errors of create_local_trace_uprobe and uprobe_register
// (kernel/trace/trace_uprobe.c, kernel/events/uprobes.c).
func (a *attacher) explainUprobe(s *Site, err error) error {
	if why := feature.Explain(feature.Uprobe, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return notexist.Errorf("no file %s", s.Path)
	case errors.Is(err, kernel.ENOTSUPP), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("the instruction at file offset %#x cannot be single-stepped out of line: probe another: %w", s.Offset, err)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("the file system of %s gives the kernel no pages to probe: copy the file to a disk or tmpfs: %w", s.Path, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("file offset %#x of %s cannot be probed: not in the file, or no regular file: %w", s.Offset, s.Path, err)
	}
	return err
}

var (
	uprobeSpelled    = spelled{words: []string{"uprobe", "u"}, parse: parseUprobe, pattern: allOfFile}
	uretprobeSpelled = spelled{words: []string{"uretprobe", "ur"}, parse: parseUretprobe}
)

// allOfFile completes a pattern that is only a file.
func allOfFile(_ *lister, rest string) (complete string, listed bool, err error) {
	if !strings.Contains(rest, ":") {
		rest += ":*"
	}
	return rest, false, nil
}

func (t Uprobe) withPID(pid int) Target {
	t.PID = pid
	return t
}

func (t Uretprobe) withPID(pid int) Target {
	t.PID = pid
	return t
}

func (l *lister) userFunctions(name, pattern string, pid int, returns bool,
	target func(path, symbol string) Target,
) error {
	paths, err := userfile.Paths(l.env, name, pid)
	if err != nil {
		return err
	}
	g := glob.Compile(pattern)
	defer l.r.closeFile()
	for _, p := range paths {
		err := l.r.withFileFrom(userfile.Sources{}, p, func(f *elffile.File) error {
			goProgram := userfile.IsGo(f)
			found := map[string]userfile.Symbol{}
			want := func(b []byte) bool { return g.Match(string(b)) }
			err := userfile.Symbols(context.Background(), f, want, func(s userfile.Symbol) error {
				if !returns || !kernelcode.IsSplit(s.Name) || goProgram {
					found[s.Name] = s
				}
				return nil
			})
			if err == nil && len(found) == 0 && goProgram {
				var functions []userfile.Symbol
				functions, err = l.r.code.GoFunctions(p, want, l.r.take)
				for _, s := range functions {
					found[s.Name] = s
				}
			}
			if err != nil {
				return err
			}
			for _, n := range slices.Sorted(maps.Keys(found)) {
				x := Match{Target: target(userfile.Spelled(name, p, pid), n)}
				typed := ProgramPlan{Returns: returns}
				l.r.typeUser(&typed, f, found[n], goProgram)
				x.Args, x.Fields, x.Ret = typed.Args, typed.Fields, typed.Ret
				if err := l.putIn(pid, x); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && (len(paths) == 1 || errors.Is(err, errStop)) {
			return err
		}
	}
	return nil
}
