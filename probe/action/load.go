package action

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
)

// Handles gives the maps of a loaded program to the readers of the typed
// surface: a Loaded, or a Session.
type Handles interface {
	// EBPFMap is the kernel's map behind one of the program's, nil if it has none.
	EBPFMap(m *Map) *ebpf.Map
	source() source
}

// Loaded is a program in the kernel, with its maps. It owns them: keep it until
// you have read what you want, then Close it. It is safe for concurrent use.
type Loaded struct {
	prog *Program
	plan *probe.Plan
	lay  *layout
	coll *ebpf.Collection
	walk *walkTables // nil if the program walks no stacks

	mu    sync.Mutex
	rec   *recording.Recorder // guarded by mu
	flips map[string]any      // guarded by mu: *mapx.Flip by the name of the map
	// readers are the streams that are open, by their maps' names.
	readers map[string]bool // guarded by mu
	closed  bool            // guarded by mu
}

var _ Handles = (*Loaded)(nil)

// Load compiles a program for a plan and loads it. It needs CAP_BPF and
// CAP_PERFMON, or CAP_SYS_ADMIN before 5.8. The caller closes what it returns.
// The program knows tasks by their numbers in this process's pid namespace
// (Ctx.PID).
//
// If the verifier refuses the program, that is a mistake of this package: the
// error is a *VerifierError with the statement it refused.
func Load(p *Program, plan *probe.Plan) (*Loaded, error) {
	if p == nil {
		return nil, fmt.Errorf("load: %w", errNoProgram)
	}
	ns := kernel.OwnPIDNamespace()
	spec, err := compileIn(ns, p, plan)
	if err != nil {
		return nil, err
	}
	if n := len(plan.Missing); len(spec.Programs) == 0 && n > 0 {
		return nil, fmt.Errorf("load %s: %w", p.Name, plan.Missing[n-1].Err)
	}
	if len(spec.Programs) == 0 {
		return nil, fmt.Errorf("load %s: %w", p.Name, errNoPrograms)
	}
	lay, err := newLayout(p, plan)
	if err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	if err := lay.checkBytes(p, spec, cpus); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	if err := kernel.RaiseMemlock(); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	for _, prog := range spec.Programs {
		prog.Instructions = ns.OwnIDs(prog.Instructions, gplCompatible(prog.License))
	}
	coll, err := probe.LoadCollection(spec, ebpf.CollectionOptions{Cache: plan.Cache})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, explain(err))
	}
	l := &Loaded{prog: p, plan: plan, lay: lay, coll: coll}
	if err := l.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("load %s: %w", p.Name, err), l.Close())
	}
	return l, nil
}

// control is the value of the control map.
type controlValue struct {
	Disabled, Self uint32
	Start          uint64
	Exit           uint32
	Code           int32
	NSDev, NSIno   uint64
	TAI            int64
	CPUs, _        uint32
	Zero           uint64
}

// start fills the control map in.
func (l *Loaded) start() error {
	c := controlValue{Start: monotonic(), TAI: taiOffset()}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	c.CPUs = uint32(cpus)
	c.NSDev, c.NSIno = pidNamespace()
	if !l.prog.IncludeSelf {
		c.Self = uint32(os.Getpid())
	}
	if err := l.startFlips(); err != nil {
		return err
	}
	if l.walk, err = newWalkTables(l.prog, l.coll.Maps); err != nil {
		return err
	}
	return l.coll.Maps[ctlMap].Put(uint32(0), &c)
}

// EBPFMap is the kernel's map behind one of the program's, nil if it has none;
// of a map with Flip, the array of maps. It is owned by l.
func (l *Loaded) EBPFMap(m *Map) *ebpf.Map {
	if l == nil {
		return nil
	}
	if _, ok := l.lay.index[m]; !ok {
		return nil
	}
	return l.coll.Maps[m.Name]
}

