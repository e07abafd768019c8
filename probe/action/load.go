package action

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

var _ bpf.Reader = (*bpf.Loaded)(nil)

var _ bpf.Reader = (*bpf.Recorded)(nil)

// Options configure Attach. The zero value and nil are the defaults.
type Options struct {
	// Env is the environment that decisions depend on; nil is this machine.
	Env *probe.Env
	// Resolve are the options of probe.Resolve, and Attach those of Plan.Attach. An
	// Attach without an Env uses the Env above.
	Resolve *probe.Options
	Attach  *probe.AttachOptions
	// Context ends resolving, loading and attaching when it ends, with its error, and nothing
	// is left behind: for thousands of functions they take seconds. It does not end the
	// Session. Nil is none; Resolve and Attach may each have another.
	Context context.Context
}

// context returns the options' context.
func (o *Options) context() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}

// resolve returns the options of bpf.Resolve.
func (o *Options) resolve() *probe.Options {
	to := probe.Options{}
	if o.Resolve != nil {
		to = *o.Resolve
	}
	if to.Context == nil {
		to.Context = o.Context
	}
	return &to
}

// Session is a loaded and attached program. Close ends it.
type Session struct {
	*bpf.Loaded
	link  *probe.Link
	since time.Time // before the first event

	mu sync.Mutex
	// before is the link's count of missed events when it was last read: a closed link has
	// none.
	before uint64 // guarded by mu
}

var _ bpf.Reader = (*Session)(nil)

// Attach resolves the program's targets, compiles the program, loads and attaches it. The
// probes fire until the caller closes the session. If the process ends, in whatever way, the
// kernel removes everything. If the process lacks privileges, the error names all that the
// targets need, and matches os.ErrPermission.
func Attach(p *Program, o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	if p == nil {
		return nil, fmt.Errorf("attach: %w", errNoProgram)
	}
	env := o.Env
	if env == nil {
		env = probe.NewEnv(nil)
	}
	var s *Session
	plan, err := bpf.Resolve(env, p.Program, o.resolve())
	if err != nil {
		err = fmt.Errorf("attach %s: %w", p.Name, err)
	} else {
		s, err = attachPlan(p.Program, plan, env, o)
	}
	if err != nil {
		return nil, lacking(env, p.Targets(), err)
	}
	return s, nil
}

// lacking adds to the error of an attempt to attach everything that the process lacks: what
// failed is only the first of it.
func lacking(env *probe.Env, targets []probe.Target, err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	var names []string
	permitted, able := true, true
	for _, r := range probe.Requires(env, targets) {
		switch {
		case r.Met() || slices.Contains(names, r.Name):
			continue
		case r.Kind == "feature":
			able = false
			continue
		}
		permitted = permitted && r.Kind != "capability"
		names = append(names, r.Name)
	}
	if permitted || !able && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &privilegeError{names, err}
}

// privilegeError is an error that missing privileges may have caused.
type privilegeError struct {
	names []string
	err   error
}

func (e *privilegeError) Error() string {
	return fmt.Sprintf("needs root, or %s: %v", strings.Join(e.names, ", "), e.err)
}

func (e *privilegeError) Unwrap() []error { return []error{e.err, fs.ErrPermission} }

// AttachPlan loads and attaches a program for an existing plan. The plan must hold the
// symbols that the program needs (bpf.Resolve). Options.Resolve is an error: the plan was made
// with options of its own.
func AttachPlan(p *Program, plan *probe.Plan, o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	if p == nil {
		return nil, fmt.Errorf("attach: %w", errNoProgram)
	}
	if o.Resolve != nil {
		return nil, fmt.Errorf("attach %s: Options.Resolve is for Attach: a plan has been resolved", p.Name)
	}
	return attachPlan(p.Program, plan, o.Env, o)
}

func attachPlan(p *ir.Program, plan *probe.Plan, env *probe.Env, o *Options) (*Session,
	error,
) {
	to := probe.AttachOptions{}
	if o.Attach != nil {
		to = *o.Attach
	}
	if to.Env == nil {
		to.Env = env
	}
	if to.Context == nil {
		to.Context = o.Context
	}
	l, err := bpf.LoadContext(o.context(), p, plan)
	if err != nil {
		return nil, err
	}
	since := time.Now()
	link, err := plan.Attach(l.Programs(), &to)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach %s: %w", p.Name, err), l.Close())
	}
	return &Session{Loaded: l, link: link, since: since}, nil
}

// Link returns the link by which the session is attached. The session owns it.
func (s *Session) Link() *probe.Link { return s.link }

// Stats returns the statistics of the Loaded. Missed also includes what the attachments
// missed.
func (s *Session) Stats() (bpf.Stats, error) {
	if s == nil {
		return bpf.Stats{}, fmt.Errorf("stats: %w", errNoProgram)
	}
	st, err := s.Loaded.Stats()
	if err != nil {
		return st, err
	}
	missed, err := s.missed()
	st.Missed += missed
	return st, err
}

// missed returns what the attachments missed and no program counts.
func (s *Session) missed() (uint64, error) {
	st, err := s.link.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, os.ErrClosed) {
		return s.before, nil
	}
	s.before = st.Missed
	return st.Missed, err
}

// Close detaches and unloads the program. The maps are gone afterwards: read them before, or
// call Detach, read them, and call Close. Close may be called again, and on nil.
func (s *Session) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.link.Close(), s.Loaded.Close())
}

// Detach ends the probes and keeps the maps, so that they can be read when nothing changes
// them. It may be called again, and on nil.
func (s *Session) Detach() error {
	if s == nil {
		return nil
	}
	_, err := s.missed()
	return errors.Join(err, s.link.Close())
}
