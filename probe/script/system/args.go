package system

import (
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
	key := p.Provider + ":" + p.Target + ":" + p.Namespace + ":" + p.Lang + ":" + p.Func
	t, ok := s.args[key]
	if !ok {
		t = s.resolve(p)
		s.args[key] = t
	}
	return t
}

func (s *System) resolve(p *syntax.AttachPoint) *btf.Struct {
	switch p.Provider {
	case "fentry", "fexit":
		return s.function(p)
	case "tracepoint":
		return s.planned(p, probe.Tracepoint{Group: p.Target, Name: p.Func})
	case "rawtracepoint":
		return s.planned(p, probe.RawTracepoint{Module: module(p.Target), Name: p.Func})
	case "uprobe":
		if s.o.DWARF {
			return s.planned(p, probe.Uprobe{
				Path: p.Target, Symbol: p.Func, Lang: p.Lang, PID: s.o.PID,
			})
		}
	}
	return nil
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
	if m := module(p.Target); m != "" {
		if spec, err := prototype.Types(s.env, m); err == nil {
			specs = []*btf.Spec{spec}
		}
	}
	for _, spec := range specs {
		if protos, err := prototype.In(spec, p.Func); err == nil {
			return parameters(p.Provider, protos[0])
		}
	}
	return nil
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
	first := &plan.Programs[0]
	all := &btf.Struct{Name: p.Provider + "_args"}
	for _, a := range first.Args {
		add(all, a.Name, s.field(a), all.Size)
	}
	for _, a := range first.Fields {
		add(all, a.Name, s.field(a), uint32(a.Loc.Offset))
	}
	return all
}

// field returns the type that bpftrace gives an argument. For a string or array with its
// place in the record it is a number, the address. A register is a number, too.
func (s *System) field(a probe.Arg) btf.Type {
	if a.Type == nil {
		return &btf.Int{Name: "unsigned long", Size: 8}
	}
	switch a.Loc.Kind {
	case probe.LocationDataLoc, probe.LocationRelLoc:
		return &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	}
	return s.whole(a.Type, 0)
}

// whole replaces types that a format file only names by the kernel's types.
func (s *System) whole(t btf.Type, depth int) btf.Type {
	if depth > deepest {
		return t
	}
	named := func(name string) btf.Type {
		if full := s.Type(name); full != nil {
			return full
		}
		return t
	}
	switch t := t.(type) {
	case *btf.Pointer:
		return &btf.Pointer{Target: s.whole(t.Target, depth+1)}
	case *btf.Const:
		return &btf.Const{Type: s.whole(t.Type, depth+1)}
	case *btf.Array:
		return &btf.Array{Index: t.Index, Type: s.whole(t.Type, depth+1), Nelems: t.Nelems}
	case *btf.Fwd:
		return named(t.Kind.String() + " " + t.Name)
	case *btf.Struct:
		if len(t.Members) == 0 {
			return named("struct " + t.Name)
		}
	case *btf.Enum:
		if len(t.Values) == 0 {
			return named("enum " + t.Name)
		}
	}
	return t
}
