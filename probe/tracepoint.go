package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// Tracepoint fires at a static kernel tracepoint. "tracepoint:sched:sched_switch". If the
// program returns 0, no perf event counts the hit, including those of other tools (perf
// stat).
type Tracepoint struct {
	Group string // a directory of tracefs' events; may hold wildcards
	Name  string // a tracepoint in it; may hold wildcards
	// Sleepable asks for a program that may sleep, and so may read user memory that is not
	// resident. Only the tracepoints of system calls allow such programs (7.2).
	Sleepable bool
}

func (Tracepoint) requires(q *requirer) {
	q.perf()
	q.mount()
}

func (t Tracepoint) list(l *lister) error {
	list, err := matchTracepoints(l.env, t.Group, t.Name)
	if err != nil {
		return err
	}
	if l.o.Args {
		readFormats(l.env, list)
	}
	for _, m := range list {
		x := Match{Target: m}
		if l.o.Args {
			f, err := l.env.Tracepoint(m.Group, m.Name)
			if err != nil {
				return err
			}
			for i := range f.Fields {
				if !f.Fields[i].Common {
					x.Fields = append(x.Fields, fieldArg(&f.Fields[i], m.Group))
				}
			}
		}
		if err := l.put(x); err != nil {
			return err
		}
	}
	return nil
}

func (t Tracepoint) word() string { return t.Name }

// String returns "tracepoint:GROUP:NAME[ sleepable]".
func (t Tracepoint) String() string {
	return "tracepoint:" + spelling.Quote(t.Group) + ":" + spelling.Quote(t.Name) +
		sleepable(t.Sleepable)
}

// flagSleepable is BPF_F_SLEEPABLE.
const flagSleepable = 1 << 4

// resolve resolves a tracepoint by its format file or, without tracefs, by the BTF of
// its record.
func (t Tracepoint) resolve(r *resolver) error {
	if glob.IsPattern(t.Group) || glob.IsPattern(t.Name) {
		return t.matches(r)
	}
	p := ProgramPlan{Type: ebpf.TracePoint, Context: ContextRecord, Method: MethodPerfLink}
	if t.Sleepable {
		if err := r.sleepable(&p); err != nil {
			return err
		}
	}
	f, err := r.env.Tracepoint(t.Group, t.Name)
	if err != nil {
		// A plan for another machine can be made without tracefs; attaching needs it.
		if r.env.Live() || !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if p.Fields, err = t.recordFields(r, err); err != nil {
			return err
		}
		p.FallbackReason = "no tracefs: fields from BTF"
	} else {
		for i := range f.Fields {
			p.Fields = append(p.Fields, fieldArg(&f.Fields[i], t.Group))
		}
	}
	p.Sites = []Site{{Target: t, CPU: -1}}
	r.add(p)
	return nil
}

// sleepable makes a tracepoint's program sleepable, if the kernel allows it.
func (r *resolver) sleepable(p *ProgramPlan) error {
	if err := r.env.Supports(feature.SleepableTracepoint); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	p.Flags = flagSleepable
	return nil
}

