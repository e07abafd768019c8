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

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/spelling"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// MissingPolicy says what happens to a target, or a match of a wildcard, that cannot be
// attached.
type MissingPolicy uint8

// The policies.
const (
	// MissingError makes the call fail.
	MissingError MissingPolicy = iota
	// MissingWarn leaves it out and lists it, with the reason, in Plan.Missing or, if
	// only the kernel refuses it, in Link.Missing.
	MissingWarn
	// MissingIgnore leaves it out silently; if nothing is left, the error is that of the
	// last one that was left out.
	MissingIgnore
)

// Options are the options of Resolve and Attach. The zero value and nil are the defaults.
type Options struct {
	// Missing says what happens to targets that cannot be attached. Matches of a
	// wildcard that the kernel does not allow to be traced are never an error, as long as
	// one match is left.
	Missing MissingPolicy
	// NoTypes leaves out the types of arguments, so that BTF need not be read: arguments
	// are then registers or slots by number. Tracepoint fields are typed anyway, by the
	// format file.
	NoTypes bool
	// DWARF types and names the arguments of user functions by the file's debug
	// information, if it has any, in the file itself, in a separate debug file
	// (EnvOptions.DebugDirs), or split from it (.dwo, .dwp), and finds them where it says that they are at the
	// function's first instruction. What the compiler has optimized out there has a
	// Location with a Reason, also if a caller still has the value: debuggers look for it in
	// the caller's registers, which probes do not see. Reading that takes from milliseconds
	// to seconds, depending on the size of the program. Otherwise arguments are registers by
	// number.
	//
	// DWARF does not tell where a function returns its value: that is by the calling
	// convention. What LLVM before 17 has left out of a static function, because no caller
	// uses it, is not marked, and such a value is that of another time.
	DWARF bool
	// NoMulti plans one perf event for each site even if the kernel has links that serve
	// many sites.
	NoMulti bool
	// Fallback plans a kprobe or kretprobe for fentry and fexit if the kernel has no
	// trampolines. ProgramPlan.FallbackReason says so, and ProgramPlan.Args that a kretprobe has
	// no arguments.
	Fallback bool
	// PreferBTF plans raw tracepoints as typed tracing programs (tp_btf) where the kernel
	// permits them, so that programs may follow pointers directly.
	PreferBTF bool
	// EntryReturn plans a group's function entries as one program that sees entry and return:
	// kprobe.session (6.10), uprobe.session (6.13), or for Fentry fsession (7.0), with a
	// program for each function unless TracingMulti is set. If none is possible,
	// ProgramPlan.FallbackReason says why.
	EntryReturn bool
	// EntryReturnTargets are the indexes of targets that are planned as EntryReturn plans all.
	EntryReturnTargets []int
	// TracingMulti plans all of a group's Fentry targets, or Fexit targets, as one program
	// with one link, where the kernel can (7.2, on amd64). Otherwise a program is loaded
	// for each function, which takes most of the time. Helpers then return the arguments
	// (LocationFuncArg), as plain numbers. Functions of modules keep programs of their own.
	TracingMulti bool
	// ProgramPerSite plans a program for each site if the kernel has no cookies by which
	// one program distinguishes its sites (before 5.15; raw tracepoints before 6.10). Each
	// program must be loaded. action.Attach sets it for programs that ask which probe has
	// fired.
	ProgramPerSite bool
	// Sleepable plans user probes as programs that may sleep, and so may read user memory
	// that is not resident (6.0). On older kernels the programs may not sleep, and
	// ProgramPlan.FallbackReason says so.
	Sleepable bool
	// Unsafe plans user probes also where the file does not show that an instruction
	// begins (Site.Boundary). A breakpoint inside an instruction changes that instruction
	// in every process that runs the file. Unsafe also plans probes in files that a process
	// serves (FUSE): the kernel waits for that process while no process on the machine can
	// fork. Without Unsafe such targets are errors.
	Unsafe bool
	// MaxFunctions limits the number of matches in user files, over all targets and files.
	// Resolve fails if there are more, before it has read details of each match. A function
	// counts once for each name and symbol table that has it. 0 is no limit.
	MaxFunctions int
	// AttachType is the attach type that the program was loaded with, for Attach of a
	// program from elsewhere; 0 is none.
	AttachType ebpf.AttachType
	// Filter restricts probes to some processes, control groups or namespaces; nil is
	// all. It is part of the programs: bpf.Compile and Plan.ApplyFilter put it there.
	// Attach, whose program is already loaded, therefore refuses it.
	Filter *Filter
	// Tag is put into the upper 16 bits of every cookie.
	Tag uint16
	// Env is the environment that Attach uses; nil is this machine. Resolve ignores it and
	// uses its argument.
	Env *Env
	// Context makes Resolve and Attach fail with its error when it ends: looking through
	// files and processes of others may take long. A system call that waits, for a file
	// system that does not answer, is not interrupted. Nil is none.
	Context context.Context
}

