package bpf

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/codegen"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/loops"
)

// Handles gives the maps of a loaded program to the readers of the typed
// surface: a Loaded, or a Session.
type Handles interface {
	// EBPFMap is the kernel's map behind one of the program's, nil if it has none.
	EBPFMap(m *ir.Map) *ebpf.Map
	Source() Source
}

// Loaded is a program in the kernel, with its maps. It owns them: keep it until
// you have read what you want, then Close it. It is safe for concurrent use.
type Loaded struct {
	Prog      *ir.Program
	PlanMoved *probe.Plan
	lay       *check.Layout
	Coll      *ebpf.Collection
	walk      *walkTables // nil if the program walks no stacks

	Mu    sync.Mutex
	rec   *recording.Recorder // guarded by mu
	flips map[string]any      // guarded by mu: *mapx.Flip by the name of the map
	// readers are the streams that are open, by their maps' names.
	readers map[string]bool // guarded by mu
	closed  bool            // guarded by mu
}

// Load compiles a program for a plan and loads it. It needs CAP_BPF and
// CAP_PERFMON, or CAP_SYS_ADMIN before 5.8. The caller closes what it returns.
// The program knows tasks by their numbers in this process's pid namespace
// (Ctx.PID).
//
// If the verifier refuses the program, that is a mistake of this package: the
// error is a *VerifierError with the statement it refused.
func Load(p *ir.Program, plan *probe.Plan) (*Loaded, error) {
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
	lay, err := check.NewLayout(p, plan)
	if err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	if err := CheckBytes(lay, p, spec, cpus); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	if err := kernel.RaiseMemlock(); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	for _, prog := range spec.Programs {
		prog.Instructions = ns.OwnIDs(prog.Instructions, codegen.GPLCompatible(prog.License))
	}
	coll, err := probe.LoadCollection(spec, ebpf.CollectionOptions{Cache: plan.Cache})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, explain(err))
	}
	l := &Loaded{Prog: p, PlanMoved: plan, lay: lay, Coll: coll}
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
	c := controlValue{Start: Monotonic(), TAI: taiOffset()}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	c.CPUs = uint32(cpus)
	c.NSDev, c.NSIno = pidNamespace()
	if !l.Prog.IncludeSelf {
		c.Self = uint32(os.Getpid())
	}
	if err := l.startFlips(); err != nil {
		return err
	}
	if l.walk, err = newWalkTables(l.Prog, l.Coll.Maps); err != nil {
		return err
	}
	return l.Coll.Maps[check.CtlMap].Put(uint32(0), &c)
}

// EBPFMap is the kernel's map behind one of the program's, nil if it has none;
// of a map with Flip, the array of maps. It is owned by l.
func (l *Loaded) EBPFMap(m *ir.Map) *ebpf.Map {
	if l == nil {
		return nil
	}
	if _, ok := l.lay.Index[m]; !ok {
		return nil
	}
	return l.Coll.Maps[m.Name]
}

func (l *Loaded) Source() Source {
	if l == nil {
		return Source{}
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return Source{live: l, rec: l.rec}
}

// Record has the tables and streams that are opened from now on record what is
// read from them, under the names of their maps. Call it before they are opened;
// rec stays the caller's, who closes it after the last read.
func (l *Loaded) Record(rec *recording.Recorder) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.rec = rec
}

// Recorded is a recording of a program's tables and streams in place of the
// program: Open's result. Reads give what they gave when it was recorded, in
// the same order. It is used like the Loaded that it was recorded from.
type Recorded struct {
	rec *recording.Recording
}

// Open gives the handles of a program from a recording that Loaded.Record made
// of it, so that the code that reads them cannot tell. It needs no privileges
// and works on every system. rec stays the caller's.
func Open(p *ir.Program, rec *recording.Recording) (*Recorded, error) {
	if p == nil || rec == nil {
		return nil, errors.New("open: neither a program nor a recording of it may be nil")
	}
	if err := Validate(p); err != nil {
		return nil, fmt.Errorf("open %s: %w", p.Name, err)
	}
	return &Recorded{rec: rec}, nil
}

// EBPFMap is nil: there is no kernel behind a recording.
func (r *Recorded) EBPFMap(*ir.Map) *ebpf.Map { return nil }