// recordFields returns the members of struct trace_event_raw_NAME, as BTF has it. For
// events that share a class BTF has only the class's.
func (t Tracepoint) recordFields(r *resolver, cause error) ([]Arg, error) {
	spec, err := r.env.BTF()
	if err != nil {
		return nil, cause
	}
	var s *btf.Struct
	if err := spec.TypeByName("trace_event_raw_"+t.Name, &s); err != nil {
		return nil, cause
	}
	var out []Arg
	for _, m := range s.Members {
		size, err := btf.Sizeof(m.Type)
		if err != nil || m.Name == "ent" || size == 0 {
			continue
		}
		a := Arg{
			Name: m.Name, Type: m.Type,
			Loc: Location{Kind: LocationContext, Offset: int64(m.Offset.Bytes()), Size: size},
		}
		if name, ok := strings.CutPrefix(m.Name, "__data_loc_"); ok {
			a.Name, a.Loc.Kind = name, LocationDataLoc
			a.Type = &btf.Array{
				Index: &btf.Int{Name: "unsigned int", Size: 4},
				Type:  &btf.Int{Name: "char", Size: 1, Encoding: btf.Char},
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func (t Tracepoint) matches(r *resolver) error {
	matches, err := matchTracepoints(r.env, t.Group, t.Name)
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		return notexist.Errorf("no tracepoint matches")
	}
	readFormats(r.env, matches)
	for _, m := range matches {
		m.Sleepable = t.Sleepable
		if err := m.resolve(r); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}

// readFormats reads the formats of tracepoints that are used one by one next.
func readFormats(e *Env, list []Tracepoint) {
	e.ReadTracepoints(func(yield func(group, name string) bool) {
		for _, t := range list {
			if !yield(t.Group, t.Name) {
				return
			}
		}
	})
}

// matchTracepoints lists the tracepoints that two patterns match, sorted.
func matchTracepoints(e *Env, group, name string) ([]Tracepoint, error) {
	mount, err := tracefs.Need(e.Root(), e.Live())
	if err != nil {
		return nil, err
	}
	defer mount.Close()
	dir := mount.Path
	g, n := glob.Compile(group), glob.Compile(name)
	var out []Tracepoint
	for _, d := range tracefs.Names(e.Root(), path.Join(dir, "events")) {
		if !g.Match(d) || d == "ftrace" {
			continue // ftrace's own events take no programs
		}
		for _, ev := range tracefs.Names(e.Root(), path.Join(dir, "events", d)) {
			if n.Match(ev) {
				out = append(out, Tracepoint{Group: d, Name: ev})
			}
		}
	}
	return out, nil
}

// fieldArg returns a record's field as a plan's argument. Pointers in the records of
// system calls point to user memory.
func fieldArg(f *env.Field, group string) Arg {
	a := Arg{
		Name: f.Name,
		Type: f.BTFType(),
		Loc:  Location{Kind: LocationContext, Offset: int64(f.Offset), Size: f.Size},
	}
	switch {
	case f.DataLoc:
		a.Loc.Kind = LocationDataLoc
	case f.RelLoc:
		a.Loc.Kind = LocationRelLoc
	}
	if f.Common {
		// tp_prog_is_valid_access, kernel/trace/bpf_trace.c.
		a.Loc.Reason = "the kernel hides the common fields from programs"
	}
	if group == "syscalls" {
		syscallArg(f, &a)
	}
	return a
}

// syscallArg corrects an argument of a system call; pointers are to user memory.
func syscallArg(f *env.Field, a *Arg) {
	if _, ok := a.Type.(*btf.Pointer); ok {
		a.Loc.User = true
		return
	}
	if t, size, ok := f.SyscallType(); ok {
		a.Type, a.Loc.Size = t, size
	}
}

func (t Tracepoint) event(a *attacher, _ *ProgramPlan, _ *Site) (*perfevent.Event, error) {
	id, err := t.id(a.env)
	if err != nil {
		return nil, err
	}
	return a.anyCPU(&perfevent.Event{
		Attr:    perfring.Attr{Type: perfring.EventTracepoint, Config: uint64(id), Sample: 1},
		Explain: noTracepoint,
	})
}

func noTracepoint(err error) error { return feature.Explain(feature.Tracepoint, err) }

// id returns the number that the kernel gives the event.
func (t Tracepoint) id(e *Env) (int, error) {
	dir, err := tracefs.Need(e.Root(), e.Live())
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	b, err := fs.ReadFile(e.Root(), path.Join(dir.Path, "events", t.Group, t.Name, "id"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, tracefs.Missing(e.Root(), dir.Path, t.Group, t.Name)
		}
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

var tracepointSpelled = spelled{
	words: []string{"tracepoint", "t"},
	parse: func(s *spelling.Scanned) (Target, error) {
		p, err := s.Exactly(2, "tracepoint:GROUP:NAME", "")
		if err != nil {
			return nil, err
		}
		return Tracepoint{Group: p[0].Text, Name: p[1].Text}, nil
	},
}

func (t Tracepoint) withSleepable() Target {
	t.Sleepable = true
	return t
}