// maxTyped is the number of a wildcard's matches up to which the prototype of each is
// looked up. Beyond it arguments are untyped: arguments by name are of no use to 10,000
// functions, and that many look-ups cost a second.
const maxTyped = 256

// Resolve decides how the targets are attached, and returns the decision as data. A
// target's index is the Group of its programs. A nil env is this machine. Resolve reads
// only those parts of the environment that the targets need: for perf events and untyped
// raw tracepoints, only kernel features.
//
// Nothing is attached. Errors name the target by its String, and match fs.ErrNotExist for
// names that do not exist and errors.ErrUnsupported for what this kernel cannot do.
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
	r := &resolver{ctx: ctx, env: env, o: o, targets: targets, plan: &Plan{
		Arch: env.Arch(), Kernel: env.Release(),
		Files: userfile.FileIDs{}, Cache: env.TypeCache(),
	}}
	defer r.closeFile()
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
	parts []ProgramPlan
	// ignored is why the last target was left out by MissingIgnore, which says it without hints
	// if others were left out before.
	ignored error
	// lacksAdmin is the answer of unprivileged, nil before it was asked.
	lacksAdmin *bool
	// open is the file in which probes are being resolved, nil for USDT, and code is that file's.
	open   *openFile
	code   *userCode
	looked *lookedUp // the last path, nil before the first
	// exact are the names of user functions among targets, nil before the first was resolved.
	targets []Target
	exact   map[wantedName]bool
	// untyped are the kernel functions' argument registers, shared by all untyped
	// programs; slots are those of trampolines for many functions.
	untyped, slots []Arg
}

// sources returns how the plan's files are read.
func (r *resolver) sources() userfile.Sources {
	return userfile.Sources{IDs: r.plan.Files, Served: r.o.Unsafe}
}

// session reports whether the group's function entries are to be sessions.
func (r *resolver) session() bool {
	return r.o.EntryReturn || slices.Contains(r.o.EntryReturnTargets, r.group)
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
	// Kinds that have a fallback to another kind try that.
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
	return r.missing(t, &TargetError{"resolve", t, err})
}

// missing applies the policy to a target that cannot be attached.
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
func (r *resolver) add(p ProgramPlan) { r.parts = append(r.parts, p) }

// addAlike records a program, or only its sites if it is like the last one: with many
// untyped functions, programs then need not be merged one by one.
func (r *resolver) addAlike(p ProgramPlan) {
	if n := len(r.parts); n > 0 {
		q := &r.parts[n-1]
		args := len(q.Args) == len(p.Args) && (len(p.Args) == 0 || &q.Args[0] == &p.Args[0])
		if args && q.Ret == nil && p.Ret == nil && q.FallbackReason == p.FallbackReason &&
			r.joins(q, &p) {
			q.Sites = append(q.Sites, p.Sites...)
			return
		}
	}
	r.add(p)
}

// joins reports whether p's sites can run q's program.
func (r *resolver) joins(q, p *ProgramPlan) bool {
	return canMerge(q, p) && !(r.o.ProgramPerSite && r.noCookies(p))
}