func (l *Loaded) source() source {
	if l == nil {
		return source{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return source{live: l, rec: l.rec}
}

// Record has the tables and streams that are opened from now on record what is
// read from them, under the names of their maps. Call it before they are opened;
// rec stays the caller's, who closes it after the last read.
func (l *Loaded) Record(rec *recording.Recorder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec = rec
}

// Recorded is a recording of a program's tables and streams in place of the
// program: Open's result. Reads give what they gave when it was recorded, in
// the same order. It is used like the Loaded that it was recorded from.
type Recorded struct {
	rec *recording.Recording
}

var _ Handles = (*Recorded)(nil)

// Open gives the handles of a program from a recording that Loaded.Record made
// of it, so that the code that reads them cannot tell. It needs no privileges
// and works on every system. rec stays the caller's.
func Open(p *Program, rec *recording.Recording) (*Recorded, error) {
	if p == nil || rec == nil {
		return nil, errors.New("open: neither a program nor a recording of it may be nil")
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("open %s: %w", p.Name, err)
	}
	return &Recorded{rec: rec}, nil
}

// EBPFMap is nil: there is no kernel behind a recording.
func (r *Recorded) EBPFMap(*Map) *ebpf.Map { return nil }

func (r *Recorded) source() source {
	if r == nil {
		return source{}
	}
	return source{replay: r.rec}
}

// Plan is what the program was loaded for. It is shared: do not change it.
func (l *Loaded) Plan() *probe.Plan { return l.plan }

// Programs are the loaded programs by their name in the plan: what Plan.Attach
// wants. They are owned by l.
func (l *Loaded) Programs() map[string]*ebpf.Program { return l.coll.Programs }

// SetDisabled switches everything off, or on again, with one write to a map:
// probes stay attached, but return at once.
func (l *Loaded) SetDisabled(off bool) error {
	return l.setControl(func(c *controlValue) { c.Disabled = uint32(b2u(off)) })
}

func (l *Loaded) setControl(change func(*controlValue)) error {
	c, err := l.control()
	if err != nil {
		return err
	}
	change(&c)
	return l.failed("write control", l.coll.Maps[ctlMap].Put(uint32(0), &c))
}

// control is what the control map holds.
func (l *Loaded) control() (c controlValue, err error) {
	if l == nil {
		return c, fmt.Errorf("read control: %w", errNoProgram)
	}
	return c, l.failed("read control", l.coll.Maps[ctlMap].Lookup(uint32(0), &c))
}

// ExitRequested says whether a program asked to end (Ctx.Exit).
func (l *Loaded) ExitRequested() (bool, error) {
	c, err := l.control()
	return c.Exit != 0, err
}

// ExitCode is the code that a program asked to end with (Ctx.ExitWith), 0 if
// none did. Of several, it is one of them.
func (l *Loaded) ExitCode() (int, error) {
	c, err := l.control()
	return int(c.Code), err
}

// Close unloads the program and its maps. It may be called again, and on nil.
// What reads them afterwards gets os.ErrClosed.
func (l *Loaded) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.coll.Close()
	return nil
}

// Options say how Attach attaches. The zero value, and nil, is the default.
type Options struct {
	// Env is what decisions depend on; nil is this machine.
	Env *probe.Env
	// Resolve are the options of probe.Resolve, AttachTo those of Plan.Attach,
	// whose Env is this one if it has none.
	Resolve  *probe.Options
	AttachTo *probe.AttachOptions
}

// Session is a program at work: loaded and attached. Close ends it.
type Session struct {
	*Loaded
	link  *probe.Link
	since time.Time
	// before is what the link had missed when it was last asked.
	before uint64 // guarded by Loaded.mu
}

var _ Handles = (*Session)(nil)

// Attach resolves the program's targets, compiles, loads and attaches it. The
// caller closes the session; until then the probes fire. If the process ends,
// in whatever way, the kernel removes everything.
func Attach(p *Program, o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	if p == nil {
		return nil, fmt.Errorf("attach: %w", errNoProgram)
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("attach %s: %w", p.Name, err)
	}
	env := o.Env
	if env == nil {
		env = probe.NewEnv(nil)
	}
	ro := probe.Options{}
	if o.Resolve != nil {
		ro = *o.Resolve
	}
	ro.NoTypes = ro.NoTypes || !usesArguments(p)
	ro.Session = ro.Session || usesSession(p)
	ro.Apart = ro.Apart || usesCookie(p)
	plan, err := probe.Resolve(env, p.Targets(), &ro)
	if err != nil {
		return nil, fmt.Errorf("attach %s: %w", p.Name, err)
	}
	if plan.BTF == nil && needsBTF(p) {
		if plan.BTF, err = kernelTypes(env, p, plan); err != nil {
			return nil, fmt.Errorf("attach %s: %w", p.Name, err)
		}
	}
	if err := ResolveSymbols(env, p, plan); err != nil {
		return nil, fmt.Errorf("attach %s: %w", p.Name, err)
	}
	return attachPlan(p, plan, env, o.AttachTo)
}

// AttachPlan loads and attaches a program for a plan that was made before, and
// that names the symbols which the program needs (ResolveSymbols).
func AttachPlan(p *Program, plan *probe.Plan, o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	return attachPlan(p, plan, o.Env, o.AttachTo)
}

func attachPlan(p *Program, plan *probe.Plan, env *probe.Env, o *probe.AttachOptions) (*Session, error) {
	to := probe.AttachOptions{}
	if o != nil {
		to = *o
	}
	if to.Env == nil {
		to.Env = env
	}
	l, err := Load(p, plan)
	if err != nil {
		return nil, err
	}
	link, err := plan.Attach(l.Programs(), &to)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach %s: %w", p.Name, err), l.Close())
	}
	return &Session{Loaded: l, link: link, since: time.Now()}, nil
}

