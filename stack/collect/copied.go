package collect

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
	"github.com/borescope/borescope/symbol"
)

// copied are the samples whose stacks were copied, because the walker in BPF had no rules for them yet.
// The programs have counted them, too: under stacks that are cut, or were walked by frame pointers. A copy
// that was walked moves its sample to the stack that was found, so that each is counted exactly once,
// whatever becomes of the copy.
type copied struct {
	c      *Collector
	ring   *mapx.Ring
	copier *bpfwalk.Copier
	most   int // stacks of a window

	mu        sync.Mutex
	processes *symbol.Processes // guarded by mu, as what follows; nil while nobody watches
	halves    [2]moved          // by the window in which samples were counted
	stacks    int64             // ids that were given
	walked    uint64            // samples that were moved
	synced    uint64            // until when it is known what processes mapped
	walker    stack.CFIWalker
	frames    [walkerFrames]stack.Frame
	pcs       []byte // what stacks are told apart by
	modules   map[knownState]*stack.Modules
	// waiting are copies that wait for a file to be compiled; the others need not.
	waiting      [][]byte
	waitingBytes int
	full         uint64 // copies that there was no room for there
	held         int    // copies that takeAll has taken from there
	compile      chan struct{}

	begun map[uint32]walkedWait // waits by their threads, whose copies were walked
	ended map[waitID]endedWait  // waits whose copies wait
}

// moved are the samples of a window that were moved, and the stacks that they were moved to.
type moved struct {
	samples map[move]*summed
	ids     map[walkedStack]stackID
	stacks  []copiedStack
}

// move says from where to where; the waker is the same.
type move struct{ from, to, waker taskKey }

// copiedStack is a stack that was walked in Go.
type copiedStack struct {
	id stackID
	walkedStack
}

// walkedStack is what a stack that was walked in Go is told apart by.
type walkedStack struct {
	pcs string // of eight bytes each, as the programs have them; "" is no stack
	// inner is the stack that the program found: its interpreted frames are this one's, too; 0 of what
	// is no Python.
	inner stackID
}

// knownState is a state of a process that is known.
type knownState struct {
	symbol.State
	version uint64
}

const (
	// firstCopied is where the ids of such stacks begin; those that programs give are below for 2^38
	// stacks of each CPU. Each has room for the segments of two walks.
	firstCopied    = 1 << 62
	copiedSegments = 32
	// maxStates is how many states of processes have their mappings kept.
	maxStates = 64
	// maxWaiting is the room for copies that wait, in bytes; of waits twice as much.
	maxWaiting = 2 << 20
	// copyBatch is how many copies are walked before their room is given back.
	copyBatch = 8
	// fewCopies take half of the ring at most.
	fewCopies = unwalkedRing / 2 / unwalkedBytes
)

// openCopied opens the ring of copies, and has what is read from the tables contain what was moved.
func (c *Collector) openCopied(maxStacks int) (err error) {
	p := &copied{c: c, copier: c.filter.copier, most: maxStacks, modules: make(map[knownState]*stack.Modules), compile: make(chan struct{}, 1)}
	if p.ring, err = mapx.OpenRing(c.coll.Maps[mapCopying], nil); err != nil {
		return err
	}
	c.copied = p
	if c.totals != nil {
		c.totals = &copiedTable[waitKey, summed]{
			c.totals, p,
			func(k, waker taskKey) waitKey { return waitKey{k, waker} },
			func(v *summed) summed { return *v },
			func(v summed) summed { return v },
		}
	} else {
		c.counts = &copiedTable[taskKey, counted]{
			c.counts, p,
			func(k, _ taskKey) taskKey { return k },
			func(v *counted) summed { return summed{Count: v.Count, First: v.First, Last: v.Last} },
			func(v summed) counted { return counted{v.Count, v.First, v.Last} },
		}
	}
	c.segments = &copiedSegmentTable{c.segments, p}
	c.counters = &copiedCounters{c.counters, p}
	return nil
}

// begin has stacks copied, to be walked by what processes knows.
func (p *copied) begin(processes *symbol.Processes) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.processes = processes
	p.mu.Unlock()
	return p.c.setCopying(1)
}

