package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
	"github.com/borescope/borescope/symbol/lifecycle"
)

// Options select what is collected. The zero value, and nil, collects the kernel and user
// stacks of every process but this one, without the idle tasks.
type Options struct {
	// NoKernel and NoUser leave out one of the two stacks.
	NoKernel, NoUser bool
	// PIDs keeps only these processes (thread groups), by their pids in this process's pid
	// namespace; empty keeps all.
	PIDs []int
	// Comm keeps only threads of this name (the first 15 bytes count); "" keeps all.
	Comm string
	// Idle keeps the samples of idle CPUs.
	Idle bool
	// IncludeSelf keeps the samples of this process.
	IncludeSelf bool
	// PerThread counts each thread by itself.
	PerThread bool
	// MaxStacks is the room for distinct stacks and combinations of them; 0 means 16,384,
	// which takes about 12 MiB of kernel memory. Stats counts the samples that found no
	// room.
	MaxStacks int
	// Windows makes ReadAndClear possible, and with it collecting for as long as the process
	// lives: what a table had no room for in one window, the next one has. It takes twice the
	// kernel memory of MaxStacks.
	Windows bool
	// Hold counts nothing until LoadWalker has loaded the walker and the rules for the
	// files of PIDs, so that the kernel's helper walks none of their stacks. If the walker
	// is not available, counting starts when LoadWalker has returned that. Hold has no
	// effect with NoUser.
	Hold bool
	// Value names a field of the targets that is added up in Sample.Value, besides the
	// number of events. It is "sample_period" of a perf event, which is how many events the
	// sample stands for (nanoseconds, page faults, cycles), or a number in a tracepoint's
	// record, such as "bytes_alloc" of kmem:kmalloc.
	Value string
	// Served also reads the rules for stacks from files that another user's process may serve:
	// symbol.Options.Served.
	Served bool
	// Env is the environment against which targets are resolved; nil means this machine.
	Env *probe.Env
	// Context ends Attach when it ends, with its error; nothing is left behind. It does not
	// end the Collector. Nil is none.
	Context context.Context
}

// defaultMaxStacks is documented at Options.MaxStacks.
const defaultMaxStacks = 16 << 10

// Collector counts stacks until it is closed. LoadWalker, AddProcess, Detach and Close are
// for one goroutine at a time, and so is reading from Processes; the rest is safe for
// concurrent use.
type Collector struct {
	handles
	members   members
	plan      *probe.Plan
	filter    *filter
	ns        *kernel.PIDNamespace // whose numbers are meant; nil: the initial one's
	spec      *ebpf.CollectionSpec
	coll      *ebpf.Collection
	ring      *mapx.Ring
	turns     *kernel.Turns // which form of the programs counts; nil without user stacks
	form      uint8         // whose turn it is
	copy      uint32        // 1 if someone walks copies; guarded by window.mu
	copied    *copied       // nil if none are made
	maxStacks int
	epoch     uint32 // the last one of a process
	window    window
	pids      []int // with Options.Hold: whose rules come first

	closed  atomic.Bool
	mu      sync.Mutex
	link    *probe.Link // guarded by mu, nil after Detach
	missed  uint64      // guarded by mu: events that earlier links missed
	stopped []int       // guarded by mu: CPUs that earlier links ceased to sample

	// From LoadWalker to Detach:
	walker *ebpf.Collection
	tables *bpfwalk.Tables
	cfi    *stack.CFICache // from Attach on

	follower atomic.Pointer[lifecycle.Follower] // while Watch has one

	pythons sync.Map     // pid to *python.Interpreter, since LoadWalker
	memory  stack.Budget // for reading their memory, from one call of Samples to the next
}

// handles are what live and replayed collectors have in common.
type handles struct {
	// One of the two, the other is nil: the first where events are counted and
	// nothing is added up.
	counts mapx.Table[taskKey, counted]
	totals mapx.Table[waitKey, summed]

	segments mapx.Table[segment, uint64]
	counters mapx.Table[uint32, []uint64]
	first    mapx.Source
	// keepStacks: ReadAndClear leaves the segments, which waits that have not ended may need.
	keepStacks bool
}

