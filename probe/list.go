package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/usdt"
)

// ListOptions says what List does. The zero value, and nil, is the default.
type ListOptions struct {
	// Env is where to look; nil is this machine.
	Env *Env
	// Args fills in arguments, fields and return values, with their types, as
	// far as BTF, format files and notes tell. Kernel types take 10 to 20 ms
	// once, and some microseconds for each function.
	Args bool
}

// Listed is a place that can be attached to: plain data.
type Listed struct {
	// Target names it: its String is what ParseTarget takes.
	Target Target
	// Module is the kernel module that a function is in, "" for the kernel
	// itself and for what is not in the kernel.
	Module string
	// Duplicate is set on a kernel function whose name others have too: it
	// must be named by address.
	Duplicate bool
	// Source says where the knowledge that it can be attached is from, if that
	// is not the kernel's own list.
	Source string
	// Args, Fields and Ret are as in Program, if ListOptions.Args asked for them.
	Args   []Arg
	Fields []Arg
	Ret    *Arg
}

// String is the target, and below it, if they are known, its arguments, one a
// line and indented, as bpftrace -lv prints them.
func (l Listed) String() string {
	var b strings.Builder
	b.WriteString(l.Target.String())
	for _, a := range slices.Concat(l.Args, l.Fields) {
		b.WriteString("\n    " + declaration(a.Type, a.Name))
		if a.Loc.Reason != "" {
			b.WriteString(" (" + a.Loc.Reason + ")")
		}
	}
	if l.Ret != nil {
		b.WriteString("\n    " + declaration(l.Ret.Type, "retval"))
	}
	return b.String()
}

// List yields what matches a pattern, in bpftrace's syntax with wildcards in
// any part: "kprobe:tcp_*", "tracepoint:syscalls:sys_enter_*",
// "uprobe:/usr/bin/python3*:*gc*", "usdt:/usr/bin/postgres:*", "usdt:*" (the
// files that any process has mapped), "iter:*", "software:*". Only kernel
// functions that can be traced are listed.
//
// The function returned beside it says, after the loop, what went wrong; what
// was found before that is good. Nothing is attached.
func List(pattern string, o *ListOptions) (iter.Seq[Listed], func() error) {
	if o == nil {
		o = &ListOptions{}
	}
	var failed error
	l := &lister{o: o, env: o.Env}
	if l.env == nil {
		l.env = NewEnv(nil)
	}
	l.r = &resolver{ctx: context.Background(), env: l.env, o: &Options{}, plan: &Plan{}}
	seq := func(yield func(Listed) bool) {
		failed = nil
		l.yield = yield
		if err := l.list(pattern); err != nil && !errors.Is(err, errStop) {
			failed = fmt.Errorf("list %s: %w", pattern, err)
		}
	}
	return seq, func() error { return failed }
}

// errStop ends a listing that the caller broke off.
var errStop = errors.New("stop")

type lister struct {
	o     *ListOptions
	env   *Env
	r     *resolver
	yield func(Listed) bool
}

func (l *lister) put(x Listed) error {
	if !l.yield(x) {
		return errStop
	}
	return nil
}

func (l *lister) list(pattern string) error {
	kind, rest, _ := strings.Cut(pattern, ":")
	if k := kindNamed(kind); k != nil && k.pattern != nil {
		complete, listed, err := k.pattern(l, rest)
		if listed || err != nil {
			return err
		}
		pattern = kind + ":" + complete
	}
	t, err := ParseTarget(pattern)
	if err != nil {
		return err
	}
	return t.list(l)
}

// functions lists kernel functions. Those of fentry and fexit must have a
// prototype.
func (l *lister) functions(module, pattern string, target func(kallsyms.Symbol) Target) error {
	if err := l.possible(target(kallsyms.Symbol{})); err != nil {
		return err
	}
	list, err := l.env.Traceable()
	if err != nil {
		return err
	}
	matches := list.Match(module, pattern)
	again := repeated(matches)
	for _, s := range matches {
		x := Listed{Target: target(s), Module: s.Module, Duplicate: again[s.Name], Source: list.Why}
		if x.Duplicate && s.Address != 0 {
			if _, ok := x.Target.(Kprobe); ok {
				x.Target = Kprobe{Address: s.Address}
			}
		}
		if !l.typed(&x, s) {
			continue
		}
		if err := l.put(x); err != nil {
			return err
		}
	}
	return nil
}