// run walks copies as they come, or from time to time if few can come, until ctx ends.
func (p *copied) run(ctx context.Context) {
	if p == nil {
		return
	}
	paced := p.paced()
	for p.ring.Wait(ctx) == nil {
		p.mu.Lock()
		err := p.take()
		if len(p.waiting) > 0 {
			select {
			case p.compile <- struct{}{}:
			default:
			}
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
		if paced {
			pause(ctx)
		}
	}
}

// paced reports whether so few samples are taken in the time between two looks, by a clock, that the ring has
// room for copies of all of them.
func (p *copied) paced() bool {
	hz := uint64(0)
	for i := range p.c.plan.Programs {
		for _, site := range p.c.plan.Programs[i].Sites {
			t, ok := site.Target.(probe.Perf)
			if !ok || t.Freq == 0 {
				return false
			}
			hz += t.Freq * uint64(runtime.NumCPU())
		}
	}
	return hz <= fewCopies*uint64(time.Second/lookEvery)
}

// runWaiting compiles what copies wait for, until ctx ends.
func (p *copied) runWaiting(ctx context.Context) {
	for p != nil {
		select {
		case <-ctx.Done():
			return
		case <-p.compile:
		}
		for ctx.Err() == nil && p.compileOne() {
		}
	}
}

// compileOne compiles what a copy waits for, and walks all that wait for nothing else. It reports whether
// there was one.
func (p *copied) compileOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return false
	}
	// The first for which nobody compiles a file already: a large one is not waited for by all.
	one := p.waiting[0]
	from, code := p.codeOf(one)
	for _, b := range p.waiting[1:] {
		if _, busy := p.c.cfi.Compiled(code); !busy {
			break
		}
		one = b
		from, code = p.codeOf(b)
	}
	p.mu.Unlock()
	_, _ = p.c.cfi.ModulesOf(int(from.PID), code)
	p.mu.Lock()
	waiting := p.waiting
	p.waiting, p.waitingBytes = nil, 0
	for i := range waiting {
		p.add(waiting[i], &waiting[i][0] == &one[0]) // what could not be compiled is not waited for again
	}
	return len(p.waiting) > 0
}

// codeOf returns what the process of a copy that waits had mapped. The caller holds mu.
func (p *copied) codeOf(b []byte) (k taskKey, code []procfs.Mapping) {
	_, _ = binary.Decode(b, binary.NativeEndian, &k) // add has read it
	return k, p.stateOf(&k, timeOf(b)).Code()
}

// compiled reports whether walking by mappings takes no time.
func (p *copied) compiled(code []procfs.Mapping) bool {
	all, _ := p.c.cfi.Compiled(code)
	return all
}

