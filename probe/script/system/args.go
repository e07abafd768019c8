package system

import (
	"errors"
	"io/fs"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/script/syntax"
)

// deepest is the maximal number of pointers, qualifiers and dimensions of a field's type.
const deepest = 16

// retval is the name of the returned value in a Struct of arguments.
const retval = "$retval"

// Args returns the arguments at an attach point, nil if they are not known. They are not
// known for a point with wildcards, which Expand replaces by its matches.
func (s *System) Args(p *syntax.AttachPoint) *btf.Struct {
	if wild(p) {
		return nil
	}
	t, ok := s.args[key(p)]
	if !ok {
		t = s.resolve(p)
		s.args[key(p)] = t
	}
	return t
}

// key returns what the arguments at an attach point depend on.
func key(p *syntax.AttachPoint) string {
	return p.Provider + ":" + p.Target + ":" + p.Namespace + ":" + p.Lang + ":" + p.Func
}

func (s *System) resolve(p *syntax.AttachPoint) *btf.Struct {
	switch p.Provider {
	case "fentry", "fexit":
		return s.function(p)
	case "tracepoint":
		s.readFormats()
		return s.event(p, probe.Tracepoint{Group: p.Target, Name: p.Func}, name{group: p.Target, name: p.Func})
	case "rawtracepoint":
		m := module(p.Target)
		return s.event(p, probe.RawTracepoint{Module: m, Name: p.Func}, name{group: m, name: p.Func})
	case "uprobe":
		if s.o.DWARF {
			return s.user(p)
		}
	}
	return nil
}

// mostAbsent is the number of user files without the functions of a script from which on no
// further files are opened for it: it has as many errors, and finding near names for each
// takes milliseconds.
const mostAbsent = 16

// user returns the arguments of a user function. With it, it looks up those of the script's
// other functions in the same file, to read the file once.
func (s *System) user(p *syntax.AttachPoint) *btf.Struct {
	var points []*syntax.AttachPoint
	var targets []probe.Target
	for _, a := range append(s.files[p.Target], p) {
		if _, known := s.args[key(a)]; known {
			continue
		}
		s.args[key(a)] = nil
		points = append(points, a)
		targets = append(targets, probe.Uprobe{
			Path: a.Target, Symbol: a.Func, Lang: a.Lang, PID: s.o.PID,
		})
	}
	delete(s.files, p.Target)
	if s.absent >= mostAbsent {
		return nil
	}
	plan, err := probe.Resolve(s.env, targets, &probe.Options{
		DWARF: true, Missing: probe.MissingIgnore,
	})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			s.absent++
		}
		return nil
	}
	for i := range plan.Programs {
		a := points[plan.Programs[i].Group]
		if s.args[key(a)] == nil { // the first program of the function
			s.args[key(a)] = s.arguments(a, &plan.Programs[i])
		}
	}
	return s.args[key(p)]
}

// event returns the arguments of a tracepoint. Once one was missing, others are looked up in the
// list of all first: the error for a missing one, with near names, takes a thousand times as
// long.
func (s *System) event(p *syntax.AttachPoint, t probe.Target, n name) *btf.Struct {
	if s.missing && !s.listed(p.Provider, n) {
		return nil
	}
	found := s.planned(p, t)
	s.missing = s.missing || found == nil
	return found
}

// readFormats reads the formats of all tracepoints of the script whose actions use args.
func (s *System) readFormats() {
	if len(s.wanted) > 0 {
		s.env.ReadTracepoints(func(yield func(group, name string) bool) {
			for _, n := range s.wanted {
				if !yield(n.group, n.name) {
					return
				}
			}
		})
	}
	s.wanted = nil
}

// wild reports whether an attach point can match several events or functions. A point in any
// module is not considered wild: a kernel has few functions or tracepoints of one name.
func wild(p *syntax.AttachPoint) bool {
	any := p.Provider != "tracepoint" && module(p.Target) == ""
	return glob.IsPattern(p.Func) || glob.IsPattern(p.Target) && !any
}

// module returns package probe's name for a module, which is "" for vmlinux and for any
// module.
func module(name string) string {
	if name == "vmlinux" || name == "*" {
		return ""
	}
	return name
}

