package bpf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/load"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/codegen"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// Reader gives access to the maps of a program: a Loaded, a type that embeds one
// (action.Session), or a Recorded.
type Reader interface {
	// EBPFMap returns the kernel's map behind one of the program's, nil if it has none.
	EBPFMap(m *ir.Map) *ebpf.Map
	source() source
}

// Loaded is a program in the kernel, with its maps. It owns them: read what you need from
// them, then Close it. It is safe for concurrent use.
type Loaded struct {
	prog *ir.Program
	plan *probe.Plan
	lay  *check.Layout
	coll *ebpf.Collection
	walk *walkTables // nil if the program walks no stacks

	handover *Handover // nil if it is no version of several
	turn     uint8     // its number there

	mu    sync.Mutex
	rec   *recording.Recorder // guarded by mu
	flips map[string]any      // guarded by mu: *mapx.Flip by the name of the map
	// readers are the streams that are open, or nil while they are opened, by their maps' names.
	readers map[string]Stream // guarded by mu
	closed  bool              // guarded by mu
}

// Load compiles a program for a plan and loads it. It needs CAP_BPF and CAP_PERFMON, or
// CAP_SYS_ADMIN before 5.8. The caller closes the result. The builtins pid and tid are
// numbers in this process's pid namespace.
//
// If the verifier refuses the program, the error is a *VerifierError with the refused
// statement: a mistake of this package.
func Load(p *ir.Program, plan *probe.Plan) (*Loaded, error) {
	return LoadContext(context.Background(), p, plan)
}

// LoadContext is Load that ends when ctx does, with its error: some thousand programs, one for
// each site, take seconds. It looks at ctx between programs, and leaves nothing behind.
func LoadContext(ctx context.Context, p *ir.Program, plan *probe.Plan) (*Loaded, error) {
	if p == nil {
		return nil, fmt.Errorf("load: %w", errNoProgram)
	}
	ns := kernel.OwnPIDNamespace()
	spec, err := compileIn(ctx, ns, p, plan)
	if err != nil {
		return nil, err
	}
	return loadSpec(ctx, ns, p, plan, spec, nil)
}

// loadSpec loads a program that was compiled for the namespace of this process, and takes spec. h may be nil.
func loadSpec(ctx context.Context, ns *kernel.PIDNamespace, p *ir.Program, plan *probe.Plan,
	spec *ebpf.CollectionSpec, h *Handover,
) (*Loaded, error) {
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
	check.SetCPUs(spec, cpus)
	if err := check.Bytes(lay, p, spec, cpus); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	if err := kernel.RaiseMemlock(); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, err)
	}
	for _, prog := range spec.Programs {
		prog.Instructions = ns.OwnIDs(prog.Instructions, codegen.GPLCompatible(prog.License))
	}
	l := &Loaded{prog: p, plan: plan, lay: lay, handover: h}
	if h != nil {
		if l.turn, err = h.join(plan, spec); err != nil {
			return nil, fmt.Errorf("load %s: %w", p.Name, err)
		}
	}
	l.coll, err = load.Collection(ctx, spec, ebpf.CollectionOptions{Cache: plan.Cache})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.Name, explain(err))
	}
	if err := l.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("load %s: %w", p.Name, err), l.Close())
	}
	return l, nil
}

// controlValue is the value of the control map.
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

// start fills in the control map.
func (l *Loaded) start() error {
	c := controlValue{Start: kernel.Monotonic(), TAI: kernel.TAIOffset()}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	c.CPUs = uint32(cpus)
	c.NSDev, c.NSIno = kernel.PIDNamespaceID()
	if !l.prog.IncludeSelf {
		c.Self = uint32(os.Getpid())
	}
	if err := l.startFlips(); err != nil {
		return err
	}
	if l.walk, err = newWalkTables(l.prog, l.coll.Maps); err != nil {
		return err
	}
	return l.coll.Maps[check.CtlMap].Put(uint32(0), &c)
}

// EBPFMap returns the kernel's map behind one of the program's, nil if it has none. For a map
// with Flip it is the array of maps. l owns the result.
func (l *Loaded) EBPFMap(m *ir.Map) *ebpf.Map {
	if l == nil {
		return nil
	}
	if _, ok := l.lay.Index[m]; !ok {
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

// Record makes the tables and streams that are opened from now on record what is read from
// them, under the names of their maps. Call it before they are opened. The caller closes rec
// after the last read.
func (l *Loaded) Record(rec *recording.Recorder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec = rec
}

// Recorded is a recording of a program's tables and streams, which Open returns. It is used
// like the Loaded that it was recorded from: reads give the recorded results, in the same
// order.
type Recorded struct {
	rec *recording.Recording
}

// Open returns a program's handles from a recording that Loaded.Record made, for the code
// that reads the live program. It needs no privileges and works on every system. The caller
// closes rec.
func Open(p *ir.Program, rec *recording.Recording) (*Recorded, error) {
	if p == nil || rec == nil {
		return nil, errors.New("open: neither a program nor a recording of it may be nil")
	}
	if err := Validate(p); err != nil {
		return nil, fmt.Errorf("open %s: %w", p.Name, err)
	}
	return &Recorded{rec: rec}, nil
}

// EBPFMap returns nil: a recording has no kernel's maps.
func (r *Recorded) EBPFMap(*ir.Map) *ebpf.Map { return nil }

func (r *Recorded) source() source {
	if r == nil {
		return source{}
	}
	return source{replay: r.rec}
}

// Program returns the program that was loaded. It is shared: do not change it.
func (l *Loaded) Program() *ir.Program { return l.prog }

// Plan returns the plan that the program was loaded for. It is shared: do not change it.
func (l *Loaded) Plan() *probe.Plan { return l.plan }

// Programs returns the loaded programs by their name in the plan, for Plan.Attach. l owns
// them.
func (l *Loaded) Programs() map[string]*ebpf.Program { return l.coll.Programs }

// SetDisabled switches all probes off, or on again, with one write to a map. Disabled probes
// stay attached, but return at once.
func (l *Loaded) SetDisabled(off bool) error {
	return l.setControl(func(c *controlValue) { c.Disabled = uint32(eval.B2u(off)) })
}

func (l *Loaded) setControl(change func(*controlValue)) error {
	c, err := l.control()
	if err != nil {
		return err
	}
	change(&c)
	return l.failed("write control", l.coll.Maps[check.CtlMap].Put(uint32(0), &c))
}

// control reads the control map.
func (l *Loaded) control() (c controlValue, err error) {
	if l == nil {
		return c, fmt.Errorf("read control: %w", errNoProgram)
	}
	return c, l.failed("read control", l.coll.Maps[check.CtlMap].Lookup(uint32(0), &c))
}

// ExitRequested reports whether a program asked to end (StmtExit).
func (l *Loaded) ExitRequested() (bool, error) {
	c, err := l.control()
	return c.Exit != 0, err
}

// ExitCode returns the code that a program asked to end with (StmtExit), 0 if none did. If
// several did, it is one of their codes.
func (l *Loaded) ExitCode() (int, error) {
	c, err := l.control()
	return int(c.Code), err
}

// Close unloads the program and its maps. It may be called again, and on nil. Reads
// afterwards, and those that wait for an event, return os.ErrClosed.
func (l *Loaded) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closed = true
	streams := slices.Collect(maps.Values(l.readers))
	l.mu.Unlock()
	var errs []error
	for _, s := range streams {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	l.coll.Close()
	return errors.Join(errs...)
}
