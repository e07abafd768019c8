package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/internal/userfile"
)

func attachPlan(p *Plan, progs map[string]*ebpf.Program, env *Env, o *AttachOptions) (*Link,
	error,
) {
	a := &attacher{env: env, o: o, link: &Link{}, ctx: o.Context, ids: p.Files}
	if a.ctx == nil {
		a.ctx = context.Background()
	}
	defer a.closeFile()
	if err := a.attachAll(p, progs); err != nil {
		a.closeDropped()
		return nil, errors.Join(err, a.link.Close())
	}
	a.closeDropped()
	runtime.SetFinalizer(a.link, (*Link).Close)
	return a.link, nil
}

func (a *attacher) attachAll(p *Plan, progs map[string]*ebpf.Program) error {
	for i := range p.Programs {
		g := &p.Programs[i]
		prog, err := progs[g.Name].Clone()
		if err != nil {
			return fmt.Errorf("attach %s: %w", g.Place(), err)
		}
		a.link.progs, a.link.names = append(a.link.progs, prog), append(a.link.names, g.Name)
	}
	var begins []*ebpf.Program
	ends := make([]int, len(p.Programs)) // of the programs' sites
	order := attachOrder(p)
	for _, i := range order {
		g, prog := &p.Programs[i], a.link.progs[i]
		if err := a.ended(g.Sites); err != nil {
			return err
		}
		a.name = g.Name
		if g.Method == MethodRun {
			begins = append(begins, a.runner(g, prog)...)
			ends[i] = len(a.link.sites)
			continue
		}
		if err := a.program(g, prog); err != nil {
			return err
		}
		ends[i] = len(a.link.sites)
	}
	a.link.sortSites(order, ends)
	if len(a.link.sites) == 0 && a.left != nil {
		return a.left
	}
	if len(p.Programs) > 0 { // the last look, before anything fires
		if err := a.ended(p.Programs[0].Sites); err != nil {
			return err
		}
	}
	for _, fd := range a.start {
		if err := kernel.EnablePerf(fd); err != nil {
			return fmt.Errorf("attach: start perf event: %w", err)
		}
	}
	for _, prog := range begins {
		if _, err := kernel.TestRun(prog.FD(), nil); err != nil {
			return fmt.Errorf("attach begin: %w", err)
		}
	}
	return nil
}

// attachOrder returns the order in which the plan's programs are attached, so that those at one
// place run in the plan's order: what was attached last at a function runs first, in every kernel
// so far (add_new_kprobe in kernel/kprobes.c, consumer_add in kernel/events/uprobes.c,
// add_ftrace_ops in kernel/trace/ftrace.c, __bpf_trampoline_link_prog in kernel/bpf/trampoline.c).
// Of kretprobes the first does: their entries run in that order, and their returns are a stack.
func attachOrder(p *Plan) []int {
	order := make([]int, len(p.Programs))
	var late []int
	for i := range p.Programs {
		order[i] = i
		if p.Programs[i].lastFirst() {
			late = append(late, i)
		}
	}
	for i, at := range late {
		order[at] = late[len(late)-1-i]
	}
	return order
}

// sortSites puts the sites of programs that were attached in another order into the plan's. ends are
// the ends of the programs' sites.
func (l *Link) sortSites(order, ends []int) {
	if slices.IsSorted(order) {
		return
	}
	begins, begin := make([]int, len(ends)), 0
	for _, i := range order {
		begins[i], begin = begin, ends[i]
	}
	sorted := make([]Site, 0, len(l.sites))
	moved := make(map[string]int, len(ends)) // how far those of a program are moved
	for i, name := range l.names {
		moved[name] = len(sorted) - begins[i]
		sorted = append(sorted, l.sites[begins[i]:ends[i]]...)
	}
	l.sites = sorted
	for i := range l.held {
		h := &l.held[i]
		h.first, h.last = h.first+moved[h.prog], h.last+moved[h.prog]
	}
}

// lastFirst reports whether, of several such programs at a place, that runs first which was attached
// last.
func (p *ProgramPlan) lastFirst() bool {
	if len(p.Sites) == 0 {
		return false
	}
	switch p.Sites[0].Target.(type) {
	case Kretprobe:
		// until 6.14, when fprobe no longer used rethook (kernel/trace/fprobe.c)
		return p.Method == MethodKprobeMulti && feature.KernelAtLeast("6.14")
	case Kprobe, Uprobe, Uretprobe, USDT, Fentry, Fexit:
		return true
	}
	return false
}

