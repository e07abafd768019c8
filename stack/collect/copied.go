package collect

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
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

// waitID tells waits apart.
type waitID struct {
	thread uint32
	start  uint64
}

// walkedWait is a wait that began: its copy was walked. Most of them end; those of threads that were never
// seen to come back are dropped for others.
type walkedWait struct {
	start uint64
	to    taskKey // without the stack
	walkedStack
}

// endedWait is the record of a wait that ended.
type endedWait struct {
	Key                waitKey
	Start, Last, Value uint64
	Thread, Window     uint32
}

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
	// maxWaiting is the room for copies that wait, in bytes.
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

// run walks copies as they come, until ctx ends.
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
	case n == 0, end == stack.StopBadMemory && len(s.Memory.Data) > 0: // of another stack, as Go programs have
		return
	case n == 1 && end == stack.StopNoMapping && len(s.Memory.Data) == 0 && executes(&s):
		n, end = 0, stack.StopNone
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
// one before is gone, and the next one has not begun, there is no user stack.
func executes(s *bpfwalk.CopiedStack) bool {
	switch call := s.Call; s.Regs.Machine {
	case elf.EM_AARCH64:
		return call == 221 || call == 281 // execve, execveat
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
	if own > maxWaiting/4 || p.waitingBytes+len(b) > maxWaiting {
		p.full++
		return
	}
	p.waitingBytes += len(b)
	p.waiting = append(p.waiting, slices.Clone(b))
}

// dropShort drops the copy of an earlier wait of a thread that waits anew: that was not counted, or its end
// would have come. Most waits are shorter than those that are counted.
func (p *copied) dropShort(b []byte) {
	if p.c.filter.waits == 0 {
		return
	}
	thread := threadOf(b)
	p.waiting = slices.DeleteFunc(p.waiting, func(w []byte) bool {
		if threadOf(w) != thread {
			return false
		}
		_, counted := p.ended[waitID{thread, timeOf(w)}]
		if !counted {
			p.waitingBytes -= len(w)
		}
		return !counted
	})
}

// threadOf is the thread of the copy of a wait.
func threadOf(b []byte) uint32 { return uint32(binary.NativeEndian.Uint64(b[unwalkedValue:])) }

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
	return process.During(k.Start/clockTick, at, at)
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

// beginWait is told of a wait whose copy was walked. It may have ended already.
func (p *copied) beginWait(thread uint32, w walkedWait) {
	if e, ok := p.ended[waitID{thread, w.start}]; ok {
		delete(p.ended, waitID{thread, w.start})
		p.moveWait(&e, w)
		return
	}
	if old, ok := p.begun[thread]; ok && old.start > w.start {
		return // its end was not seen
	} else if !ok && len(p.begun) >= p.most {
		for other := range p.begun { // any: most likely its thread has ended
			delete(p.begun, other)
			break
		}
	}
	if p.begun == nil {
		p.begun = make(map[uint32]walkedWait)
	}
	p.begun[thread] = w
}

// endWait is told of a wait that ended. Its copy may wait for a file to be compiled.
func (p *copied) endWait(e *endedWait) {
	w, ok := p.begun[e.Thread]
	switch {
	case ok && w.start == e.Start:
		delete(p.begun, e.Thread)
		p.moveWait(e, w)
	case len(p.waiting)+p.held == 0:
		clear(p.ended)
	case len(p.ended) >= p.most:
		p.full++
	default:
		if p.ended == nil {
			p.ended = make(map[waitID]endedWait)
		}
		p.ended[waitID{e.Thread, e.Start}] = *e
	}
}

// moveWait moves a wait that ended to the stack that was found when it began.
func (p *copied) moveWait(e *endedWait, w walkedWait) {
	p.move(int(e.Window&1), e.Key.Task, e.Key.Waker, w.to, w.walkedStack, summed{1, int64(e.Value), e.Start, e.Last})
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

// copiedTable is a table of counts from which samples were moved. A window's are read once all of its
// copies have been walked: the programs count first.
type copiedTable[K comparable, V any] struct {
	mapx.Table[K, V]
	p    *copied
	key  func(task, waker taskKey) K
	sum  func(*V) summed
	each func(summed) V
}

// Snapshot implements mapx.Table. Copies that wait for a file to be compiled go on waiting: a later one has
// their samples where they belong.
func (t *copiedTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	_ = t.p.take()
	half := &t.p.halves[t.p.c.window.active]
	s, err := t.Table.Snapshot()
	t.apply(&s, half)
	return s, err
}

// ReadAndClear implements mapx.Table.
func (t *copiedTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	_ = t.p.takeAll()
	half := &t.p.halves[1-t.p.c.window.active]
	s, err := t.Table.ReadAndClear()
	if err == nil {
		t.apply(&s, half)
		half.samples = nil
	}
	return s, err
}

// apply moves samples to the stacks that were found.
func (t *copiedTable[K, V]) apply(s *mapx.Snapshot[K, V], half *moved) {
	if len(half.samples) == 0 {
		return
	}
	at := make(map[K]int, len(half.samples))
	for m := range half.samples {
		at[t.key(m.from, m.waker)] = -1
	}
	for i := range s.Entries {
		if _, ok := at[s.Entries[i].Key]; ok {
			at[s.Entries[i].Key] = i
		}
	}
	added := make(map[K]summed, len(half.samples))
	for m, n := range half.samples {
		i := at[t.key(m.from, m.waker)]
		if i < 0 {
			continue // it was not counted
		}
		v := t.sum(&s.Entries[i].Value)
		v.Count -= n.Count
		v.Sum -= n.Sum
		s.Entries[i].Value = t.each(v)
		k := t.key(m.to, m.waker)
		to, ok := added[k]
		if !ok {
			to = summed{First: n.First}
		}
		added[k] = summed{to.Count + n.Count, to.Sum + n.Sum, min(to.First, n.First), max(to.Last, n.Last)}
	}
	s.Entries = slices.DeleteFunc(s.Entries, func(e mapx.Entry[K, V]) bool { return t.sum(&e.Value).Count == 0 })
	for k, v := range added {
		s.Entries = append(s.Entries, mapx.Entry[K, V]{Key: k, Value: t.each(v)})
	}
}

// copiedSegmentTable is the table of segments with those of the stacks that samples were moved to.
type copiedSegmentTable struct {
	mapx.Table[segment, uint64]
	p *copied
}

// Snapshot implements mapx.Table.
func (t *copiedSegmentTable) Snapshot() (mapx.Snapshot[segment, uint64], error) {
	s, err := t.Table.Snapshot()
	return t.with(s, t.p.c.window.active), err
}

// ReadAndClear implements mapx.Table.
func (t *copiedSegmentTable) ReadAndClear() (mapx.Snapshot[segment, uint64], error) {
	s, err := t.Table.ReadAndClear()
	if err != nil {
		return s, err
	}
	half := 1 - t.p.c.window.active
	s = t.with(s, half)
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.p.halves[half].ids, t.p.halves[half].stacks = nil, nil
	return s, nil
}

// with returns the segments that the programs made with those of a window's stacks.
func (t *copiedSegmentTable) with(s mapx.Snapshot[segment, uint64], half int) mapx.Snapshot[segment, uint64] {
	own := s.Entries
	var found segments
	t.each(half, func(id stackID) []uint64 {
		if found.byID == nil {
			for i := range own {
				found.add(&own[i].Key, own[i].Value)
			}
		}
		pcs, _ := found.addresses(id)
		return pcs
	}, func(g *segment, id uint64) {
		s.Entries = append(s.Entries, mapx.Entry[segment, uint64]{Key: *g, Value: id})
	})
	return s
}

// each calls add with the segments of a window's stacks. found returns the addresses of a stack that the
// program found.
func (t *copiedSegmentTable) each(half int, found func(stackID) []uint64, add func(g *segment, id uint64)) {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	for _, c := range t.p.stacksOf(half).stacks {
		var pcs []uint64
		for b := []byte(c.pcs); len(b) > 0; b = b[8:] {
			pcs = append(pcs, binary.NativeEndian.Uint64(b))
		}
		if c.inner != 0 {
			for _, v := range found(c.inner) {
				if bpfwalk.DecodeFrame(v, false).Source == stack.SourceInterpreter {
					pcs = append(pcs, v)
				}
			}
		}
		n := (len(pcs) + segmentPCs - 1) / segmentPCs
		for i := range n { // the outermost has the stack's id
			g, id := segment{}, uint64(c.id)+uint64(n-1-i)
			if i > 0 {
				g.Parent = id + 1
			}
			copy(g.PCs[:], pcs[i*segmentPCs:])
			add(&g, id)
		}
	}
}

// copiedCounters is the table of counters with the number of samples that were moved.
type copiedCounters struct {
	mapx.Table[uint32, []uint64]
	p *copied
}

// Snapshot implements mapx.Table.
func (t *copiedCounters) Snapshot() (mapx.Snapshot[uint32, []uint64], error) {
	s, err := t.Table.Snapshot()
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	for i := range s.Entries {
		switch e := &s.Entries[i]; {
		case len(e.Value) == 0:
		case e.Key == counterCopied:
			e.Value[0] = t.p.walked
		case e.Key == counterCopyFull:
			e.Value[0] += t.p.full
		}
	}
	return s, err
}

// setCopying says whether someone walks copies.
func (c *Collector) setCopying(on uint32) error {
	c.window.mu.Lock()
	defer c.window.mu.Unlock()
	c.copy = on
	if err := c.switchTo(c.mode, c.window.active); err != nil {
		return fmt.Errorf("collect: switch copying: %w", err)
	}
	return nil
}

// close frees the ring.
func (p *copied) close() error {
	if p == nil {
		return nil
	}
	return p.ring.Close()
}
