package collect

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// Sample is one combination of process, kernel stack and user stack, with its number of
// samples. It is plain data.
type Sample struct {
	// PID is the process, TID the thread (0 unless Options.PerThread), as numbered in this
	// process's pid namespace: the numbers that /proc shows in a container. Tasks outside
	// of it have their numbers of the initial namespace with bit 31 set, which no task's
	// own number has.
	PID, TID int
	// Comm is the thread's name.
	Comm string
	// Program is the index of the plan's program that took the sample.
	Program int
	// Kernel and User are the stacks, innermost frame first. A kernel stack ends at the
	// bottom or at the frame limit. If the kernel walked a user stack by frame pointers, it
	// is unknown whether it reached the thread's start: its Stopped is StopUnknown, StopLimit,
	// or StopFault where there is none to walk. After LoadWalker Stopped is the walker's.
	Kernel, User stack.Stack
	// Start is when the process started, in clock ticks after boot (symbol.Process.StartTime), which
	// tells it from another one with its number; 0 if that is not known.
	Start uint64
	// First and Last are the times of the first and the last of the samples, in nanoseconds of
	// CLOCK_MONOTONIC: of waits that of when the first one began; 0 in recordings of earlier versions.
	// What the process mapped meanwhile is known (symbol.Process.During). If it executed a program
	// between two samples, or is known to have mapped one file in the place of another, the two are
	// never of one Sample.
	First, Last uint64
	// Count is the number of samples: of events, or of waits.
	Count uint64
	// Value is the sum of the field that Options.Value names, the nanoseconds of waits, or
	// else Count. While collecting goes on, Count may be one ahead of it for each CPU.
	Value int64
	// Waker is the task that ended the waits; nil if that was not asked for, was not seen,
	// or does not exist (a preempted thread runs again without a waker).
	Waker *Waker
}

// Waker is the task that woke a thread: the one that ran on the CPU, possibly interrupted
// by the interrupt that did it ("swapper/0" where the CPU was idle).
type Waker struct {
	// PID is the process, TID the thread (0 unless Options.PerThread); both 0 for
	// an idle CPU.
	PID, TID int
	// Comm is the thread's name.
	Comm string
	// Start is as a Sample's.
	Start uint64
	// Kernel and User are the stacks, as a Sample's.
	Kernel, User stack.Stack
}

// segments are the stacks' segments by their ids. They are many, and most are short:
// their addresses lie behind each other, without the zeros.
type segments struct {
	byID map[uint64]pcSegment
	free []uint64 // room for addresses
}

// pcSegment is a segment with its addresses, innermost first.
type pcSegment struct {
	parent uint64
	pcs    []uint64
}

func (g *segments) add(s *segment, id uint64) {
	if g.byID == nil {
		g.byID = make(map[uint64]pcSegment)
	}
	pcs := s.PCs[:]
	if i := slices.Index(pcs, 0); i >= 0 {
		pcs = pcs[:i]
	}
	if len(g.free) < len(pcs) {
		g.free = make([]uint64, 1<<13)
	}
	n := copy(g.free, pcs)
	g.byID[id] = pcSegment{s.Parent, g.free[:n:n]}
	g.free = g.free[n:]
}

// read adds all segments of a table, which it may empty.
func (g *segments) read(t mapx.Table[segment, uint64], andClear bool) error {
	if with, ok := t.(*copiedSegmentTable); ok && !andClear {
		err := g.read(with.Table, false)
		with.each(with.p.c.window.active, func(id stackID) []uint64 {
			pcs, _ := g.addresses(id)
			return pcs
		}, g.add)
		return err
	}
	if w, ok := t.(*windowTable[segment, uint64]); ok && !andClear {
		t = w.active()
	}
	if live, ok := t.(*mapx.Map[segment, uint64]); ok && !andClear { // a snapshot of it has half a kilobyte each
		all, done := live.All()
		for s, id := range all {
			g.add(&s, id)
		}
		return done()
	}
	snap, err := readTable(t, andClear)
	for i := range snap.Entries {
		g.add(&snap.Entries[i].Key, snap.Entries[i].Value)
	}
	return err
}

