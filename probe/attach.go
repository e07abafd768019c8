package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
)

// AttachOptions are the options of Plan.Attach. The zero value and nil are the defaults.
type AttachOptions struct {
	// Missing says what happens to sites that are in the plan but that the kernel
	// refuses. With MissingError, the default, Attach fails and undoes everything.
	// Otherwise such sites are left out, and with MissingWarn Link.Missing lists them.
	Missing MissingPolicy
	// Env is the environment that errors are explained for; nil is this machine.
	Env *Env
	// ExcludeKernel has samples and watchpoints (Perf and Watchpoint targets) fire in user
	// mode only. Events that happen in the kernel, such as context switches, then never fire.
	// Counters of a CPU may stop a little late: such a sample can still be in the kernel.
	ExcludeKernel bool
	// ExcludeChildren has samples and watchpoints of a process fire in that process only.
	// Otherwise the processes that it starts while they are attached have them too, also
	// after executing other programs. It needs Linux 5.13.
	ExcludeChildren bool
	// Context makes Attach fail with its error when it ends, and undo everything: thousands of
	// sites take seconds. It is looked at between sites and between the halves into which a
	// link's sites are divided; one call of the kernel is not interrupted. Nil is none.
	Context context.Context
}

// Link holds attachments, and everything else that keeps probes firing. They fire as
// long as it is open. When it is closed, or the process ends for any reason, nothing
// of them is left in the kernel. Keep the Link until you are done: the garbage
// collector closes a Link that is no longer referenced.
//
// A Link is safe for concurrent use.
type Link struct {
	sites   []Site
	missing []Missing

	mu     sync.Mutex
	held   []held          // guarded by mu
	progs  []*ebpf.Program // guarded by mu: clones
	names  []string        // of progs, in the plan
	ends   []*ebpf.Program // guarded by mu: of progs, to run before closing
	clocks []clock         // guarded by mu: events that sample whole CPUs
	closed bool            // guarded by mu
}

// held is one kernel object that a Link owns.
type held struct {
	fd int
	// link is set on bpf_links, which can be pinned and report the events they missed.
	link bool
	// method is how it was attached, prog the program's name in the plan.
	method Method
	prog   string
	// first and last delimit the indices of the sites that it serves; last is not one.
	first, last int
	// undo is what closing needs besides closing the descriptor.
	undo func() error
}

// clock is the perf event of a CPU, whose enabled time goes on while the CPU is there.
type clock struct{ fd, cpu int }

// Sites returns the attached sites, in the order of the plan.
func (l *Link) Sites() []Site { return slices.Clone(l.sites) }

// Missing returns the sites that the kernel refused, if the caller asked to go on
// without them.
func (l *Link) Missing() []Missing { return slices.Clone(l.missing) }

// Attach attaches the plan's programs, which progs holds by their names in the plan,
// at their sites. It returns one Link for all of them; the caller closes it. The
// programs remain the caller's and may be closed as soon as Attach returns.
//
// Programs at one place run in the plan's order.
//
// If anything fails, everything is undone, unless o.Missing says otherwise.
// Perf events are started together once everything is attached. Begin programs run once
// after that; End programs run when the Link is closed. Errors name the target and the
// true cause: lockdown, kernel configuration, a capability, a file.
func (p *Plan) Attach(progs map[string]*ebpf.Program, o *AttachOptions) (*Link, error) {
	if o == nil {
		o = &AttachOptions{}
	}
	for i := range p.Programs {
		name := p.Programs[i].Name
		if progs[name] == nil {
			return nil, fmt.Errorf("attach %s: the plan's program %s is not among those loaded",
				p.Programs[i].Place(), name)
		}
	}
	env := o.Env
	if env == nil {
		env = NewEnv(nil)
	}
	return attachPlan(p, progs, env, o)
}

// Place returns where the program is attached, for messages: its target, or the first
// of several and how many more there are.
func (p *ProgramPlan) Place() string {
	if len(p.Sites) == 0 {
		return p.Name
	}
	return placeOf(p.Sites)
}