// function returns the parameters of a kernel function and, for fexit, its result. The
// kernel's types are sufficient: the function may be on a kernel without trampolines.
func (s *System) function(p *syntax.AttachPoint) *btf.Struct {
	if p.Target == "bpf" {
		return nil
	}
	specs := s.types()
	m := module(p.Target)
	if m != "" {
		if spec, err := prototype.Types(s.env, m); err == nil {
			specs = []*btf.Spec{spec}
		}
	}
	for _, spec := range specs {
		if protos, err := prototype.In(spec, p.Func); err == nil {
			return parameters(p.Provider, protos[0])
		}
	}
	if m == "" { // which reads all names of the kernel's functions
		m = prototype.ModuleOf(s.env, p.Func)
	}
	if m == "" {
		return nil
	}
	proto, err := prototype.Of(s.env, m, p.Func)
	if err != nil {
		return nil
	}
	return parameters(p.Provider, proto)
}

// parameters returns a function's parameters, as a struct of slots of 8 bytes.
func parameters(provider string, f *btf.FuncProto) *btf.Struct {
	t := &btf.Struct{Name: provider + "_args"}
	for _, p := range f.Params {
		add(t, p.Name, p.Type, t.Size)
	}
	if _, void := btf.UnderlyingType(f.Return).(*btf.Void); provider == "fexit" && !void {
		add(t, retval, f.Return, t.Size)
	}
	return t
}

// add adds a member, and extends the struct to the member's end, rounded up to 8 bytes.
func add(t *btf.Struct, name string, typ btf.Type, at uint32) {
	t.Members = append(t.Members, btf.Member{Name: name, Type: typ, Offset: btf.Bits(at * 8)})
	size, err := btf.Sizeof(typ)
	if err != nil || size < 0 {
		size = 8
	}
	t.Size = max(t.Size, at+(uint32(size)+7)&^7)
}

// planned returns the arguments in package probe's plan for a target.
func (s *System) planned(p *syntax.AttachPoint, t probe.Target) *btf.Struct {
	plan, err := probe.Resolve(s.env, []probe.Target{t}, &probe.Options{DWARF: s.o.DWARF})
	if err != nil || len(plan.Programs) == 0 {
		return nil
	}
	return s.arguments(p, &plan.Programs[0])
}

// arguments returns the arguments and fields of a program in package probe's plan.
func (s *System) arguments(p *syntax.AttachPoint, program *probe.ProgramPlan) *btf.Struct {
	all := &btf.Struct{Name: p.Provider + "_args"}
	named := s.Type
	if inUser(p) {
		named = func(name string) btf.Type { return s.TypeIn(p, name) }
	}
	for _, a := range program.Args {
		add(all, a.Name, field(a, named), all.Size)
	}
	for _, a := range program.Fields {
		add(all, a.Name, field(a, named), uint32(a.Loc.Offset))
	}
	return all
}

// field returns the type that bpftrace gives an argument, whose types named returns by their names. For a string or array with its
// place in the record it is a number, the address. A register is a number, too.
func field(a probe.Arg, named func(string) btf.Type) btf.Type {
	if a.Type == nil {
		return &btf.Int{Name: "unsigned long", Size: 8}
	}
	switch a.Loc.Kind {
	case probe.LocationDataLoc, probe.LocationRelLoc:
		return &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	}
	return whole(a.Type, named, 0)
}

// whole replaces types that a format file, or a declaration in a program, only names by those that
// named returns.
func whole(t btf.Type, named func(string) btf.Type, depth int) btf.Type {
	if depth > deepest {
		return t
	}
	full := func(name string) btf.Type {
		if full := named(name); full != nil {
			return full
		}
		return t
	}
	switch t := t.(type) {
	case *btf.Pointer:
		return &btf.Pointer{Target: whole(t.Target, named, depth+1)}
	case *btf.Const:
		return &btf.Const{Type: whole(t.Type, named, depth+1)}
	case *btf.Array:
		return &btf.Array{Index: t.Index, Type: whole(t.Type, named, depth+1), Nelems: t.Nelems}
	case *btf.Fwd:
		return full(t.Kind.String() + " " + t.Name)
	case *btf.Struct:
		if len(t.Members) == 0 {
			return full("struct " + t.Name)
		}
	case *btf.Enum:
		if len(t.Values) == 0 {
			return full("enum " + t.Name)
		}
	}
	return t
}