// Stats counts the samples that were counted and lost.
type Stats struct {
	// Samples is the number of samples that passed the filters: events, or waits
	// that ended.
	Samples uint64
	// LostFull is the number not counted because there was no room for another key.
	LostFull uint64
	// LostNested is the number not counted because interrupts nested deeper than the
	// scratch space; these are not part of Samples.
	LostNested uint64
	// CutShort is the number of stacks of which a part is missing, because there was no room
	// for another. An event has up to two, the kernel's and the user's, and a wait up to four.
	CutShort uint64
	// Unannounced is the number of processes that Processes did not report, because its
	// ring was full.
	Unannounced uint64
	// LostWaits is the number not counted because there was no room for another waiting
	// thread; these are not part of Samples.
	LostWaits uint64
	// Unwoken is the number of waits that Wakeups does not count because their waker was
	// not seen: it was faster on its CPU than the sleeper on its own, or it woke the
	// sleeper while another BPF program ran there. These are not part of Samples.
	Unwoken uint64
	// Unended is the number of waits whose end was not seen: the thread was seen to leave
	// its CPU again before. These are not part of Samples.
	Unended uint64
	// Gaps is the number of places in the sequence of switches where events of threads that
	// Options select are known to be missing: a thread left a CPU, but another one was the
	// last seen to come to it, and one of the two is selected. Waits that begin or end
	// there are not part of Samples; one that ends there is also in Unended.
	Gaps uint64
	// Unwalked is the number of samples whose user stacks the walker in BPF had no rules for: of
	// processes, or of their mappings, that were just made, and of 32-bit programs. While processes are
	// watched (Watch) these stacks are copied and walked in this process. Samples counts them all.
	Unwalked uint64
	// Copied is the number of those for which that was done. The others have the stacks that were found
	// without rules: CopyFull because there was no room for copies, CopyLimit because there were too many
	// in a time, and the rest because it is not known what the process mapped, or because the sample
	// interrupted another. Of waits, the last two also count those that were not counted in the end.
	Copied, CopyFull, CopyLimit uint64
	// Missed is the number of events for which the kernel ran no program, most often
	// because another BPF program, or a call that reads a BPF map, was interrupted on the
	// CPU. Kernels before 6.7 do not count them; in recordings it is 0.
	Missed uint64
}

// Lost returns the number of samples that are in no count, without those in Missed. With
// waits it includes the places where some may be missing.
func (s Stats) Lost() uint64 {
	return s.LostFull + s.LostNested + s.LostWaits + s.Unwoken + s.Unended + s.Gaps
}

// Attach resolves the targets, loads a program for each kind among them, and starts to
// collect. The caller must close the Collector.
//
// The errors are those of probe.Resolve and of loading. An *UnsupportedError, or an error
// that wraps os.ErrPermission, names what is missing.
func Attach(targets []probe.Target, o *Options) (*Collector, error) {
	if o == nil {
		o = new(Options)
	}
	f, err := o.filter()
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	return attach(targets, o, f)
}

