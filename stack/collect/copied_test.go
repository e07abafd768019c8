package collect

import (
	"testing"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/stack"
)

// fixed is a table that does not change.
type fixed[K, V any] []mapx.Entry[K, V]

func (t fixed[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	return mapx.Snapshot[K, V]{Entries: append([]mapx.Entry[K, V](nil), t...)}, nil
}

func (t fixed[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) { return t.Snapshot() }

// TestMoved: samples that were walked in Go are counted under the stacks found, and no more under those
// that the program found. The interpreted frames of these stay; a stack of several segments is one.
func TestMoved(t *testing.T) {
	cut := taskKey{PID: 7, User: 5, UserEnd: userWalked | uint32(stack.StopNoMapping)}
	known := taskKey{PID: 7, User: 6, UserEnd: userWalked | uint32(stack.StopBottom)}
	gone := cut
	gone.PID = 8
	const interpreted = 3<<62 | 0x77
	p := &copied{c: new(Collector), most: 10}
	half := &p.halves[0]
	var frames []stack.Frame
	for i := range 70 {
		frames = append(frames, stack.Frame{PC: 0x1000 + uint64(i), Return: i > 0, Source: stack.SourceCFI})
	}
	to := cut
	to.UserEnd = userWalked | uint32(stack.StopBottom)
	pcs := string(p.encode(frames))
	to.User = p.id(half, walkedStack{pcs, cut.User})
	if again := p.id(half, walkedStack{pcs, cut.User}); again != to.User || p.id(half, walkedStack{pcs, 0}) == again {
		t.Errorf("one stack has the ids %d and %d", to.User, again)
	}
	half.samples = map[move]*summed{
		{from: cut, to: to}:  {Count: 2, Sum: 2, First: 20, Last: 30},
		{from: gone, to: to}: {Count: 1, Sum: 1, First: 1, Last: 99}, // was not counted
	}
	c := &Collector{}
	c.counts = &copiedTable[taskKey, counted]{
		fixed[taskKey, counted]{{Key: cut, Value: counted{2, 20, 30}}, {Key: known, Value: counted{3, 10, 40}}},
		p,
		func(k, _ taskKey) taskKey { return k },
		func(v *counted) summed { return summed{Count: v.Count, First: v.First, Last: v.Last} },
		func(v summed) counted { return counted{v.Count, v.First, v.Last} },
	}
	c.segments = &copiedSegmentTable{fixed[segment, uint64]{
		{Key: segment{PCs: [segmentPCs]uint64{0x1000, interpreted}}, Value: 5},
		{Key: segment{PCs: [segmentPCs]uint64{0x2000}}, Value: 6},
	}, p}
	samples, err := c.Samples()
	if err != nil || len(samples) != 2 {
		t.Fatalf("%+v, %v", samples, err)
	}
	moved, other := samples[0], samples[1]
	if other.Count != 3 || len(other.User.Frames) != 1 {
		t.Errorf("the other sample: %+v", other)
	}
	if moved.Count != 2 || moved.First != 20 || moved.Last != 30 || moved.User.Stopped != stack.StopBottom || len(moved.User.Frames) != 71 {
		t.Fatalf("the sample that was moved: %+v", moved)
	}
	for i, f := range moved.User.Frames[:70] {
		if f.PC != frames[i].PC || f.Return != frames[i].Return {
			t.Fatalf("frame %d: %+v, want %+v", i, f, frames[i])
		}
	}
	if last := moved.User.Frames[70]; last.Source != stack.SourceInterpreter || last.PC != 0x77 {
		t.Errorf("the interpreted frame: %+v", last)
	}
}

// TestMovedWaits: a wait is moved when both its copy was walked and it has ended, in either order, once, and
// under its waker; threads that never come back take no more room than there is.
func TestMovedWaits(t *testing.T) {
	c := &Collector{handles: handles{keepStacks: true}}
	p := &copied{c: c, most: 4}
	from := taskKey{PID: 7, User: 5, UserEnd: userWalked | uint32(stack.StopNoMapping)}
	to := taskKey{PID: 7, UserEnd: userWalked | uint32(stack.StopBottom)}
	waker := taskKey{PID: 9}
	found := walkedStack{pcs: "01234567"}
	end := func(thread uint32, start uint64) {
		p.endWait(&endedWait{Key: waitKey{from, waker}, Start: start, Last: start + 5, Value: 5, Thread: thread, Window: 1})
	}
	begin := func(thread uint32, start uint64) { p.beginWait(thread, walkedWait{start, to, found}) }

	begin(1, 10)
	end(1, 10)
	end(1, 10) // not twice
	p.held = 1
	end(1, 20) // its copy waits
	begin(1, 30)
	begin(1, 20) // and was walked after the next one
	end(1, 30)
	begin(2, 40)
	end(2, 41) // another wait's
	if len(p.halves[1].samples) != 1 || p.walked != 3 {
		t.Fatalf("%d waits were moved: %+v", p.walked, p.halves[1].samples)
	}
	for m, v := range p.halves[1].samples {
		if m.from != from || m.waker != waker || m.to.User == 0 || m.to.UserEnd != to.UserEnd {
			t.Errorf("moved as %+v", m)
		}
		if *v != (summed{Count: 3, Sum: 15, First: 10, Last: 35}) {
			t.Errorf("moved %+v", *v)
		}
	}
	if len(p.halves[0].stacks) != 1 {
		t.Errorf("%d stacks are kept, want that of all windows", len(p.halves[0].stacks))
	}
	for i := range uint32(maxBegun + 10) {
		begin(10_000+i, 50)
		end(100_000+i, 50)
	}
	if len(p.begun) != maxBegun || len(p.ended) != maxBegun || p.full == 0 {
		t.Errorf("%d and %d waits are kept, %d had no room; want %d", len(p.begun), len(p.ended), p.full, maxBegun)
	}
}