// usesArguments says whether a program reads what has a type in BTF; if not,
// reading BTF is spared, which is most of the time that attaching takes.
func usesArguments(p *Program) bool {
	uses := false
	p.visit(func(*Stmt) {}, func(e *Expr) {
		uses = uses || e.Op == OpArg || e.Op == OpRet || e.Op == OpField
	})
	return uses
}

// usesSession says whether every action is one of a session program.
func usesSession(p *Program) bool {
	for _, a := range p.Actions {
		if !sessionAction(a) {
			return false
		}
	}
	return len(p.Actions) > 0
}

func sessionAction(a Action) bool {
	uses := false
	visitActions([]Action{a}, func(s *Stmt) {
		uses = uses || s.Op == StmtSkip || s.Op == StmtCookie
	}, func(e *Expr) {
		uses = uses || e.Op == OpBuiltin && (e.Str == "is_return" || e.Str == "session_cookie")
	})
	return uses
}

// usesCookie says whether a program asks which of its sites has fired.
func usesCookie(p *Program) bool {
	uses := false
	visitActions(p.Actions, func(*Stmt) {}, func(e *Expr) {
		uses = uses || e.Op == OpBuiltin && (e.Str == "probe" || e.Str == "cookie")
	})
	return uses
}

// needsBTF says whether a program names kernel types, or calls kernel functions.
func needsBTF(p *Program) bool {
	need := false
	for _, a := range p.Actions {
		need = need || sessionAction(a)
	}
	need = need || walksStacks(p)
	p.visit(func(s *Stmt) {
		need = need || s.Op == StmtPacket
		need = need || s.Op == StmtLoop && p.Loops == LoopsIter
		need = need || s.Map != nil && s.Map.Kind == MapCgroupStorage
	}, func(e *Expr) {
		need = need || e.Map != nil && e.Map.Kind == MapCgroupStorage
		switch e.Op {
		case OpPath, OpMember, OpAddrOf, OpIndex, OpDeref, OpOffset, OpEnum, OpSizeof, OpTaskPID, OpTaskTID:
			need = true
		case OpCast:
			need = need || e.Type.Kind == KindPtr && e.Str != ""
		case OpBuiltin:
			need = need || e.Str == "ppid" || e.Str == "curtask" || e.Str == "pcomm"
		}
	})
	return need
}

// Link is what the session is attached by. It is owned by the session.
func (s *Session) Link() *probe.Link { return s.link }

func (s *Session) source() source {
	if s == nil {
		return source{}
	}
	return s.Loaded.source()
}

// Stats are those of the Loaded, and what the attachments missed besides.
func (s *Session) Stats() (Stats, error) {
	if s == nil {
		return Stats{}, fmt.Errorf("stats: %w", errNoProgram)
	}
	st, err := s.Loaded.Stats()
	if err != nil {
		return st, err
	}
	missed, err := s.missed()
	st.Missed += missed
	return st, err
}

// missed is what the attachments missed that no program counts.
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

// Close detaches and unloads. The maps are gone afterwards: read them before,
// or call Detach, read, and Close. It may be called again, and on nil.
func (s *Session) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.link.Close(), s.Loaded.Close())
}

// Detach ends the probes and keeps the maps, so that they can be read at rest. It
// may be called again, and on nil.
func (s *Session) Detach() error {
	if s == nil {
		return nil
	}
	_, err := s.missed()
	return errors.Join(err, s.link.Close())
}