// runner records the sites of a begin or end program, and returns it if it is to run now.
func (a *attacher) runner(g *ProgramPlan, prog *ebpf.Program) []*ebpf.Program {
	a.link.sites = append(a.link.sites, g.Sites...)
	if _, ok := g.Sites[0].Target.(Begin); ok {
		return []*ebpf.Program{prog}
	}
	a.link.ends = append(a.link.ends, prog)
	return nil
}

// closeDropped closes the perf descriptors that links have taken over.
func (a *attacher) closeDropped() {
	for _, fd := range a.drop {
		kernel.Close(fd)
	}
	a.drop = nil
}

// file returns a path by which the kernel finds the file that the plan was made
// from: the path of an open descriptor, whose file was compared with the plan's. It is
// valid until the next call; an attached probe keeps the file.
func (a *attacher) file(path string) (string, error) {
	if a.open == nil || a.open.Name() != path {
		_, read := a.ids[path] // where it is, Resolve has looked, and Options.Unsafe allowed it
		f, err := procfs.OpenPath(path, read)
		if errors.Is(err, fs.ErrNotExist) {
			return "", notexist.Errorf("no file %s", path)
		}
		if err != nil {
			return "", err
		}
		if !read {
			err = userfile.NotServed(path, f)
		} else if err = a.ids.Check(path, f); err != nil {
			err = fmt.Errorf("%s was replaced or changed after the plan was made: %w", path, err)
		}
		if err != nil {
			f.Close()
			return "", err
		}
		a.closeFile()
		a.open = f
	}
	return fmt.Sprintf("/proc/self/fd/%d", a.open.Fd()), nil
}

func (a *attacher) closeFile() {
	if a.open != nil {
		a.open.Close()
	}
}

// program attaches one program at its sites.
func (a *attacher) program(g *ProgramPlan, prog *ebpf.Program) error {
	switch g.Method {
	case MethodKprobeMulti:
		return a.kprobeMulti(g, prog, g.Sites)
	case MethodUprobeMulti:
		return a.uprobeMulti(g, prog)
	case MethodTracingMulti:
		return a.tracingMulti(g, prog, g.Sites)
	case MethodPerfLink, MethodPerfIoctl, MethodRawTracepoint, MethodTracing, MethodIter, MethodSocket,
		MethodTracefs:
	default:
		return fmt.Errorf("attach %s: the plan has no method", g.Place())
	}
	for i := range g.Sites {
		s := &g.Sites[i]
		if err := a.ended(g.Sites[i : i+1]); err != nil {
			return err
		}
		err := a.site(g, prog, s)
		if err == nil {
			continue
		}
		if g.Type == ebpf.PerfEvent && a.isOffline(s) {
			continue // a CPU that went away since the plan was made
		}
		if err := a.missing(s, &TargetError{"attach", s.Target, err}); err != nil {
			return err
		}
	}
	return nil
}

// isOffline reports whether s samples a CPU that is offline now.
func (a *attacher) isOffline(s *Site) bool {
	if s.CPU < 0 {
		return false
	}
	list, err := a.env.OnlineCPUs()
	return err == nil && !slices.Contains(list, s.CPU)
}

func (a *attacher) missing(s *Site, err error) error {
	a.left = err
	switch a.o.Missing {
	case MissingError:
		return err
	case MissingWarn:
		a.link.missing = append(a.link.missing, Missing{s.Target, err})
	}
	return nil
}

// site attaches a program at one place.
func (a *attacher) site(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	switch g.Method {
	case MethodRawTracepoint:
		return a.rawTracepoint(g, prog, s)
	case MethodTracing:
		return a.tracing(g, prog, s)
	case MethodIter:
		return a.iter(prog, s)
	case MethodSocket:
		return a.socket(prog, s)
	case MethodTracefs:
		return a.tracefs(g, prog, s)
	}
	k, ok := s.Target.(eventKind)
	if !ok {
		return fmt.Errorf("no perf event for %s", s.Target)
	}
	ev, err := k.event(a, g, s)
	if err != nil {
		return err
	}
	if g.Type == ebpf.PerfEvent {
		return a.sampling(g, prog, s, ev)
	}
	return a.perfEvent(g, prog, s, ev)
}

// keep records the object that serves the given sites.
func (a *attacher) keep(h held, sites ...Site) {
	h.first = len(a.link.sites)
	a.link.sites = append(a.link.sites, sites...)
	h.last = len(a.link.sites)
	h.prog = a.name
	a.link.held = append(a.link.held, h)
}
