package system

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/probe/script/syntax"
)

// TypeIn returns a type by its name in C. For user probes it is one of the program, from its DWARF, if
// Options.DWARF is set; for probes in kernel functions it is one of the function's module, which the
// kernel itself does not have. It is nil if there is none.
func (s *System) TypeIn(p *syntax.AttachPoint, name string) btf.Type {
	switch p.Provider {
	case "uprobe", "uretprobe", "usdt":
		return s.typeOfProgram(p, name)
	case "kprobe", "kretprobe", "fentry", "fexit":
		return s.typeOfModule(p, name)
	}
	return nil
}

// typeOfModule returns a type of the module that a kernel function is in.
func (s *System) typeOfModule(p *syntax.AttachPoint, name string) btf.Type {
	if s.Type(name) != nil {
		return nil
	}
	m := module(p.Target)
	if m == "" && p.Func != "" && !glob.IsPattern(p.Func) {
		m = prototype.ModuleOf(s.env, p.Func)
	}
	if m == "" || m == "bpf" || glob.IsPattern(m) {
		return nil
	}
	spec, err := prototype.Types(s.env, m)
	if err != nil {
		return nil
	}
	kind, bare := split(name)
	list, err := spec.AnyTypesByName(bare)
	if err != nil {
		return nil
	}
	return kind.first(list)
}

// typeOfProgram returns a type of the program that a user probe is in. With it, it looks up all names
// of the script's user probes, to read the program once.
func (s *System) typeOfProgram(p *syntax.AttachPoint, name string) btf.Type {
	if !s.o.DWARF {
		return nil
	}
	known := s.programs[p.Target]
	if t, asked := known[name]; asked {
		return t
	}
	if known == nil {
		known = map[string]btf.Type{}
		s.programs[p.Target] = known
	}
	names := []string{name}
	for n := range s.userNames {
		if _, asked := known[n]; !asked {
			names = append(names, n)
		}
	}
	found := s.readUserTypes(p.Target, names)
	for _, n := range names {
		known[n] = found[n]
	}
	return known[name]
}

// inUser reports whether a probe is in a user program.
func inUser(p *syntax.AttachPoint) bool {
	switch p.Provider {
	case "uprobe", "uretprobe", "usdt":
		return true
	}
	return false
}

// readUserTypes reads types of the first file that a target stands for.
func (s *System) readUserTypes(target string, names []string) map[string]btf.Type {
	paths, err := userfile.Paths(s.env, target, s.o.PID)
	if err != nil || len(paths) == 0 {
		return nil
	}
	var found map[string]btf.Type
	_ = usercode.WithDebug(s.env, paths[0], func(d *usercode.Debug) error {
		found, err = usercode.NewTypes(d).Named(names)
		return err
	})
	return found
}

// collectTypes keeps the names of types in a script's user probes, as Type takes them.
func (s *System) collectTypes(f *syntax.File) {
	s.userNames = map[string]bool{}
	for _, d := range f.Decls {
		p, ok := d.(*syntax.Probe)
		if !ok || !slices.ContainsFunc(p.Points, inUser) {
			continue
		}
		for n := range syntax.All(p) {
			t, ok := n.(*syntax.Type)
			if !ok || t.Name == "" || len(s.userNames) >= mostNames {
				continue
			}
			for _, keyword := range []string{"struct", "union", "enum"} {
				if t.Kind == "" || t.Kind == keyword {
					s.userNames[keyword+" "+t.Name] = true
				}
			}
			if t.Kind == "" {
				s.userNames[t.Name] = true
			}
		}
	}
}
