package system

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/script/internal/funcs"
	"github.com/borescope/borescope/probe/script/syntax"
)

// reach is what a script names of the kernel's types. Reading these, and what can be reached from
// them by the script's names of members, takes a third of the time of reading all types. A name
// that is not there has been looked for if it is one of these; all types are read for the first
// other one.
type reach struct {
	types, members, funcs, vars map[string]bool

	events []name    // tracepoints, whose formats name types, too
	spec   *btf.Spec // once read
}

// mostNames is the number of names of scripts that are kept, to be looked up together.
const mostNames = 10_000

// collect keeps the names in a script that may be enumerators.
func (s *System) collect(f *syntax.File) {
	for n := range syntax.All(f) {
		id, ok := n.(*syntax.Identifier)
		if ok && len(s.names) < mostNames {
			s.names[id.Name] = true
		}
	}
}

// reach keeps what the script names of the kernel's types, if these are not read yet and nothing
// else reads all of them, as resolving a function of the kernel does.
func (s *System) reach(f *syntax.File) {
	s.near = reach{}
	if s.read || len(s.o.Modules) > 0 || s.env.KnownBTF() != nil {
		return
	}
	r := reach{
		types: map[string]bool{}, members: map[string]bool{}, vars: map[string]bool{},
		funcs: map[string]bool{pathHelper: true}, events: slices.Clone(s.wanted),
	}
	for n := range syntax.All(f) {
		switch n := n.(type) {
		case *syntax.AttachPoint:
			switch n.Provider {
			case "fentry", "fexit", "iter", "rawtracepoint":
				return
			case "kprobe", "kretprobe", "uprobe", "uretprobe", "usdt":
				r.types["pt_regs"] = true
			case "profile", "interval", "software", "hardware", "watchpoint":
				r.types["bpf_perf_event_data"] = true
			}
		case *syntax.Builtin:
			r.builtin(n.Name)
		case *syntax.Identifier:
			r.builtin(n.Name) // or a type, after sizeof
			r.types[n.Name] = true
		case *syntax.Field:
			r.members[n.Name] = true
		case *syntax.Offsetof:
			for _, name := range n.Fields {
				r.members[name] = true
			}
		case *syntax.Type:
			r.types[n.Name] = true
		case *syntax.C:
			for _, w := range strings.FieldsFunc(n.Text, notInNames) {
				r.types[w], r.members[w] = true, true // a #define may name a member
			}
		case *syntax.Call:
			r.funcs[n.Name] = true
		case *syntax.String:
			r.funcs[n.Value], r.vars[n.Value] = true, true
		}
		if len(r.types)+len(r.funcs) > mostNames {
			return
		}
	}
	s.near = r
}

// builtin adds the type of a builtin.
func (r *reach) builtin(name string) {
	if funcs.Plain(name) == "curtask" {
		r.types["task_struct"] = true
	}
}

// named returns the kernel's types of a name, and those of modules, if known is what has been
// looked for together with it.
func (s *System) named(name string, known map[string]bool) []btf.Type {
	var specs []*btf.Spec
	s.addFormats()
	if known[name] && !s.read {
		specs = s.nearby()
	}
	if specs == nil {
		specs = s.types()
	}
	var all []btf.Type
	for _, spec := range specs {
		list, err := spec.AnyTypesByName(name)
		if err == nil {
			all = append(all, list...)
		}
	}
	return all
}

// nearby returns the types that the script can reach, nil if they cannot be read.
func (s *System) nearby() []*btf.Spec {
	if s.near.spec == nil {
		spec, err := s.env.MinimalBTF(&env.BTFNeeds{
			Types:   slices.Collect(maps.Keys(s.near.types)),
			Funcs:   slices.Collect(maps.Keys(s.near.funcs)),
			Vars:    slices.Collect(maps.Keys(s.near.vars)),
			Members: slices.Collect(maps.Keys(s.near.members)), Whole: true,
		})
		if err != nil {
			return nil
		}
		s.near.spec = spec
	}
	return []*btf.Spec{s.near.spec}
}

// addFormats adds the types that the formats of the script's tracepoints name.
func (s *System) addFormats() {
	if len(s.near.events) > 0 {
		s.readFormats()
	}
	for _, n := range s.near.events {
		s.formatTypes(n)
	}
	s.near.events = nil
}

// formatTypes adds the types that the fields of a tracepoint's record name.
func (s *System) formatTypes(n name) {
	f, err := s.env.Tracepoint(n.group, n.name)
	if err != nil {
		return
	}
	for i := range f.Fields {
		for t := f.Fields[i].BTFType(); t != nil; {
			switch u := t.(type) {
			case *btf.Pointer:
				t = u.Target
			case *btf.Const:
				t = u.Type
			case *btf.Array:
				t = u.Type
			default:
				s.near.types[t.TypeName()] = true
				t = nil
			}
		}
	}
}

// notInNames reports whether a character ends a name in C.
func notInNames(r rune) bool {
	return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}