// end walks the copies that are there, and has none made any more.
func (p *copied) end() error {
	if p == nil {
		return nil
	}
	err := p.c.setCopying(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	err = errors.Join(err, p.takeAll())
	p.processes = nil
	p.begun, p.ended = nil, nil
	clear(p.modules)
	return err
}

// take walks the copies that are there, but for those that wait. The caller holds mu.
func (p *copied) take() error {
	if p.processes == nil {
		return nil
	}
	for {
		_, drained, err := p.ring.Drain(copyBatch, func(rec *mapx.Record) error {
			p.add(rec.Data, false)
			return nil
		})
		if drained || err != nil {
			return err
		}
	}
}

// takeAll is take with those that wait. The caller holds mu, which is given back while files are compiled:
// copies come meanwhile.
func (p *copied) takeAll() error {
	err := p.take()
	waiting := p.waiting
	p.waiting, p.waitingBytes = nil, 0
	p.held += len(waiting)
	defer func() { p.held -= len(waiting) }()
	for _, b := range waiting {
		if from, code := p.codeOf(b); !p.compiled(code) {
			p.mu.Unlock()
			_, _ = p.c.cfi.ModulesOf(int(from.PID), code)
			p.mu.Lock()
			if p.processes == nil { // watching ended
				break
			}
		}
		p.add(b, true)
	}
	return err
}

// timeOf is the time of a copy.
func timeOf(b []byte) uint64 { return binary.NativeEndian.Uint64(b[unwalkedTime:]) }

// add walks a copy and moves its sample. One whose process is not known stays where it was counted, and
// one whose files are not compiled yet waits, unless it is walked now.
func (p *copied) add(b []byte, now bool) {
	o := binary.NativeEndian
	switch {
	case len(b) == endedSize:
		var e endedWait
		if _, err := binary.Decode(b, o, &e); err == nil {
			p.endWait(&e)
		}
		return
	case len(b) < unwalkedState:
		return
	}
	var from taskKey
	if _, err := binary.Decode(b[unwalkedKey:], o, &from); err != nil {
		return
	}
	at := timeOf(b)
	state := p.stateOf(&from, at)
	known := knownState{state, state.Version()}
	mods := p.modules[known]
	if mods == nil || known.version == 0 {
		code := state.Code()
		switch {
		case len(code) == 0:
			return
		case !now && !p.compiled(code):
			p.wait(b)
			return
		}
		mods, _ = p.c.cfi.ModulesOf(int(from.PID), code) // files that can't be read are walked by frame pointers
		if len(p.modules) >= maxStates {
			clear(p.modules)
		}
		p.modules[known] = mods
	}
	s := p.copier.Decode(b[unwalkedState:])
	p.walker.Modules = mods
	n, end := s.Walk(p.frames[:], &p.walker)
	switch {
	case n > 0 && executes(&s) && (end == stack.StopNoMapping || end == stack.StopNoRule || end == stack.StopBadMemory):
		n, end = 0, stack.StopNone
	case n == 0, end == stack.StopBadMemory && len(s.Memory.Data) > 0: // of another stack, as Go programs have
		return
	}
	to := from
	to.User, to.UserEnd = 0, userWalked|uint32(end)
	w := walkedStack{}
	if from.UserEnd == userWalked|uint32(stack.StopNoMapping) && p.c.Python(int(from.PID)) != nil {
		w.inner = from.User
	}
	if n > 0 {
		w.pcs = string(p.encode(p.frames[:n]))
	}
	if p.c.filter.waits != 0 {
		p.beginWait(threadOf(b), walkedWait{at, to, w})
		return
	}
	value := o.Uint64(b[unwalkedValue:])
	p.move(int(o.Uint64(b[unwalkedWindow:])&1), from, taskKey{}, to, w, summed{1, int64(value), at, at})
}

// executes reports whether a thread is in a system call that executes a program. When the memory of the
// one before is gone, and the next one has not begun, there is no user stack: registers are the former's,
// and what is at their addresses, if anything, the latter's.
func executes(s *bpfwalk.CopiedStack) bool {
	switch call := s.Call; s.Regs.Machine {
	case elf.EM_AARCH64:
		return call == 221 || call == 281 // execve, execveat
	case elf.EM_386:
		return call == 11 || call == 358
	default:
		return call == 59 || call == 322
	}
}

// wait keeps a copy until its files are compiled, if there is room: a process may have a quarter of it.
func (p *copied) wait(b []byte) {
	p.dropShort(b)
	pid := b[keyPID : keyPID+4]
	own := len(b)
	for _, w := range p.waiting {
		if string(w[keyPID:keyPID+4]) == string(pid) {
			own += len(w)
		}
	}
	most := maxWaiting
	if p.c.filter.waits != 0 {
		most *= 2 // all threads wait, few run
	}
	if own > most/4 || p.waitingBytes+len(b) > most {
		p.full++
		return
	}
	p.waitingBytes += len(b)
	p.waiting = append(p.waiting, slices.Clone(b))
}

// stateOf returns the state of a sample's process at a time; the zero State if that is not known.
func (p *copied) stateOf(k *taskKey, at uint64) symbol.State {
	if f := p.c.follower.Load(); f != nil && at >= p.synced {
		p.synced = kernel.Monotonic()
		_ = f.Sync() // processes that are followed no longer are read again
	}
	process, err := p.processes.Process(int(k.PID))
	if err != nil {
		return symbol.State{}
	}
	return process.During(k.Start/procfs.ClockTick, at, at)
}

// move moves a sample of a window to the stack that was found.
func (p *copied) move(window int, from, waker, to taskKey, w walkedStack, by summed) {
	if w.pcs != "" {
		if to.User = p.id(p.stacksOf(window), w); to.User == 0 {
			return
		}
	}
	half := &p.halves[window]
	v := half.samples[move{from, to, waker}]
	if v == nil {
		if len(half.samples) >= p.most {
			return
		}
		if half.samples == nil {
			half.samples = make(map[move]*summed)
		}
		v = &summed{First: by.First}
		half.samples[move{from, to, waker}] = v
	}
	v.Count += by.Count
	v.Sum += by.Sum
	v.First, v.Last = min(v.First, by.First), max(v.Last, by.Last)
	p.walked++
}

// stacksOf has the stacks of a window: those of waits are kept, as the programs' are.
func (p *copied) stacksOf(window int) *moved {
	if p.c.keepStacks {
		window = 0
	}
	return &p.halves[window]
}

// encode returns the addresses of a stack as the programs have them, until the next call.
func (p *copied) encode(frames []stack.Frame) []byte {
	p.pcs = p.pcs[:0]
	for i := range frames {
		p.pcs = binary.NativeEndian.AppendUint64(p.pcs, bpfwalk.EncodeFrame(&frames[i]))
	}
	return p.pcs
}

// id returns the id of a stack, 0 if there is no room for another one.
func (p *copied) id(half *moved, w walkedStack) stackID {
	if id, ok := half.ids[w]; ok {
		return id
	}
	if len(half.stacks) >= p.most {
		return 0
	}
	if half.ids == nil {
		half.ids = make(map[walkedStack]stackID)
	}
	id := stackID(firstCopied + copiedSegments*p.stacks)
	p.stacks++
	half.ids[w] = id
	half.stacks = append(half.stacks, copiedStack{id, w})
	return id
}
