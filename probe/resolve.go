package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/spelling"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// MissingPolicy says what is done about a target, or a match of a wildcard,
// that cannot be attached.
type MissingPolicy uint8

// The policies.
const (
	// MissingError makes it an error of the call.
	MissingError MissingPolicy = iota
	// MissingWarn leaves it out and lists it, with the reason, in Plan.Missing or,
	// where the kernel refuses it as late as that, in Link.Missing.
	MissingWarn
	// MissingIgnore leaves it out without a word; if nothing is left, the error is
	// why the last one was left out.
	MissingIgnore
)

// Options says how targets are resolved. The zero value, and nil, is the
// default.
type Options struct {
	// Missing is what happens to targets that cannot be attached. Matches of a
	// wildcard that the kernel does not let trace are never an error, as long
	// as one is left.
	Missing MissingPolicy
	// NoTypes leaves the types of arguments out, and so spares reading BTF:
	// arguments are then registers or slots by number. Tracepoint fields are
	// typed all the same, by the format file.
	NoTypes bool
	// DWARF has the arguments of user functions typed and named by the file's
	// debug information, where it has any. Reading that takes from milliseconds
	// to seconds, by the size of the program; without it arguments are
	// registers by number.
	DWARF bool
	// NoMulti plans one perf event for each site even where the kernel has
	// links that take many.
	NoMulti bool
	// Fallback plans a kprobe or kretprobe for fentry and fexit where the
	// kernel has no trampolines; Program.FallbackReason says so, and Program.Args that a
	// kretprobe has no arguments.
	Fallback bool
	// PreferBTF plans raw tracepoints as typed tracing programs (tp_btf) where
	// the kernel permits them, so that programs may follow pointers directly.
	PreferBTF bool
	// Session plans a group's function entries as one program that sees entry
	// and return (kprobe.session, 6.10; uprobe.session, 6.13; fsession for
	// Fentry, 7.0, a program for each function unless TracingMulti is set).
	// Program.FallbackReason says why it is none.
	Session bool
	// TracingMulti plans all of a group's Fentry targets, or Fexit targets, as
	// one program with one link, where the kernel can (7.2, on amd64): loading a
	// program for each function is what takes the time otherwise. Arguments are
	// then had by helpers (LocationFuncArg), as plain numbers. Functions of
	// modules keep programs of their own.
	TracingMulti bool
	// ProgramPerSite plans a program for each site where the kernel has no cookies by
	// which one program tells its sites apart (before 5.15; raw tracepoints
	// before 6.10), at the cost of loading each. action.Attach sets it for
	// programs that ask which probe has fired.
	ProgramPerSite bool
	// Sleepable plans user probes as programs that may sleep, and so may read
	// user memory that is not resident (6.0). Older kernels get programs that
	// may not, and Program.FallbackReason says so.
	Sleepable bool
	// Unsafe plans user probes also where the file does not show that an
	// instruction begins (Site.Boundary): a breakpoint inside of one makes another
	// instruction of it, in every process that runs the file. And it plans them in
	// files for which a process answers (FUSE), for which the kernel waits while
	// nobody on the machine can fork. Without it such a target is an error.
	Unsafe bool
	// MaxFunctions is the number of matches in user files, over all targets and
	// files, with which Resolve gives up: before it has read what each of them
	// takes. Functions count once for each name and symbol table that has them. 0
	// is no limit.
	MaxFunctions int
	// AttachType is the attach type that the program at hand was loaded with,
	// for Attach of a program from elsewhere; 0 is none.
	AttachType ebpf.AttachType
	// Filter restricts probes to some processes, control groups or namespaces;
	// nil is all. Programs carry it in themselves: bpf.Compile and
	// Plan.ApplyFilter put it there, so Attach, whose program is loaded
	// already, refuses it.
	Filter *Filter
	// Tag is put into the upper 16 bits of every cookie.
	Tag uint16
	// Env is what Attach decides by; nil is this machine. Resolve takes its own.
	Env *Env
	// Context has Resolve and Attach give up when it ends, with its error: what files
	// and processes of others hold may take long to look through. A system call that
	// waits, for a file system that does not answer, is not interrupted. Nil is none.
	Context context.Context
}

