package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"syscall"

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
		if a.isOffline(s) {
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
	if _, ok := s.Target.(Perf); !ok || s.CPU < 0 {
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
	if g.Type == ebpf.PerfEvent {
		return a.sampling(g, prog, s)
	}
	ev, err := a.siteEvent(g, s)
	if err != nil {
		return err
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

func (a *attacher) rawTracepoint(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	cookie := uint64(s.Cookie)
	if cookie != 0 && !has(a.env, feature.RawTracepointCookie) {
		cookie = 0
	}
	fd, err := kernel.RawTracepoint(prog.FD(), s.Symbol, cookie)
	if err != nil {
		return a.explainRaw(g, s, err)
	}
	a.keep(held{fd: fd, link: true, method: MethodRawTracepoint}, *s)
	return nil
}

func (a *attacher) explainRaw(g *ProgramPlan, s *Site, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return noRaw(a.env, s.Module, s.Symbol)
	case errors.Is(err, syscall.EINVAL) && g.Sleepable():
		return fmt.Errorf("%s: %w", onlySyscalls, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the program reads more arguments than the tracepoint has: %w", err)
	}
	return feature.Explain(feature.RawTracepoint, err)
}

func (a *attacher) tracing(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	cookie := uint64(s.Cookie)
	fd, err := kernel.Tracing(prog.FD(), uint32(g.AttachType), cookie)
	if err != nil && cookie != 0 {
		// Before 5.19 trampolines take no cookie (commit 2fcc82411e74).
		fd, err = kernel.Tracing(prog.FD(), uint32(g.AttachType), 0)
	}
	if err != nil {
		return a.explainTracing(g, err)
	}
	a.keep(held{fd: fd, link: true, method: MethodTracing}, *s)
	return nil
}

func (a *attacher) explainTracing(g *ProgramPlan, err error) error {
	f := feature.Fentry
	switch g.AttachType {
	case ebpf.AttachTraceFExit, ebpf.AttachModifyReturn:
		f = feature.Fexit
	case AttachFsession:
		f = feature.Fsession
	case ebpf.AttachTraceRawTp:
		f = feature.TPBTF
	case ebpf.AttachLSMMac:
		f = feature.LSM
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		// Commit f3a95075549e, "bpf: Allow trampoline re-attach".
		return &feature.UnsupportedError{
			Feature: "attaching a tracing program again", Since: "5.13", Err: err,
			Hint: "Linux " + a.env.Release() + " allows it once: load the program anew",
		}
	case errors.Is(err, syscall.EBUSY):
		// bpf_trampoline_link_prog, kernel/bpf/trampoline.c, and ftrace_direct.
		return fmt.Errorf("the program is on this function already, where the kernel takes each once (load it a second time); "+
			"or an extension or another user has replaced the function's entry, or it is not patchable (notrace): %w", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("the kernel allows at most 38 programs per function: %w", err)
	}
	return feature.Explain(f, err)
}

func (a *attacher) iter(prog *ebpf.Program, s *Site) error {
	var task *kernel.IterTask
	if s.PID != 0 {
		// The kernel looks only when the iterator is read, and then finds nothing.
		if errors.Is(syscall.Kill(s.PID, 0), syscall.ESRCH) {
			return notexist.Errorf("no process %d", s.PID)
		}
		task = &kernel.IterTask{PID: uint32(s.PID)}
	}
	fd, err := kernel.Iter(prog.FD(), task)
	if err != nil {
		if task != nil && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.E2BIG)) {
			return &feature.UnsupportedError{
				Feature: "iterator with a pid", Since: "6.1", Err: err,
				Hint: "Linux " + a.env.Release() +
					" iterates over all tasks only: compare the pid in the program",
			}
		}
		return feature.Explain(feature.Iter, err)
	}
	a.keep(held{fd: fd, link: true, method: MethodIter}, *s)
	return nil
}

// kprobeMulti attaches at many kernel functions with one link. If the kernel refuses
// them together, and the caller goes on without missing sites, it tries halves until
// the sites at fault are found.
func (a *attacher) kprobeMulti(g *ProgramPlan, prog *ebpf.Program, sites []Site) error {
	sites = uniqueAddresses(sites)
	if err := a.ended(sites); err != nil {
		return err
	}
	addrs := make([]uint64, len(sites))
	cookies := make([]uint64, len(sites))
	for i := range sites {
		addrs[i], cookies[i] = sites[i].Address, uint64(sites[i].Cookie)
	}
	var flags uint32
	if g.Returns && g.AttachType != ebpf.AttachTraceKprobeSession {
		flags = kernel.MultiReturn
	}
	fd, err := kernel.KprobeMulti(prog.FD(), uint32(g.AttachType), addrs, cookies, flags)
	if err == nil {
		a.keep(held{fd: fd, link: true, method: MethodKprobeMulti}, sites...)
		return nil
	}
	if len(sites) > 1 && a.o.Missing != MissingError && !errors.Is(err, syscall.EPERM) {
		h := len(sites) / 2
		if err := a.kprobeMulti(g, prog, sites[:h]); err != nil {
			return err
		}
		return a.kprobeMulti(g, prog, sites[h:])
	}
	return a.missing(&sites[0], fmt.Errorf("attach %s: %w", placeOf(sites), a.explainMulti(g, err)))
}

func (a *attacher) explainMulti(g *ProgramPlan, err error) error {
	f := feature.KprobeMulti
	if g.AttachType == ebpf.AttachTraceKprobeSession {
		f = feature.KprobeSession
	}
	if why := feature.Explain(f, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the program was not loaded with attach type %s, or a function is not traceable: %w", g.AttachType, err)
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("a function is not traceable: %w", err)
	}
	return err
}

// uniqueAddresses drops sites whose address occurred before: kprobe.multi refuses
// duplicates.
func uniqueAddresses(sites []Site) []Site {
	seen := make(map[uint64]bool, len(sites))
	out := make([]Site, 0, len(sites))
	for _, s := range sites {
		if !seen[s.Address] {
			seen[s.Address] = true
			out = append(out, s)
		}
	}
	return out
}

// uprobeMulti attaches at the sites of each file and process with one link.
func (a *attacher) uprobeMulti(g *ProgramPlan, prog *ebpf.Program) error {
	type key struct {
		path string
		pid  int
		refs bool
	}
	groups := map[key][]Site{}
	var order []key
	for _, s := range g.Sites {
		k := key{s.Path, s.PID, s.RefCtrOffset != 0}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], s)
	}
	for _, k := range order {
		if err := a.uprobeFile(g, prog, groups[k]); err != nil {
			return err
		}
	}
	return nil
}

