package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/symbol"
)

// userProbe is what uprobes and uretprobes have in common.
type userProbe struct {
	lang, symbol    string
	offset, address uint64
	file            string
	line, column    int
	pid             int
	returns         bool
	// renamed returns the target for one file and one function.
	renamed func(path, symbol string) Target
}

// user resolves a user probe in every file that its path stands for.
func (r *resolver) user(name string, u userProbe) error {
	if err := r.env.Supports(feature.Uprobe); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	paths, err := r.userPaths(name, u.pid)
	if err != nil {
		return err
	}
	n := len(r.parts)
	var first error
	for _, p := range paths {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		shown := p
		if len(paths) == 1 {
			shown = name
		}
		err := r.withFile(p, func(f *elffile.File) error { return r.userFile(f, p, shown, u) })
		if errors.Is(err, fs.ErrNotExist) {
			err = r.userInLibc(p, u, err)
		}
		if _, other := errors.AsType[*elffile.FormatError](err); other && u.symbol == "" && u.file == "" && r.o.Unsafe {
			err = r.flatFile(p, shown, u)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	if len(r.parts) == n || first != nil && len(paths) == 1 {
		return first
	}
	return nil
}

// merged are the libraries that glibc 2.34 keeps as files without functions: libc has theirs.
var merged = []string{"libpthread", "libdl", "librt", "libutil", "libanl"}

// userInLibc adds the programs for a function that a library was merged into libc with. It
// returns err, for what the library lacks, if it could not, with where the functions are.
func (r *resolver) userInLibc(library string, u userProbe, err error) error {
	name, _, ok := strings.Cut(path.Base(library), ".so")
	if !ok || u.symbol == "" || !slices.Contains(merged, name) || !r.empty(library) {
		return err
	}
	if glob.IsPattern(u.symbol) {
		return fmt.Errorf("%w; since glibc 2.34 libc has the functions of %s: use uprobe:libc:%s", err,
			name, u.symbol)
	}
	libc := path.Join(path.Dir(library), "libc.so.6")
	n := len(r.parts)
	if r.withFile(libc, func(f *elffile.File) error { return r.userFile(f, libc, libc, u) }) != nil {
		r.parts = r.parts[:n]
		return fmt.Errorf("%w; nor in libc, which has the functions of %s since glibc 2.34", err, name)
	}
	for i := range r.parts[n:] {
		r.parts[n+i].FallbackReason = name + " has no functions since glibc 2.34: libc has its"
	}
	return nil
}

// empty reports whether a library has no function that a program could be linked with.
func (r *resolver) empty(library string) bool {
	some := errors.New("it has some")
	return r.withFile(library, func(f *elffile.File) error {
		any := func([]byte) bool { return true }
		return userfile.Symbols(r.ctx, f, any, func(s userfile.Symbol) error {
			if s.Global && (s.Default || s.Version == "") {
				return some
			}
			return nil
		})
	}) == nil
}

// userFile adds the programs for one file.
func (r *resolver) userFile(f *elffile.File, path, shown string, u userProbe) error {
	if arch := usercode.Arch(f.Machine); arch != r.env.Arch() || f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("%s is a %s %s binary: only %s is supported", path, f.Class, f.Machine,
			r.env.Arch())
	}
	goProgram := userfile.IsGo(f)
	switch {
	case u.symbol != "":
		return r.userSymbols(f, path, shown, u, goProgram)
	case u.file != "":
		return r.userLine(f, path, shown, u, goProgram)
	}
	return r.userAddress(f, path, shown, u, goProgram)
}

// userAddress adds a probe at a virtual address of the file.
func (r *resolver) userAddress(f *elffile.File, path, shown string, u userProbe,
	goProgram bool,
) error {
	off, ok := f.Offset(u.address)
	if !ok {
		return notexist.Errorf("address %#x is not in a loaded segment of %s: addresses are those of nm and objdump, not a process's",
			u.address, path)
	}
	p := r.userProgram(f, goProgram)
	p.Args = withReason(p.Args, "arguments are known at a function's entry only")
	site := Site{
		Target: u.renamed(shown, ""), Offset: off, Address: u.address, Path: path, PID: u.pid,
		CPU: -1,
	}
	if err := r.begins(&site, r.code.Check(u.address)); err != nil {
		return err
	}
	p.Sites = []Site{site}
	r.add(p)
	return nil
}

// flatFile adds a probe at an offset in a file of another format, which a process maps as it is. The
// registers are those of this machine.
func (r *resolver) flatFile(path, shown string, u userProbe) error {
	abi, err := abiOf(r.env.Arch())
	if err != nil {
		return err
	}
	p := ProgramPlan{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink, UserRegs: true}
	p.Args = withReason(abi.untypedArgs(true), "arguments are known at a function's entry only")
	p.Sites = []Site{{
		Target: u.renamed(shown, ""), Offset: u.address, Address: u.address, Path: path, PID: u.pid, CPU: -1,
	}}
	r.add(p)
	return nil
}

// begins records whether an instruction begins at a user site; err says why not.
// Options.Unsafe allows it anyway.
func (r *resolver) begins(s *Site, err error) error {
	if s.Boundary = err == nil; r.o.Unsafe {
		return nil
	}
	return err
}

// userProgram returns the program of a user probe, with the arguments' registers.
func (r *resolver) userProgram(f *elffile.File, goProgram bool) ProgramPlan {
	p := ProgramPlan{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink, UserRegs: true}
	abi := abis[usercode.Arch(f.Machine)]
	if goProgram {
		abi = goABIs[usercode.Arch(f.Machine)]
	}
	p.Args = abi.untypedArgs(true)
	if r.o.Sleepable {
		p.Flags = flagSleepable
	}
	return p
}

// userSymbols adds a probe at the functions that a name stands for.
func (r *resolver) userSymbols(f *elffile.File, path, shown string, u userProbe,
	goProgram bool,
) error {
	found, err := r.findSymbols(f, path, u, goProgram)
	if err != nil {
		return err
	}
	wild := glob.IsPattern(u.symbol) && len(found) > 1
	added := 0
	for _, s := range found {
		err := r.userFunction(f, path, shown, u, s, goProgram)
		if err != nil && !wild {
			return err
		}
		if err == nil {
			added++
		}
	}
	if added == 0 {
		return notexist.Errorf("none of the %d functions that match in %s can be probed", len(found),
			path)
	}
	return nil
}

// userFunction adds the program for one function.
func (r *resolver) userFunction(f *elffile.File, path, shown string, u userProbe, s userfile.Symbol,
	goProgram bool,
) error {
	if s.Ifunc {
		return indirect(f, path)
	}
	if !goProgram && kernelcode.IsSplit(s.Name) && (u.returns || r.session() || isSession(r.o.AttachType)) {
		return kernelcode.ErrSplit
	}
	if u.offset > 0 && s.Size > 0 && u.offset >= s.Size && !r.o.Unsafe {
		return &usercode.BeyondError{Function: s.Name, Offset: u.offset, Size: s.Size}
	}
	at := s.Value + u.offset
	off, ok := f.Offset(at)
	if !ok {
		return notexist.Errorf("address %#x is not in a loaded segment", at)
	}
	target := u.renamed(shown, u.symbol)
	if s.Name != u.symbol && (glob.IsPattern(u.symbol) || u.lang != "") {
		target = u.renamed(shown, s.Name)
	}
	site := Site{
		Target: target, Symbol: s.Name, Offset: off, Address: at, Path: path, PID: u.pid,
		CPU: -1,
	}
	if err := r.begins(&site, r.code.CheckFunction(s, u.offset)); err != nil {
		return err
	}
	p := r.userProgram(f, goProgram)
	if goProgram {
		p.Go = r.goTarget(f, path)
	}
	switch {
	case u.returns && goProgram:
		return r.goReturns(f, p, site, s)
	case u.returns:
		p.Returns, p.Args = true, nil
		abi := abis[usercode.Arch(f.Machine)]
		p.Ret = abi.untypedRet(true)
		r.typeUser(&p, f, s, false)
	case u.offset != 0:
		p.Args = withReason(p.Args, "arguments are known at a function's entry only")
	default:
		r.typeUser(&p, f, s, goProgram)
		if goProgram && site.moveBehind(f, s) {
			p.FallbackReason = "Go: behind the stack check, because a function that grows its stack begins twice"
		}
	}
	p.Sites = []Site{site}
	r.add(p)
	return nil
}

// indirect returns the error for an indirect function, with where its implementations are: they
// are local, so that nm -D has none of them.
func indirect(f *elffile.File, path string) error {
	const what = "it is an indirect function: at start-up its resolver picks an implementation for this CPU"
	if f.SectionOfType(elf.SHT_SYMTAB) != nil {
		return fmt.Errorf("%s, a local function with a name of its own (nm %s); probe that", what, path)
	}
	return fmt.Errorf("%s, a local function, whose name this file is stripped of: find its address with the file's debug symbols (nm of the debug file), and probe uprobe:%s:ADDRESS", what, path)
}

// symbolFilter returns a filter of the symbol names that a probe's name stands for.
func (u *userProbe) symbolFilter(demangle func(string) string) (want func([]byte) bool,
	version string,
) {
	name := u.symbol
	switch u.lang {
	case "cpp", "rust":
		g := glob.Compile(name)
		return func(b []byte) bool {
			if !mangled(u.lang, string(b)) {
				return false
			}
			full := demangle(string(b))
			return full == name || g.Match(full) || userfile.BareName(full) == name
		}, ""
	}
	if base, v, ok := userfile.CutVersion(name); ok {
		name, version = base, v
	}
	if glob.IsPattern(name) {
		g := glob.Compile(name)
		return func(b []byte) bool { return string(b) == name || g.Match(string(b)) }, version
	}
	return func(b []byte) bool { return string(b) == name }, version
}

// mangled reports whether a symbol's name is mangled as a language does it.
func mangled(lang, name string) bool {
	if lang == "rust" {
		return strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "_ZN")
	}
	return strings.HasPrefix(name, "_Z")
}