// placeOf is ProgramPlan.Place of some sites.
func placeOf(sites []Site) string {
	s := sites[0].Target.String()
	if n := len(sites) - 1; n > 0 && sites[n].Target.String() != s {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// Attach attaches one program, loaded elsewhere (bpf2go, an ELF object), to a target,
// or to all targets of a Set of one kind. It uses one multi link where the program's
// attach type and the kernel allow that, else one attachment for each site.
//
// The kernel does not report the attach type that a program was loaded with, so
// o.AttachType must give it for multi and session programs. Tracing programs of the types
// AttachFentryMulti and AttachFexitMulti are recognized without it; other tracing programs
// are bound to one function.
//
// Names are resolved to addresses, and duplicates are dropped. o.Missing says what happens
// to sites that cannot be attached; on failure everything is undone. The program remains
// the caller's; the caller closes the Link.
func Attach(prog *ebpf.Program, target Target, o *Options) (*Link, error) {
	if prog == nil {
		return nil, errors.New("attach: no program")
	}
	var c Options
	if o != nil {
		c = *o
	}
	if !isMultiType(c.AttachType) && prog.Type() == ebpf.Kprobe {
		c.NoMulti = true
	}
	if c.Env == nil {
		c.Env = NewEnv(nil)
	}
	if prog.Type() == ebpf.Tracing && c.AttachType == ebpf.AttachNone {
		c.AttachType = tracingMultiType(c.Env, prog, target)
	}
	c.EntryReturn = isSession(c.AttachType)
	c.PreferBTF = prog.Type() == ebpf.Tracing
	c.NoTypes = c.NoTypes || prog.Type() != ebpf.Tracing && prog.Type() != ebpf.LSM
	if c.Filter != nil {
		return nil, fmt.Errorf("attach %s: the program is loaded, so a filter can't be put into it: use Resolve, Plan.ApplyFilter and Plan.Attach", target)
	}
	plan, err := Resolve(c.Env, []Target{target}, &c)
	if err != nil {
		return nil, err
	}
	if err := plan.fits(prog, c.AttachType); err != nil {
		return nil, err
	}
	progs := make(map[string]*ebpf.Program, len(plan.Programs))
	for i := range plan.Programs {
		progs[plan.Programs[i].Name] = prog
	}
	link, err := plan.Attach(progs, &AttachOptions{Missing: c.Missing, Env: c.Env, Context: c.Context})
	if err == nil {
		link.missing = append(slices.Clone(plan.Missing), link.missing...)
	}
	return link, err
}

// fits checks that one program, loaded with the attach type at if that is known,
// can serve the whole plan.
func (p *Plan) fits(prog *ebpf.Program, at ebpf.AttachType) error {
	for i := range p.Programs {
		g := &p.Programs[i]
		switch {
		case g.Type != prog.Type():
			return fmt.Errorf("attach %s: the program is of type %s, the target needs %s", g.Place(),
				prog.Type(), g.Type)
		case g.Type != ebpf.Tracing:
		case at != ebpf.AttachNone && at != g.AttachType:
			return fmt.Errorf("attach %s: the program is of attach type %s, the target needs %s", g.Place(),
				attachTypeName(at), attachTypeName(g.AttachType))
		case i > 0 && g.Method == MethodTracing:
			return fmt.Errorf("attach %s: the program was loaded for one function, and this is another: load it with attach type %s, or one for each with Resolve and Plan.Attach",
				g.Place(), attachTypeName(AttachFentryMulti))
		}
	}
	return nil
}

// Close runs End programs, detaches everything, and returns when the kernel has
// released all of it. It may be called again, on a nil Link, and while events are
// still firing.
func (l *Link) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.release()
}

// errClosed returns the error of methods of a closed Link.
func (l *Link) errClosed(op string) error {
	return fmt.Errorf("%s: link: %w", op, os.ErrClosed)
}