// repeated are the names that more than one of the functions has.
func repeated(list []kallsyms.Symbol) map[string]bool {
	seen := make(map[string]struct{}, len(list))
	again := map[string]bool{}
	for i := range list {
		before := len(seen)
		if seen[list[i].Name] = struct{}{}; len(seen) == before {
			again[list[i].Name] = true
		}
	}
	return again
}

// possible says why targets of a kind cannot be attached here at all.
func (l *lister) possible(t Target) error {
	f := feature.Kprobe
	switch t.(type) {
	case Fentry:
		f = feature.Fentry
	case Fexit:
		f = feature.Fexit
	}
	err := l.env.Supports(f)
	if !errors.Is(err, errors.ErrUnsupported) || f == feature.Kprobe && has(l.env, feature.KprobeMulti) {
		return nil
	}
	return err
}

// typed fills a kernel function's arguments in, if asked to; it is false for a
// trampoline on a function without a prototype.
func (l *lister) typed(x *Listed, s kallsyms.Symbol) bool {
	tramp, tracing := x.Target.(Fentry)
	_, exit := x.Target.(Fexit)
	if !l.o.Args && !tracing && !exit {
		return true
	}
	proto, err := prototype.Of(l.r.env, s.Module, s.Name)
	if tracing || exit {
		if err != nil || isClone(s.Name) {
			return false
		}
		if l.o.Args {
			at := ebpf.AttachTraceFEntry
			if exit {
				at = ebpf.AttachTraceFExit
			}
			p := tracingProgram(trampoline{target: tramp, symbol: s.Name, at: at}, proto)
			x.Args, x.Ret = p.Args, p.Ret
		}
		return true
	}
	p := Program{}
	_, p.Returns = x.Target.(Kretprobe)
	if err := l.r.typeKernel(&p, s, 0, true); err == nil {
		x.Args, x.Ret = p.Args, p.Ret
	}
	return true
}