func (a *attacher) uprobeFile(g *ProgramPlan, prog *ebpf.Program, sites []Site) error {
	offsets := make([]uint64, len(sites))
	cookies := make([]uint64, len(sites))
	var refs []uint64
	for i := range sites {
		offsets[i], cookies[i] = sites[i].Offset, uint64(sites[i].Cookie)
		if sites[i].RefCtrOffset != 0 {
			refs = append(refs, sites[i].RefCtrOffset)
		}
	}
	var flags uint32
	if g.returnProbe() {
		flags = kernel.MultiReturn
	}
	first := &sites[0]
	if err := a.ended(sites); err != nil {
		return err
	}
	path, err := a.file(first.Path)
	if err != nil {
		return a.missing(first, fmt.Errorf("attach %s: %w", placeOf(sites), err))
	}
	fd, err := kernel.UprobeMulti(prog.FD(), uint32(g.AttachType), path, offsets, refs, cookies,
		first.PID, flags)
	if err == nil {
		a.keep(held{fd: fd, link: true, method: MethodUprobeMulti}, sites...)
		return nil
	}
	if len(sites) > 1 && a.o.Missing != MissingError {
		h := len(sites) / 2
		if err := a.uprobeFile(g, prog, sites[:h]); err != nil {
			return err
		}
		return a.uprobeFile(g, prog, sites[h:])
	}
	return a.missing(first,
		fmt.Errorf("attach %s: %w", placeOf(sites), a.explainUprobeMulti(g, first, err)))
}

func (a *attacher) explainUprobeMulti(g *ProgramPlan, s *Site, err error) error {
	f := feature.UprobeMulti
	if g.AttachType == AttachUprobeSession {
		f = feature.UprobeSession
	}
	if why := feature.Explain(f, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.ESRCH):
		return notexist.Errorf("no process %d", s.PID)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf(
			"the program was not loaded with attach type %s, or the file's system takes no uprobes: %w",
			strings.ToLower(attachTypeName(g.AttachType)), err)
	}
	return err
}
