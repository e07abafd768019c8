package system

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/probe/script/syntax"
)

// UserType returns a type of the program that a user probe is in, by its name in C, from the
// program's DWARF. It is nil if there is none, if Options.DWARF is not set, and for other probes. With
// it, it looks up all names of the script's user probes, to read the program once.
func (s *System) UserType(p *syntax.AttachPoint, name string) btf.Type {
	if !s.o.DWARF || !inUser(p) {
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

// collectTypes keeps the names of types in a script's user probes, as Type and UserType take them.
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