// samples joins the two tables. Samples come in a fixed order: by process,
// thread, command, program and stacks, then by waker.
func samples(totals []mapx.Entry[waitKey, summed], stacks *segments) []Sample {
	out := make([]Sample, 0, len(totals))
	for i := range totals {
		k, w, v := &totals[i].Key.Task, &totals[i].Key.Waker, &totals[i].Value
		s := Sample{
			PID:     int(k.PID),
			TID:     int(k.TID),
			Comm:    commString(k.Comm[:]),
			Program: int(k.Program),
			Kernel:  helperStack(stacks, k.Kernel, stack.StopBottom),
			User:    userStack(stacks, k),
			Start:   k.Start / procfs.ClockTick,
			First:   min(v.First, v.Last),
			Last:    max(v.First, v.Last),
			Count:   v.Count,
			Value:   v.Sum,
		}
		if *w != (taskKey{}) {
			s.Waker = &Waker{
				PID:    int(w.PID),
				TID:    int(w.TID),
				Comm:   commString(w.Comm[:]),
				Start:  w.Start / procfs.ClockTick,
				Kernel: helperStack(stacks, w.Kernel, stack.StopBottom),
				User:   userStack(stacks, w),
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, compare)
	return out
}

// commString cuts a NUL-padded name.
func commString(b []byte) string { return string(cut(b)) }

func cut(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b
}

// helperStack is a stack that the kernel walked. whole is the reason given for
// one that ends before the frame limit.
func helperStack(stacks *segments, id stackID, whole stack.StopReason) stack.Stack {
	pcs, end := stacks.addresses(id)
	if end != stack.StopUnknown {
		return stack.Stack{Stopped: end}
	}
	s := stack.Stack{Frames: make([]stack.Frame, 0, len(pcs)), Stopped: whole}
	for i, pc := range pcs {
		s.Frames = append(s.Frames, stack.Frame{PC: pc, Return: i > 0, Source: stack.SourceKernel})
	}
	if len(pcs) == helperFrames {
		s.Stopped = stack.StopLimit
	}
	return s
}

// userStack returns the user stack of a key, of the walker or of the helper.
func userStack(stacks *segments, k *taskKey) stack.Stack {
	if k.UserEnd == 0 {
		return helperStack(stacks, k.User, stack.StopUnknown)
	}
	pcs, end := stacks.addresses(k.User)
	if end != stack.StopUnknown {
		return stack.Stack{Stopped: end}
	}
	s := stack.Stack{
		Frames:  make([]stack.Frame, 0, len(pcs)),
		Stopped: stack.StopReason(k.UserEnd &^ userWalked),
	}
	for i, v := range pcs {
		s.Frames = append(s.Frames, bpfwalk.DecodeFrame(v, i == 0))
	}
	return s
}

// addresses puts a stack together from its segments, innermost first. If there
// is none, it says why.
func (g *segments) addresses(id stackID) (pcs []uint64, none stack.StopReason) {
	switch {
	case id < 0:
		return nil, stack.StopFault
	case id == 0:
		return nil, stack.StopNone
	}
	// Segments are linked from the outside in, and a corrupt recording may
	// link them in a circle.
	var chain [walkerFrames / segmentPCs]pcSegment
	n, total := 0, 0
	for next := uint64(id); next != 0; n++ {
		seg, ok := g.byID[next]
		if !ok || n == len(chain) {
			return nil, stack.StopBadMemory
		}
		chain[n] = seg
		total += len(seg.pcs)
		next = seg.parent
	}
	pcs = make([]uint64, 0, total)
	for i := n - 1; i >= 0; i-- {
		pcs = append(pcs, chain[i].pcs...)
	}
	return pcs, stack.StopUnknown
}

func compare(a, b Sample) int {
	return cmp.Or(
		cmp.Compare(a.PID, b.PID),
		cmp.Compare(a.TID, b.TID),
		cmp.Compare(a.Comm, b.Comm),
		cmp.Compare(a.Program, b.Program),
		slices.CompareFunc(a.User.Frames, b.User.Frames, comparePC),
		slices.CompareFunc(a.Kernel.Frames, b.Kernel.Frames, comparePC),
		compareWakers(a.Waker, b.Waker),
		cmp.Compare(a.First, b.First),
	)
}

// compareWakers sorts a sample without a waker first.
func compareWakers(a, b *Waker) int {
	var none Waker
	a, b = cmp.Or(a, &none), cmp.Or(b, &none)
	return cmp.Or(
		cmp.Compare(a.PID, b.PID),
		cmp.Compare(a.TID, b.TID),
		cmp.Compare(a.Comm, b.Comm),
		slices.CompareFunc(a.User.Frames, b.User.Frames, comparePC),
		slices.CompareFunc(a.Kernel.Frames, b.Kernel.Frames, comparePC),
	)
}

func comparePC(a, b stack.Frame) int { return cmp.Compare(a.PC, b.PC) }