func attach(targets []probe.Target, o *Options, f *filter) (*Collector, error) {
	env := o.Env
	if env == nil {
		env = probe.NewEnv(nil)
	}
	c := &Collector{
		members: membersOf(env), filter: f, ns: kernel.OwnPIDNamespace(),
		cfi: &stack.CFICache{
			MaxBytes: cfiBytes, MaxMappings: bpfwalk.MaxMappings, Chosen: f.pids, Served: o.Served,
		},
	}
	// What none of these has to wait for is done at the same time: until a sample is taken it is waited for.
	var made sync.WaitGroup
	defer c.members.ahead()()
	var merr error
	made.Go(func() { merr = c.makeMaps(o) })
	var err error
	c.plan, err = probe.Resolve(env, targets, &probe.Options{Context: o.Context})
	made.Wait()
	if err := cmp.Or(err, merr); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.load(o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	link, err := c.plan.Attach(c.coll.Programs, &probe.AttachOptions{Context: o.Context})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := errors.Join(c.replaceLink(link), c.open()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// filter checks the options and returns what the programs filter by.
func (o *Options) filter() (*filter, error) {
	switch {
	case o.NoKernel && o.NoUser:
		return nil, errors.New("neither kernel nor user stacks are asked for")
	case o.MaxStacks < 0 || int64(o.MaxStacks) > math.MaxInt32:
		return nil, fmt.Errorf("MaxStacks %d is out of range", o.MaxStacks)
	}
	for _, pid := range o.PIDs {
		if pid <= 0 {
			return nil, fmt.Errorf("process id %d is not positive", pid)
		}
	}
	f := &filter{
		noKernel: o.NoKernel, noUser: o.NoUser, idle: o.Idle,
		perThread: o.PerThread, windows: o.Windows, pids: len(o.PIDs) > 0, comm: o.Comm, value: o.Value,
	}
	if !o.IncludeSelf {
		f.self = uint32(os.Getpid())
	}
	return f, nil
}

// makeMaps creates the maps that need nothing of the kernel's types.
func (c *Collector) makeMaps(o *Options) error {
	// Kernels before 5.11 charge maps against a limit. If it can't be raised, loading
	// reports that.
	_ = kernel.RaiseMemlock()
	c.maxStacks = cmp.Or(o.MaxStacks, defaultMaxStacks)
	c.spec = &ebpf.CollectionSpec{Maps: c.filter.mapSpecs(uint32(c.maxStacks))}
	if c.filter.pids {
		c.spec.Maps[mapPIDs] = pidsSpec(len(o.PIDs))
	}
	var err error
	if c.coll, err = ebpf.NewCollection(c.spec); err != nil {
		return refusal(err)
	}
	if !c.filter.noUser {
		if c.turns, err = kernel.NewTurns(); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// load loads a program for each of the plan's, and creates the maps that are left.
func (c *Collector) load(o *Options) error {
	c.filter.lives = findLives(c.members)
	if !c.filter.noUser && c.filter.waits != Wakeups {
		if c.filter.copier = newCopier(c.members); c.filter.copier != nil {
			cpus, err := ebpf.PossibleCPU()
			if err != nil {
				return fmt.Errorf("collect: %w", err)
			}
			c.filter.copySpecs(c.spec.Maps, cpus)
		}
	}
	if err := c.programs(); err != nil {
		return err
	}
	maps := c.coll
	coll, err := ebpf.NewCollectionWithOptions(c.spec,
		ebpf.CollectionOptions{MapReplacements: maps.Maps, Cache: c.plan.Cache})
	if err != nil {
		return refusal(err)
	}
	maps.Close() // coll has them
	c.coll = coll
	if o.Hold {
		c.pids = o.PIDs
		if err := c.give(formNone); err != nil {
			return err
		}
	}
	return fillPIDs(coll, o.PIDs)
}

// programs makes those that ask the kernel's helper for stacks.
func (c *Collector) programs() error {
	c.spec.Programs = make(map[string]*ebpf.ProgramSpec)
	for i := range c.plan.Programs {
		p := c.plan.ProgramSpec(i)
		insns, err := c.filter.program(&c.plan.Programs[i], i, false)
		if err != nil {
			return err
		}
		if c.filter.copies(&c.plan.Programs[i]) {
			insns = withFuncInfo(p.Name, append(insns, c.filter.copier.Instructions()...))
		}
		p.License = license
		p.Instructions = c.ns.OwnIDs(insns, true)
		if err := c.guard(p, formHelper); err != nil {
			return err
		}
		c.spec.Programs[p.Name] = p
	}
	return nil
}

// give makes it the turn of one form of the programs, or of none.
func (c *Collector) give(form uint8) error {
	if c.turns == nil {
		return nil
	}
	if err := c.turns.Give(form); err != nil {
		return fmt.Errorf("collect: switch programs: %w", err)
	}
	c.form = form
	return nil
}

// guard has a program run when it is its form's turn.
func (c *Collector) guard(p *ebpf.ProgramSpec, form uint8) (err error) {
	if c.turns != nil {
		p.Instructions, err = c.turns.Guard(p.Instructions, form, kernel.Idle(p.Type))
	}
	return err
}

// fillPIDs writes the processes to keep.
func fillPIDs(coll *ebpf.Collection, pids []int) error {
	for _, pid := range pids {
		if err := coll.Maps[mapPIDs].Put(uint32(pid), uint32(0)); err != nil {
			return fmt.Errorf("collect: filter process %d: %w", pid, err)
		}
	}
	return nil
}

// refusal returns why a program could not be loaded. A missing privilege is the most
// frequent cause; the other details would only hide it then.
func refusal(err error) error {
	err = feature.Explain(feature.Perf, err)
	var why *feature.UnknownError
	if errors.Is(err, os.ErrPermission) && errors.As(err, &why) {
		return fmt.Errorf("collect: %s: %w", why.Hint, os.ErrPermission)
	}
	return fmt.Errorf("collect: load: %w", err)
}

// open makes typed readers of the maps.
func (c *Collector) open() error {
	segments, err := openTable[segment, uint64](c, mapSegments)
	if err != nil {
		return err
	}
	counters, err := mapx.NewPerCPU[uint32, uint64](c.coll.Maps[mapCounters])
	if err != nil {
		return err
	}
	c.ring, err = mapx.OpenRing(c.coll.Maps[mapFirst], &mapx.RingOptions{
		Lost: c.coll.Maps[mapCounters], LostSlot: counterRing,
	})
	if err != nil {
		return err
	}
	c.handles = handles{
		segments: segments, counters: counters, first: c.ring, keepStacks: c.filter.waits != 0,
	}
	if c.filter.sums() {
		c.totals, err = openTable[waitKey, summed](c, mapTotals)
	} else {
		c.counts, err = openTable[taskKey, counted](c, mapCounts)
	}
	if err == nil && c.filter.copier != nil {
		err = c.openCopied(c.maxStacks)
	}
	return err
}

// Plan returns how the targets were attached. It is nil for a replay.
func (c *Collector) Plan() *probe.Plan { return c.plan }

// Samples returns what was counted so far, in a fixed order. After Close the error matches
// os.ErrClosed.
func (c *Collector) Samples() ([]Sample, error) {
	c.window.mu.Lock()
	defer c.window.mu.Unlock()
	c.memory.Renew()
	// The counts first: every stack that they name is then among the segments.
	totals, err := c.read(false)
	if err != nil {
		return nil, c.failed("read counts", err)
	}
	var stacks segments
	if err := stacks.read(c.segments, false); err != nil {
		return nil, c.failed("read stacks", err)
	}
	c.learn()
	return samples(totals, &stacks), nil
}

// learn has processes be known as they are now: what was sampled so far is then named by what they
// mapped before it.
func (c *Collector) learn() {
	_ = c.follower.Load().Sync() // processes that are followed no longer are read again
}

// failed returns the error of an operation on the maps, which matches os.ErrClosed if they were
// closed.
func (c *Collector) failed(op string, err error) error {
	if c.closed.Load() {
		err = os.ErrClosed
	}
	return fmt.Errorf("collect: %s: %w", op, err)
}

// read reads the table of totals, or that of counts as if it were one.
func (h *handles) read(andClear bool) ([]mapx.Entry[waitKey, summed], error) {
	if h.totals != nil {
		snap, err := readTable(h.totals, andClear)
		return snap.Entries, err
	}
	snap, err := readTable(h.counts, andClear)
	out := make([]mapx.Entry[waitKey, summed], len(snap.Entries))
	for i, e := range snap.Entries {
		v := &e.Value
		out[i].Key.Task = e.Key
		out[i].Value = summed{Count: v.Count, Sum: int64(v.Count), First: v.First, Last: v.Last}
	}
	return out, err
}

// Stats returns the counts so far. After Close the error matches os.ErrClosed.
func (c *Collector) Stats() (Stats, error) {
	total, err := addUp(c.counters)
	if err != nil {
		return Stats{}, c.failed("read counters", err)
	}
	missed, err := c.missedEvents()
	if err != nil {
		return Stats{}, c.failed("missed events", err)
	}
	return Stats{
		Missed:      missed,
		Samples:     total[counterSamples],
		LostFull:    total[counterFull],
		LostNested:  total[counterNested],
		CutShort:    total[counterSegments],
		Unannounced: total[counterRing],
		LostWaits:   total[counterWaits],
		Unwoken:     total[counterUnwoken],
		Unended:     total[counterUnended],
		Gaps:        total[counterGaps],
		Unwalked:    total[counterUnwalked],
		Copied:      total[counterCopied],
		CopyFull:    total[counterCopyFull],
		CopyLimit:   total[counterCopyLimit],
	}, nil
}

// addUp reads the counters, each of which is its CPUs' sum.
func addUp(counters mapx.Table[uint32, []uint64]) (total [numCounters]uint64, err error) {
	snap, err := counters.Snapshot()
	if err != nil {
		return total, err
	}
	for _, e := range snap.Entries {
		if e.Key < numCounters {
			for _, n := range e.Value {
				total[e.Key] += n
			}
		}
	}
	return total, nil
}

// Processes returns a stream of first sightings. It has a record when a process is sampled
// for the first time, so that a reader can look at it while it lives. It has another record
// when one of its threads is first seen under another name, as after an exec. Each is
// repeated once when it is seen again after 100 ms or more: the first sighting may have
// been before an exec of the same name, or in the middle of one. After LoadWalker there is
// another record when a stack leads out of the mappings that AddProcess found, as a library's
// that was loaded since, or when the walker has none, as of a process with a number that was
// another one's; not more often than that at first, and each time after twice as
// long. ParseProcess reads a record.
func (c *Collector) Processes() mapx.Source { return c.first }

// Detach stops collecting, and frees the resources that are only needed for it. The counts
// can still be read.
func (c *Collector) Detach() error {
	if c == nil {
		return nil
	}
	err := c.replaceLink(nil)
	if c.walker != nil {
		c.walker.Close()
	}
	c.walker, c.tables, c.cfi = nil, nil, nil
	return err
}

// replaceLink detaches the attached link, and keeps its missed events and its stopped CPUs.
func (c *Collector) replaceLink(next *probe.Link) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.link
	c.link = next
	if old == nil {
		return nil
	}
	n, err := old.Missed()
	c.missed += n
	cpus, serr := old.Stopped()
	c.stopped = append(c.stopped, cpus...)
	return errors.Join(err, serr, old.Close())
}

// Stopped returns the CPUs, ascending, that were sampled and went offline meanwhile
// (probe.Link.Stopped): code that ran there afterwards is in no sample. For a replay there
// are none. After Close the error matches os.ErrClosed.
func (c *Collector) Stopped() ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, fmt.Errorf("collect: stopped CPUs: %w", os.ErrClosed)
	}
	out := slices.Clone(c.stopped)
	if c.link != nil {
		cpus, err := c.link.Stopped()
		if err != nil {
			return nil, fmt.Errorf("collect: %w", err)
		}
		out = append(out, cpus...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// missedEvents counts what all links missed.
func (c *Collector) missedEvents() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return c.missed, nil
	}
	n, err := c.link.Missed()
	return c.missed + n, err
}

// Close stops collecting and frees the maps. Readers of Processes get os.ErrClosed. Closing
// twice, or closing a nil Collector, does nothing.
func (c *Collector) Close() error {
	if c == nil {
		return nil
	}
	c.closed.Store(true)
	return errors.Join(c.Detach(), c.copied.close(), c.turns.Close(), release(c.ring, c.coll))
}

// release closes a ring and the maps, as far as there are any.
func release(ring *mapx.Ring, coll *ebpf.Collection) error {
	err := ring.Close()
	if coll != nil {
		coll.Close()
	}
	return err
}