// mergePrograms merges the programs of a group that can be one program: the same type at
// several sites, distinguished by cookie.
func (r *resolver) mergePrograms() []ProgramPlan {
	var out []ProgramPlan
	for _, p := range r.parts {
		i := slices.IndexFunc(out, func(q ProgramPlan) bool { return r.joins(&q, &p) })
		if i < 0 {
			out = append(out, p)
			continue
		}
		q := &out[i]
		q.Sites = append(q.Sites, p.Sites...)
		q.Args = commonArgs(q.Args, p.Args)
		q.FallbackReason = cmp.Or(q.FallbackReason, p.FallbackReason)
		q.Fields = commonFields(q.Fields, p.Fields)
		q.Ret = commonRet(q.Ret, p.Ret)
	}
	return distinct(out)
}

// commonRet returns the return value of functions that share a program. If they return
// different types, or some a value that cannot be read, it is the register as it is.
func commonRet(a, b *Arg) *Arg {
	if a == nil || b != nil && a.Loc == b.Loc && sameType(a.Type, b.Type) {
		return a
	}
	out := *a
	if out.Loc.Reason != "" && b != nil {
		out.Loc = b.Loc
	}
	out.Type = nil
	return &out
}

// commonFields returns the fields that both have.
func commonFields(a, b []Arg) []Arg {
	if sameFields(a, b) {
		return a
	}
	var out []Arg
	for _, x := range a {
		if slices.ContainsFunc(b, func(y Arg) bool { return sameFields([]Arg{x}, []Arg{y}) }) {
			out = append(out, x)
		}
	}
	return out
}

// commonLocation returns the location of a value in functions that share a program.
func commonLocation(a, b Location) Location {
	if a.Kind != b.Kind || a.Reg != b.Reg || a.Offset != b.Offset || a.Reason != b.Reason {
		return Location{Reason: "it lies in different places in the functions that share this probe"}
	}
	a.Size = max(a.Size, b.Size)
	return a
}

// distinct drops repeated places, and programs that are left without one: a Set, or two
// wildcards, may name a place twice, but it should count once. A function's entry and its
// return are two places, and so are its fentry and its kprobe.
func distinct(list []ProgramPlan) []ProgramPlan {
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
	// Addresses by place: a function found by BTF has none, and is the same as one found by
	// name in another list; functions of one name at two addresses are different.
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
			again := len(have) > 0 && (s.Address == 0 || slices.Contains(have, s.Address) ||
				slices.Contains(have, 0))
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

// noCookies reports whether the kernel has no cookies for a program of several sites.
func (r *resolver) noCookies(p *ProgramPlan) bool {
	if p.Method == MethodRawTracepoint {
		return !has(r.env, feature.RawTracepointCookie)
	}
	return !has(r.env, feature.AttachCookie)
}

// canMerge reports whether p's sites can run q's program. Programs that are bound to their
// target when they are loaded cannot be merged, nor programs whose records differ in layout. The
// fields of a C function are members of arguments that are passed in registers: without these,
// its program is like another's.
func canMerge(q, p *ProgramPlan) bool {
	switch q.Method {
	case MethodPerfLink, MethodRawTracepoint, MethodTracingMulti:
	default:
		return false
	}
	return q.Type == p.Type && q.AttachType == p.AttachType && q.Method == p.Method &&
		q.Flags == p.Flags &&
		q.Context == p.Context && q.Returns == p.Returns && q.UserRegs == p.UserRegs &&
		q.Specs == nil && p.Specs == nil && sameGo(q.Go, p.Go) &&
		(q.UserRegs && q.Go == nil || sameFields(q.Fields, p.Fields))
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
	s := ctype.String(a)
	return s == ctype.String(b) && !strings.ContainsAny(s, "({")
}

// commonArgs returns the arguments that two sites both offer: as many as the one with
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
			x.Loc = commonLocation(x.Loc, y.Loc)
		}
		out = append(out, x)
	}
	return out
}

// finish names the programs and assigns the cookies.
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

// programName returns a name of at most 15 bytes (BPF_OBJ_NAME_LEN less one) that is
// recognizable in bpftool's output: the target's last word and the index.
func programName(p *ProgramPlan, i int) string {
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