// demangler returns a demangler for the names in a file.
func demangler(f *elffile.File) *symbol.Demangler {
	return symbol.NewDemangler(&symbol.DemangleOptions{Budget: leastReadable + f.Stored()/4})
}

// take counts matches against Options.MaxFunctions, and fails when they are too many.
func (r *resolver) take(n int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.taken += n; r.o.MaxFunctions > 0 && r.taken > r.o.MaxFunctions {
		return fmt.Errorf("more than %d functions or places match", r.o.MaxFunctions)
	}
	return nil
}

// leastReadable is the budget for the readable names of any file: see symbol.DemangleOptions.
const leastReadable = 1 << 20

// findSymbols finds the functions of that name, one for each address, sorted.
func (r *resolver) findSymbols(f *elffile.File, path string, u userProbe,
	goProgram bool,
) ([]userfile.Symbol, error) {
	names := demangler(f)
	want, version := u.symbolFilter(names.Demangle)
	found, total, ok, err := r.namedFunctions(&u, goProgram)
	if !ok {
		count := func(b []byte) bool { total++; return want(b) }
		err = userfile.Symbols(r.ctx, f, count, func(s userfile.Symbol) error {
			if version == "" || s.Version == version {
				found = append(found, s)
				return r.take(1)
			}
			return nil
		})
	}
	if err == nil {
		err = names.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !ok && len(found) == 0 && goProgram && u.lang != "cpp" && u.lang != "rust" {
		if found, err = r.code.GoFunctions(path, want, r.take); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, r.noSymbol(f, path, u, total)
	}
	return u.pick(userfile.Dedupe(found, u.symbol))
}

// pick settles which of several functions is meant: all for a pattern; among functions of one
// name the global one, and of several versions the default one, as for the linker and dlsym(3);
// else none.
func (u *userProbe) pick(found []userfile.Symbol) ([]userfile.Symbol, error) {
	exact := slices.DeleteFunc(slices.Clone(found), func(s userfile.Symbol) bool {
		return s.Name != u.symbol
	})
	if len(exact) > 0 {
		found = exact // a name with brackets or stars of its own: Go's
	}
	if len(found) == 1 || glob.IsPattern(u.symbol) && len(exact) == 0 {
		return found, nil
	}
	global := slices.DeleteFunc(slices.Clone(found), func(s userfile.Symbol) bool { return !s.Global })
	if len(global) == 1 {
		return global, nil
	}
	chosen := slices.DeleteFunc(slices.Clone(global), func(s userfile.Symbol) bool { return !s.Default })
	if len(chosen) == 1 {
		return chosen, nil
	}
	if u.lang != "" {
		return found, nil // overloads of one name
	}
	var at []string
	by := "address"
	for _, s := range found[:min(len(found), 4)] {
		one := fmt.Sprintf("%#x", s.Value)
		if s.Version != "" {
			one, by = s.Name+"@"+s.Version+" ("+one+")", "version or address"
		}
		at = append(at, one)
	}
	return nil, fmt.Errorf("%d functions are called %s; name one by %s: %s", len(found), u.symbol,
		by, strings.Join(at, ", "))
}

// noSymbol explains why there is no function of that name in the file.
func (r *resolver) noSymbol(f *elffile.File, path string, u userProbe, total int) error {
	if total == 0 {
		return notexist.Errorf(
			"%s has no symbols (stripped): give an address, or install its debug symbols", path)
	}
	if r.ignored != nil {
		return notexist.Errorf("no function %s in %s", u.symbol, path) // the first error has a hint
	}
	if userfile.Imported(f, u.symbol) {
		return notexist.Errorf(
			"%s only calls %s, which a shared library defines: probe the library, such as uprobe:libc:%s",
			path, u.symbol, u.symbol)
	}
	meant := near.New(u.symbol)
	_ = userfile.Symbols(r.ctx, f, func(b []byte) bool { meant.Add(string(b)); return false }, nil)
	hint := meant.Hint()
	if hint == "" && f.Section(".symtab") == nil {
		hint = "; the file is stripped of local symbols"
	}
	return notexist.Errorf("no function %s in %s%s", u.symbol, path, hint)
}

// userLine adds a probe at a source line: at the first instruction of every place that the
// compiler made of it (inlining makes several).
func (r *resolver) userLine(f *elffile.File, name, shown string, u userProbe,
	goProgram bool,
) error {
	addrs, err := usercode.LineAddresses(r.ctx, r.code.debugInfo(), name, u.file, u.line, u.column)
	if err != nil {
		return err
	}
	p := r.userProgram(f, goProgram)
	p.Args = withReason(p.Args, "arguments are known at a function's entry only")
	if goProgram {
		p.Go = r.goTarget(f, name)
	}
	var bad error
	for _, a := range addrs {
		off, ok := f.Offset(a)
		if !ok {
			continue
		}
		site := Site{
			Target: u.renamed(shown, ""), Offset: off, Address: a, Path: name, PID: u.pid,
			CPU: -1,
		}
		if err := r.begins(&site, r.code.Check(a)); err != nil {
			bad = err // in code that the linker has dropped, whose lines remain
			continue
		}
		p.Sites = append(p.Sites, site)
	}
	if len(p.Sites) == 0 && bad != nil {
		return bad
	}
	if len(p.Sites) == 0 {
		return notexist.Errorf("the code of %s:%d is not in a loaded segment", u.file, u.line)
	}
	r.add(p)
	return nil
}

// userCode is what is known of a file while probes in it are resolved.
type userCode struct {
	*usercode.Boundaries
	program *GoTarget // of a Go program, once it was asked for
	types   *usercode.Types
	debug   *usercode.Debug
	find    *elffile.DebugFinder
}

// newUserCode returns what is known of a file that was opened: nothing yet. The caller closes it
// before the file.
func (r *resolver) newUserCode(path string, f *elffile.File, c io.Closer) *userCode {
	return &userCode{
		Boundaries: &usercode.Boundaries{Ctx: r.ctx, F: f}, find: userfile.DebugFinder(r.env, path, c),
	}
}

// debugInfo returns the file's debug information.
func (c *userCode) debugInfo() *usercode.Debug {
	if c.debug == nil {
		c.debug = usercode.OpenDebug(c.F, c.find)
	}
	return c.debug
}

func (c *userCode) close() { c.debug.Close() }
