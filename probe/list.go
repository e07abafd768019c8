package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/prototype"
)

// ListOptions are the options of List. The zero value and nil are the defaults.
type ListOptions struct {
	// Env is where to look; nil is this machine.
	Env *Env
	// Args fills in arguments, fields and return values, with their types, as far as
	// BTF, format files, USDT notes and, for user functions, DWARF have them. Reading kernel
	// types takes 10 to 20 ms once, and some microseconds for each function; reading a file's
	// DWARF takes from milliseconds to seconds.
	Args bool
}

// Match is a place that can be attached to. It is plain data.
type Match struct {
	// Target names the place; ParseTarget reads its String. The path of a file is relative if
	// the pattern's is.
	Target Target
	// Name is how bpftrace lists the place, if that is not Target's String, which has a count or
	// a time of its own, or a process: "software:page-faults:", "interval:ms:".
	Name string
	// Module is the kernel module that a function is in, "" for the kernel itself and
	// for places outside the kernel.
	Module string
	// Duplicate is set on a kernel function whose name other functions have too: it must
	// be named by address.
	Duplicate bool
	// Source says how it is known that the place can be attached to, if not from the
	// kernel's own list.
	Reason string
	// Args, Fields and Ret are as in ProgramPlan, if ListOptions.Args is set.
	Args   []Arg
	Fields []Arg
	Ret    *Arg
}

// String returns the name and, below it, its arguments if they are known, one an indented
// line, as bpftrace -lv prints them: it has the stars of user functions beside the type.
func (l Match) String() string {
	var b strings.Builder
	if b.WriteString(l.Name); l.Name == "" {
		b.WriteString(l.Target.String())
	}
	declare := ctype.Declaration
	switch l.Target.(type) {
	case Uprobe, Uretprobe:
		declare = ctype.StarsFirst
	}
	for _, a := range slices.Concat(l.Args, l.Fields) {
		b.WriteString("\n    " + declare(a.Type, a.Name))
		if a.Loc.Reason != "" {
			b.WriteString(" (" + a.Loc.Reason + ")")
		}
	}
	if l.Ret != nil {
		b.WriteString("\n    " + declare(l.Ret.Type, "retval"))
	}
	return b.String()
}

// TypeDefinition returns the definition of a struct, union or enum, such as [Env.BTF] has, as C has it,
// over several lines; of another type it returns its name.
func TypeDefinition(t btf.Type) string { return ctype.Definition(t) }

// List yields the places that match a pattern, in bpftrace's syntax with wildcards in
// any part: "kprobe:tcp_*", "tracepoint:syscalls:sys_enter_*",
// "uprobe:/usr/bin/python3*:*gc*", "usdt:/usr/bin/postgres:*", "usdt:*" (the files that
// any process has mapped), "uprobe:*:*main* pid=7" (the files that process has mapped),
// "iter:*", "software:*", "interval:*". Only kernel functions that can be traced are listed.
// Nothing is attached.
//
// A pattern in place of the kind lists all kinds that match it and that what follows fits; what
// cannot be listed of them is left out.
//
// The second result returns, after the loop, the error that ended it; the matches
// yielded before the error are valid.
func List(pattern string, o *ListOptions) (iter.Seq[Match], func() error) {
	if o == nil {
		o = &ListOptions{}
	}
	var failed error
	l := &lister{o: o, env: o.Env}
	if l.env == nil {
		l.env = NewEnv(nil)
	}
	l.r = &resolver{ctx: context.Background(), env: l.env, o: &Options{DWARF: o.Args}, plan: &Plan{}}
	seq := func(yield func(Match) bool) {
		failed = nil
		l.yield = yield
		if err := l.list(pattern); err != nil && !errors.Is(err, errStop) {
			failed = fmt.Errorf("list %s: %w", pattern, err)
		}
	}
	return seq, func() error { return failed }
}

// errStop ends a listing whose loop the caller has left.
var errStop = errors.New("stop")

type lister struct {
	o     *ListOptions
	env   *Env
	r     *resolver
	yield func(Match) bool
}

func (l *lister) put(x Match) error {
	if !l.yield(x) {
		return errStop
	}
	return nil
}

// putIn is put for a place in a process, if pid is not 0, whose name does not have that.
func (l *lister) putIn(pid int, x Match) error {
	if t, ok := x.Target.(interface{ withPID(pid int) Target }); ok && pid != 0 {
		x.Name = t.withPID(0).String()
	}
	return l.put(x)
}

func (l *lister) list(pattern string) error {
	kind, rest, _ := strings.Cut(pattern, ":")
	if glob.IsPattern(kind) {
		return l.kinds(kind, rest)
	}
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

// kinds lists what follows of all kinds whose names match.
func (l *lister) kinds(pattern, rest string) error {
	g := glob.Compile(pattern)
	var last error
	listed := false
	for _, kind := range kindNames() {
		switch kind {
		case "fmod_ret", "perf", "watchpoint", "socket", "begin", "end":
			continue // what the pattern says is all that is known of them
		}
		if !g.Match(kind) {
			continue
		}
		err := l.list(kind + ":" + rest)
		if errors.Is(err, errStop) {
			return err
		}
		last, listed = cmp.Or(err, last), listed || err == nil
	}
	if listed {
		return nil
	}
	return cmp.Or(last, fmt.Errorf("no kind matches %s: kinds are %s", pattern, strings.Join(kindNames(), ", ")))
}

// functions lists kernel functions. one makes the Match of a function, and reports false if
// its kind does not list it; again is set if several functions have the name.
func (l *lister) functions(module, pattern string,
	one func(s kallsyms.Symbol, again bool) (Match, bool),
) error {
	list, err := l.env.Traceable()
	if err != nil {
		return err
	}
	matches := list.Match(module, pattern)
	again := repeated(matches)
	for _, s := range matches {
		x, ok := one(s, again[s.Name])
		if !ok {
			continue
		}
		x.Module, x.Duplicate, x.Reason = s.Module, again[s.Name], list.Reason
		if err := l.put(x); err != nil {
			return err
		}
	}
	return nil
}

// repeated returns the names that more than one of the functions has.
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

// listNames lists the matching names of a kind, which types of the kind T in the module's
// BTF, or the kernel's, have behind a prefix. one makes the Match of a name.
func listNames[T env.NamedType](l *lister, module, prefix, pattern string,
	one func(name string) Match,
) error {
	names, err := prototype.Names[T](l.env, module, prefix)
	if err != nil {
		return err
	}
	g := glob.Compile(pattern)
	for _, n := range names {
		if !g.Match(n) {
			continue
		}
		if err := l.put(one(n)); err != nil {
			return err
		}
	}
	return nil
}
