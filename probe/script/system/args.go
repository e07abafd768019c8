package system

import (
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/script/syntax"
)

// deepest is how many pointers, qualifiers and dimensions a field's type may have.
const deepest = 16

// retval is what a Struct of arguments names the value that is returned.
const retval = "$retval"

// Args returns the arguments at an attach point, nil if nothing is known of them, as of one
// with wildcards: Expand puts its matches there.
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

// wild reports whether an attach point stands for several. Any module does not: a kernel has
// few functions or tracepoints of one name.
func wild(p *syntax.AttachPoint) bool {
	any := p.Provider != "tracepoint" && module(p.Target) == ""
	return glob.IsPattern(p.Func) || glob.IsPattern(p.Target) && !any
}

// module is how probe names a module: vmlinux, and any, are "".
func module(name string) string {
	if name == "vmlinux" || name == "*" {
		return ""
	}
	return name
}

// function is what a kernel function takes and returns. Its types are enough to know: a
// kernel without trampolines has them too.
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

// parameters are a function's, as a struct of slots of 8 bytes.
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

// add adds a member, and lets the struct grow up to its end.
func add(t *btf.Struct, name string, typ btf.Type, at uint32) {
	t.Members = append(t.Members, btf.Member{Name: name, Type: typ, Offset: btf.Bits(at * 8)})
	size, err := btf.Sizeof(typ)
	if err != nil || size < 0 {
		size = 8
	}
	t.Size = max(t.Size, at+(uint32(size)+7)&^7)
}

// planned are the arguments of a plan for a target, which probe makes.
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

// field is the type that bpftrace gives an argument: a string or array whose place is in the
// record is its address, a number; a register is one too.
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

// whole puts the kernel's types where a format file only names them.
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