// maxTyped is the number of a wildcard's matches up to which the prototype of
// each is looked up. Beyond it arguments are untyped: nobody reads arguments
// by name that 10,000 functions share, and the look-ups cost a second in bulk.
const maxTyped = 256

// Resolve decides how the targets are attached, and returns the decision as
// data. A target's index is the Group of its programs. It reads of the
// environment only what the targets need: perf events and raw tracepoints
// without types nothing but kernel features.
//
// Nothing is attached. Errors name the target as its String does, and match
// fs.ErrNotExist for names that do not exist and errors.ErrUnsupported for
// what this kernel cannot do.
func Resolve(env *Env, targets []Target, o *Options) (*Plan, error) {
	if env == nil {
		env = NewEnv(nil)
	}
	if o == nil {
		o = &Options{}
	}
	ctx := o.Context
	if ctx == nil {
		ctx = context.Background()
	}
	r := &resolver{ctx: ctx, env: env, o: o, plan: &Plan{Arch: env.Arch(), Kernel: env.Release(), Files: userfile.FileIDs{}, Cache: env.TypeCache()}}
	for i, t := range targets {
		if t == nil {
			return nil, fmt.Errorf("resolve: target %d is nil", i)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("resolve %s: %w", t, err)
		}
		r.group = i
		before := len(r.plan.Programs)
		if err := r.resolveGroup(t); err != nil {
			return nil, err
		}
		if len(r.plan.Programs) == before && o.Missing == MissingError {
			return nil, fmt.Errorf("resolve %s: nothing to attach to", t)
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("resolve: no targets")
	}
	if len(r.plan.Programs) == 0 && r.ignored != nil {
		return nil, r.ignored
	}
	if err := r.filter(); err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	r.finish()
	r.plan.BTF = env.KnownBTF()
	return r.plan, nil
}

// resolver is the state of one Resolve.
type resolver struct {
	ctx   context.Context
	env   *Env
	o     *Options
	plan  *Plan
	taken int // of Options.MaxFunctions
	group int
	// parts are the group's programs so far, before those that can share one
	// are merged.
	parts []Program
	// ignored is why the last target was left out by MissingIgnore.
	ignored error
	// lacksAdmin is what unprivileged has found out, nil before.
	lacksAdmin *bool
	// code is that of the file at hand.
	code *userCode
	// untyped are the kernel functions' argument registers, shared by all
	// programs that know no more; slots are those of trampolines for many.
	untyped, slots []Arg
}

// sources are what the plan's files are read by.
func (r *resolver) sources() userfile.Sources {
	return userfile.Sources{IDs: r.plan.Files, Served: r.o.Unsafe}
}

func (r *resolver) resolveGroup(t Target) error {
	r.parts = nil
	if err := r.resolveMember(t); err != nil {
		return err
	}
	if err := r.rebase(); err != nil {
		return err
	}
	for _, p := range r.mergePrograms() {
		p.Group = r.group
		if err := r.choose(&p); err != nil {
			return err
		}
		if len(p.Sites) == 0 {
			continue
		}
		r.plan.Programs = append(r.plan.Programs, p)
	}
	return nil
}

// resolveMember resolves a target of a group, or every one of a Set.
func (r *resolver) resolveMember(t Target) error {
	if set, ok := t.(Set); ok {
		for _, m := range set {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if err := r.resolveMember(m); err != nil {
				return err
			}
		}
		return nil
	}
	err := r.resolveOne(t)
	// The next best target of another kind, for kinds that have one.
	f, ok := t.(interface{ fallback() Target })
	if ok && r.o.Fallback && errors.Is(err, errors.ErrUnsupported) && f.fallback() != nil {
		first := len(r.parts)
		if r.resolveOne(f.fallback()) == nil {
			for i := range r.parts[first:] {
				r.parts[first+i].FallbackReason = fmt.Sprintf("%s: %s", t, feature.Reason(err))
			}
			return nil
		}
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("resolve %s: %w", t, err)
	return r.missing(t, err)
}

// missing applies the policy to a target that cannot be had.
func (r *resolver) missing(t Target, err error) error {
	switch r.o.Missing {
	case MissingError:
		return err
	case MissingWarn:
		r.plan.Missing = append(r.plan.Missing, Missing{t, err})
	case MissingIgnore:
		r.ignored = err
	}
	return nil
}

func (r *resolver) resolveOne(t Target) error {
	if t == nil || reflect.TypeOf(t).Kind() == reflect.Pointer {
		return fmt.Errorf("unknown kind of target %T", t)
	}
	return t.resolve(r)
}

// add records a program of the group.
func (r *resolver) add(p Program) { r.parts = append(r.parts, p) }

// addAlike records a program, or only its sites where it is the last one's twin:
// of many functions without types, one need not be merged with the next.
func (r *resolver) addAlike(p Program) {
	if n := len(r.parts); n > 0 {
		q := &r.parts[n-1]
		args := len(q.Args) == len(p.Args) && (len(p.Args) == 0 || &q.Args[0] == &p.Args[0])
		if args && q.Ret == nil && p.Ret == nil && q.FallbackReason == p.FallbackReason && r.joins(q, &p) {
			q.Sites = append(q.Sites, p.Sites...)
			return
		}
	}
	r.add(p)
}

// joins says whether p's sites can run q's program.
func (r *resolver) joins(q, p *Program) bool {
	return canMerge(q, p) && !(r.o.ProgramPerSite && r.noCookies(p))
}

// mergePrograms joins the programs of a group that one program can stand for:
// the same type at several sites, told apart by cookie.
func (r *resolver) mergePrograms() []Program {
	var out []Program
	for _, p := range r.parts {
		i := slices.IndexFunc(out, func(q Program) bool { return r.joins(&q, &p) })
		if i < 0 {
			out = append(out, p)
			continue
		}
		q := &out[i]
		q.Sites = append(q.Sites, p.Sites...)
		q.Args = commonArgs(q.Args, p.Args)
		q.FallbackReason = cmp.Or(q.FallbackReason, p.FallbackReason)
		if q.Ret != nil && (p.Ret == nil || !sameType(q.Ret.Type, p.Ret.Type)) {
			untyped := *q.Ret
			untyped.Type = nil
			q.Ret = &untyped
		}
	}
	return distinct(out)
}

// distinct drops places that came before, and programs that are left without one: a
// Set, or two wildcards, may name a place twice, and nobody wants to count it twice.
// A function entry and its return are two places, as are its fentry and its kprobe.
func distinct(list []Program) []Program {
	if len(list) == 0 || len(list) == 1 && len(list[0].Sites) < 2 {
		return list
	}
	type place struct {
		kind                 reflect.Type
		name                 string // a probe's provider, or all of what has neither symbol nor file
		module, symbol, path string
		offset               uint64
		pid, cpu             int
	}
	// Addresses by place: a function found by BTF has none, and is the same as
	// one found by name in another list; namesakes at two addresses are not.
	seen := map[place][]uint64{}
	out := list[:0]
	for _, q := range list {
		had := len(q.Sites)
		q.Sites = slices.DeleteFunc(q.Sites, func(s Site) bool {
			p := place{reflect.TypeOf(s.Target), "", s.Module, s.Symbol, s.Path, s.Offset, s.PID, s.CPU}
			if u, ok := s.Target.(USDT); ok {
				p.name = u.Provider
			} else if s.Symbol == "" && s.Path == "" {
				p.name = s.Target.String()
			}
			have := seen[p]
			again := len(have) > 0 && (s.Address == 0 || slices.Contains(have, s.Address) || slices.Contains(have, 0))
			if !again {
				seen[p] = append(have, s.Address)
			}
			return again
		})
		if had == 0 || len(q.Sites) > 0 {
			out = append(out, q)
		}
	}
	return out
}

// noCookies says whether the kernel has none for a program of several sites.
func (r *resolver) noCookies(p *Program) bool {
	if p.Method == MethodRawTracepoint {
		return !has(r.env, feature.RawTracepointCookie)
	}
	return !has(r.env, feature.AttachCookie)
}

// canMerge tells whether p's sites can run q's program. Programs bound to
// their target when they are loaded cannot, nor can records of different layout.
func canMerge(q, p *Program) bool {
	switch q.Method {
	case MethodPerfLink, MethodRawTracepoint, MethodTracingMulti:
	default:
		return false
	}
	return q.Type == p.Type && q.AttachType == p.AttachType && q.Method == p.Method && q.Flags == p.Flags &&
		q.Context == p.Context && q.Returns == p.Returns && q.UserRegs == p.UserRegs &&
		q.Specs == nil && p.Specs == nil && sameGo(q.Go, p.Go) && sameFields(q.Fields, p.Fields)
}

func sameGo(a, b *GoTarget) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func sameFields(a, b []Arg) bool {
	return slices.EqualFunc(a, b, func(x, y Arg) bool {
		return x.Name == y.Name && x.Loc == y.Loc && sameType(x.Type, y.Type)
	})
}

// sameType compares types by identity, which BTF's deduplication gives them, or
// by name, for those that came from different files or modules.
func sameType(a, b btf.Type) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	s := TypeString(a)
	return s == TypeString(b) && !strings.ContainsAny(s, "({")
}

// commonArgs is what two sites offer both: as many arguments as the one with
// fewer has, by position, with name and type where they agree.
func commonArgs(a, b []Arg) []Arg {
	if slices.Equal(a, b) {
		return a
	}
	n := min(len(a), len(b))
	out := make([]Arg, 0, n)
	for i := range n {
		x, y := a[i], b[i]
		if x.Name != y.Name {
			x.Name = fmt.Sprintf("arg%d", i)
		}
		if !sameType(x.Type, y.Type) {
			x.Type = nil
		}
		if x.Loc != y.Loc {
			if x.Loc.Kind == y.Loc.Kind && x.Loc.Reg == y.Loc.Reg && x.Loc.Offset == y.Loc.Offset && x.Loc.Reason == y.Loc.Reason {
				x.Loc.Size = max(x.Loc.Size, y.Loc.Size)
			} else {
				x.Loc = Location{Reason: "it lies in different places in the functions that share this probe"}
			}
		}
		out = append(out, x)
	}
	return out
}

// finish names the programs and allots the cookies.
func (r *resolver) finish() {
	r.plan.Files = keepFiles(r.plan.Files, r.plan.Programs)
	site := 0
	for i := range r.plan.Programs {
		p := &r.plan.Programs[i]
		p.Name = programName(p, i)
		for j := range p.Sites {
			s := &p.Sites[j]
			s.Cookie = MakeCookie(site, s.Cookie.Spec(), r.o.Tag)
			site++
		}
	}
}

// programName makes a name of at most 15 bytes (BPF_OBJ_NAME_LEN less one)
// that bpftool's user recognises: the target's last word and the index.
func programName(p *Program, i int) string {
	word := "probe"
	if len(p.Sites) > 0 && p.Sites[0].Target != nil {
		word = p.Sites[0].Target.word()
	}
	suffix := fmt.Sprintf("_%d", i)
	var b strings.Builder
	for j := 0; j < len(word) && b.Len() < 15-len(suffix); j++ {
		if spelling.IsWord(word[j]) {
			b.WriteByte(word[j])
		}
	}
	return b.String() + suffix
}
