package probe

import (
	"errors"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// Iter is a BPF iterator: when it is read, its program runs once for each object that
// the kernel holds. "iter:task", "iter:task_file", "iter:bpf_map".
type Iter struct {
	// Name is the kernel's name, without "bpf_iter_"; no wildcards, but List takes them.
	Name string
	// PID restricts the task iterators to one process; 0 is all.
	PID int
}

func (Iter) requires(q *requirer) { q.kernel(feature.Iter, "") }

func (t Iter) list(l *lister) error {
	return listNames[*btf.Struct](l, "", iterPrefix, t.Name, func(name string) Match {
		x := Match{Target: Iter{Name: name}}
		if l.o.Args {
			x.Fields, _ = l.r.iterFields(name)
		}
		return x
	})
}

func (Iter) word() string { return "iter" }

// String returns "iter:NAME", with " pid=N".
func (t Iter) String() string { return "iter:" + spelling.Quote(t.Name) + pid(t.PID) }

// resolve resolves an iterator by the struct that its programs are given.
func (t Iter) resolve(r *resolver) error {
	if err := r.env.Supports(feature.Iter); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if t.PID != 0 && !strings.HasPrefix(t.Name, "task") {
		return errors.New("only the task iterators take a pid")
	}
	fields, err := r.iterFields(t.Name)
	if err != nil {
		return err
	}
	r.add(ProgramPlan{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: t.Name,
		Context: ContextIter, Method: MethodIter, Fields: fields,
		Sites: []Site{{Target: t, PID: t.PID, CPU: -1}},
	})
	return nil
}

// iterPrefix precedes the iterator's name in the names of the iterators' contexts.
const iterPrefix = "bpf_iter__"

// iterFields returns the members of an iterator's context.
func (r *resolver) iterFields(name string) ([]Arg, error) {
	spec, err := r.env.BTF()
	if err != nil {
		return nil, err
	}
	var s *btf.Struct
	if err := spec.TypeByName(iterPrefix+name, &s); err != nil {
		names, _ := prototype.Names[*btf.Struct](r.env, "", iterPrefix)
		return nil, notexist.Errorf("no iterator %s%s", name, near.Hint(name, names))
	}
	var out []Arg
	for _, m := range s.Members {
		out = append(out, iterField(m))
	}
	return out, nil
}

// iterField returns a member of an iterator's context: pointers are in unions that keep
// them 8 bytes wide (__bpf_md_ptr).
func iterField(m btf.Member) Arg {
	a := Arg{
		Name: m.Name, Type: m.Type,
		Loc: Location{Kind: LocationContext, Offset: int64(m.Offset.Bytes()), Size: 8},
	}
	if u, ok := m.Type.(*btf.Union); ok && m.Name == "" && len(u.Members) > 0 {
		a.Name, a.Type = u.Members[0].Name, u.Members[0].Type
	}
	if size, err := btf.Sizeof(a.Type); err == nil {
		a.Loc.Size = size
	}
	return a
}

var iterSpelled = spelled{
	words: []string{"iter", "it"},
	parse: single("iter:NAME", func(name string) Target {
		return Iter{Name: name}
	}),
}

func (t Iter) withPID(pid int) Target {
	t.PID = pid
	return t
}