func (l *lister) tracepoints(t Tracepoint) error {
	list, err := matchTracepoints(l.env, t.Group, t.Name)
	if err != nil {
		return err
	}
	for _, m := range list {
		x := Listed{Target: m}
		if l.o.Args {
			f, err := l.env.Tracepoint(m.Group, m.Name)
			if err != nil {
				return err
			}
			for i := range f.Fields {
				if !f.Fields[i].Common {
					x.Fields = append(x.Fields, fieldArg(&f.Fields[i], m.Group))
				}
			}
		}
		if err := l.put(x); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) rawTracepoints(t RawTracepoint) error {
	spec, err := l.env.BTF()
	if err != nil {
		return err
	}
	if t.Module != "" && t.Module != "vmlinux" {
		if spec, err = l.env.ModuleBTF(t.Module); err != nil {
			return err
		}
	}
	g := glob.Compile(t.Name)
	for _, name := range prototype.Names[*btf.Typedef](spec, rawTypePrefix) {
		if !g.Match(name) {
			continue
		}
		x := Listed{Target: RawTracepoint{Module: t.Module, Name: name}, Module: t.Module}
		if l.o.Args {
			if params, err := x.Target.(RawTracepoint).prototype(l.r); err == nil {
				x.Args, _ = trampArgs(params)
			}
		}
		if err := l.put(x); err != nil {
			return err
		}
	}
	return nil
}

// named lists what BTF knows by name.
func (l *lister) named(pattern, kind string, target func(string) Target) error {
	spec, err := l.env.BTF()
	if err != nil {
		return err
	}
	names := prototype.Names[*btf.Struct](spec, iterPrefix)
	if kind == "lsm" {
		names = prototype.Names[*btf.Func](spec, hookPrefix)
	}
	g := glob.Compile(pattern)
	for _, n := range names {
		if g.Match(n) {
			x := Listed{Target: target(n)}
			if l.o.Args {
				l.describe(&x, n)
			}
			if err := l.put(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe fills in what a security hook or an iterator offers.
func (l *lister) describe(x *Listed, name string) {
	switch t := x.Target.(type) {
	case LSM:
		if proto, err := prototype.Of(l.r.env, "", hookPrefix+t.Hook); err == nil {
			x.Args, _ = trampArgs(proto.Params)
		}
	case Iter:
		x.Fields, _ = l.r.iterFields(name)
	}
}

func (l *lister) userFunctions(name, pattern string, pid int, target func(path, symbol string) Target) error {
	paths, err := userfile.Paths(l.env, name, pid)
	if err != nil {
		return err
	}
	g := glob.Compile(pattern)
	for _, p := range paths {
		names := map[string]bool{}
		err := userfile.WithELF(l.env, userfile.Sources{}, p, func(f *elffile.File) error {
			want := func(b []byte) bool { return g.Match(string(b)) }
			err := userfile.Symbols(context.Background(), f, want, func(s userfile.Symbol) error {
				names[s.Name] = true
				return nil
			})
			if err != nil || len(names) > 0 || !userfile.IsGo(f) {
				return err
			}
			l.r.code = newUserCode(l.r.ctx, f)
			found, err := l.r.goSymbols(f, p, want)
			for _, s := range found {
				names[s.Name] = true
			}
			return err
		})
		if err != nil && len(paths) == 1 {
			return err
		}
		for _, n := range slices.Sorted(maps.Keys(names)) {
			if err := l.put(Listed{Target: target(p, n)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lister) usdt(t USDT) error {
	paths, err := t.paths(l.r)
	if err != nil {
		return err
	}
	for _, p := range paths {
		err := l.usdtFile(t, p)
		if err != nil && (len(paths) == 1 || errors.Is(err, errStop)) {
			return err
		}
	}
	return nil
}

func (l *lister) usdtFile(t USDT, path string) error {
	sites, err := usdtFile(l.env, userfile.Sources{}, path)
	provider, name := glob.Compile(t.Provider), glob.Compile(t.Name)
	for _, p := range usdt.Merge(sites) {
		if t.Provider != "" && !provider.Match(p.Provider) || !name.Match(p.Name) {
			continue
		}
		x := Listed{Target: USDT{Path: path, Provider: p.Provider, Name: p.Name, PID: t.PID}}
		if l.o.Args {
			x.Args = usdtArgs(p.Sites[0].Args, p.Sites[0].Err)
		}
		if err := l.put(x); err != nil {
			return err
		}
	}
	return err
}

// mappedUSDT lists the probes of the files that processes have mapped
// executable, each file once, by the path of the first process that has it.
func (l *lister) mappedUSDT() error {
	entries, err := fs.ReadDir(l.env.Root(), "proc")
	if err != nil {
		return err
	}
	type file struct{ dev, inode uint64 }
	seen := map[file]bool{}
	for _, d := range entries {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		f, err := l.env.Root().Open("proc/" + d.Name() + "/maps")
		if err != nil {
			continue // it ended meanwhile
		}
		var paths []string
		_ = procfs.ReadMaps(f, func(m *procfs.Mapping) bool {
			k := file{m.Dev, m.Inode}
			if m.Perm&procfs.Exec != 0 && strings.HasPrefix(m.Path, "/") && !seen[k] {
				seen[k] = true
				paths = append(paths, procfs.Dir(pid)+"/root"+m.Path)
			}
			return true
		})
		f.Close()
		for _, p := range paths {
			if err := l.usdtFile(USDT{Name: "*"}, l.plainPath(p, pid)); errors.Is(err, errStop) {
				return err
			}
		}
	}
	return nil
}

// plainPath leaves /proc/PID/root out where the path leads to the same file
// without it.
func (l *lister) plainPath(p string, pid int) string {
	short := strings.TrimPrefix(p, procfs.Dir(pid)+"/root")
	a, err1 := userfile.Stat(l.env, p)
	b, err2 := userfile.Stat(l.env, short)
	if err2 == nil && (err1 != nil || os.SameFile(a, b)) {
		return short
	}
	return p
}

// events lists the generic performance events, whether this CPU has them or not.
func (l *lister) events(typ uint32, pattern string) error {
	name, _, _ := strings.Cut(pattern, ":")
	g := glob.Compile(name)
	for _, n := range slices.Sorted(maps.Keys(defaultPeriods)) {
		ev, err := pmc.ParseEvent(n, nil)
		if err != nil || ev.Type != typ || !g.Match(n) {
			continue
		}
		if err := l.put(Listed{Target: Perf{Event: ev, Period: defaultPeriods[n]}}); err != nil {
			return err
		}
	}
	return nil
}

// Match reports whether a name is meant by a pattern in the syntax that targets
// have: * any run, ? any byte, [a-z] a byte of a set, [!a-z] a byte not in it.
// Every name matches itself.
func Match(pattern, name string) bool { return glob.Match(pattern, name) }