func (r *Recorded) Source() Source {
	if r == nil {
		return Source{}
	}
	return Source{replay: r.rec}
}

// Plan is what the program was loaded for. It is shared: do not change it.
func (l *Loaded) Plan() *probe.Plan { return l.PlanMoved }

// Programs are the loaded programs by their name in the plan: what Plan.Attach
// wants. They are owned by l.
func (l *Loaded) Programs() map[string]*ebpf.Program { return l.Coll.Programs }

// SetDisabled switches everything off, or on again, with one write to a map:
// probes stay attached, but return at once.
func (l *Loaded) SetDisabled(off bool) error {
	return l.setControl(func(c *controlValue) { c.Disabled = uint32(eval.B2u(off)) })
}

func (l *Loaded) setControl(change func(*controlValue)) error {
	c, err := l.control()
	if err != nil {
		return err
	}
	change(&c)
	return l.failed("write control", l.Coll.Maps[check.CtlMap].Put(uint32(0), &c))
}

// control is what the control map holds.
func (l *Loaded) control() (c controlValue, err error) {
	if l == nil {
		return c, fmt.Errorf("read control: %w", errNoProgram)
	}
	return c, l.failed("read control", l.Coll.Maps[check.CtlMap].Lookup(uint32(0), &c))
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
	l.Mu.Lock()
	l.closed = true
	l.Mu.Unlock()
	l.Coll.Close()
	return nil
}

// UsesArguments says whether a program reads what has a type in BTF; if not,
// reading BTF is spared, which is most of the time that attaching takes.
func UsesArguments(p *ir.Program) bool {
	uses := false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		uses = uses || e.Op == ir.OpArg || e.Op == ir.OpRet || e.Op == ir.OpField
	})
	return uses
}

// UsesSession says whether every action is one of a session program.
func UsesSession(p *ir.Program) bool {
	for _, a := range p.Actions {
		if !sessionAction(a) {
			return false
		}
	}
	return len(p.Actions) > 0
}

func sessionAction(a ir.Action) bool {
	uses := false
	(&ir.Program{Actions: []ir.Action{a}}).Visit(func(s *ir.Stmt) {
		uses = uses || s.Op == ir.StmtSkip || s.Op == ir.StmtCookie
	}, func(e *ir.Expr) {
		uses = uses || e.Op == ir.OpBuiltin && (e.Str == "is_return" || e.Str == "session_cookie")
	})
	return uses
}

// UsesCookie says whether a program asks which of its sites has fired.
func UsesCookie(p *ir.Program) bool {
	uses := false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		uses = uses || e.Op == ir.OpBuiltin && (e.Str == "probe" || e.Str == "cookie")
	})
	return uses
}

// NeedsBTF says whether a program names kernel types, or calls kernel functions.
func NeedsBTF(p *ir.Program) bool {
	need := false
	for _, a := range p.Actions {
		need = need || sessionAction(a)
	}
	need = need || walksStacks(p)
	p.Visit(func(s *ir.Stmt) {
		need = need || s.Op == ir.StmtPacket
		need = need || s.Op == ir.StmtLoop && p.Loops == loops.Iter
		need = need || s.Map != nil && s.Map.Kind == ir.MapCgroupStorage
	}, func(e *ir.Expr) {
		need = need || e.Map != nil && e.Map.Kind == ir.MapCgroupStorage
		switch e.Op {
		case ir.OpPath, ir.OpMember, ir.OpAddrOf, ir.OpIndex, ir.OpDeref, ir.OpOffset, ir.OpEnum, ir.OpSizeof, ir.OpTaskPID, ir.OpTaskTID:
			need = true
		case ir.OpCast:
			need = need || e.Type.Kind == ir.KindPtr && e.Str != ""
		case ir.OpBuiltin:
			need = need || e.Str == "ppid" || e.Str == "curtask" || e.Str == "pcomm"
		}
	})
	return need
}

// walksStacks says whether a program asks for walked user stacks.
func walksStacks(p *ir.Program) bool {
	walks := false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) { walks = walks || e.Op == ir.OpUstackWalk })
	return walks
}
