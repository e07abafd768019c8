package collect

import (
	"slices"
	"testing"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/stack"
)

// deep returns n addresses from start, and the segments the program would
// have stored them in, under ids counted from id.
func deep(start uint64, n int, id uint64) (pcs []uint64, segs []mapx.Entry[segment, uint64]) {
	var parent uint64
	for n > 0 {
		var seg segment
		seg.Parent = parent
		for i := range min(n, segmentPCs) {
			seg.PCs[i] = start + uint64(len(pcs))
			pcs = append(pcs, seg.PCs[i])
			n--
		}
		segs = append(segs, mapx.Entry[segment, uint64]{Key: seg, Value: id})
		parent = id
		id++
	}
	return pcs, segs
}

func pcsOf(s stack.Stack) []uint64 {
	var pcs []uint64
	for _, f := range s.Frames {
		pcs = append(pcs, f.PC)
	}
	return pcs
}

func comm(s string) (c [16]byte) {
	copy(c[:], s)
	return c
}

func TestSamplesJoinsSegments(t *testing.T) {
	for _, n := range []int{1, 2, segmentPCs - 1, segmentPCs, segmentPCs + 1, helperFrames - 1, helperFrames} {
		pcs, segs := deep(0x1000, n, 7)
		slices.Reverse(segs) // a map's order is arbitrary
		counts := []mapx.Entry[waitKey, summed]{{
			Key:   waitKey{Task: taskKey{Kernel: -14, User: stackID(7 + len(segs) - 1), PID: 42, Comm: comm("sh")}},
			Value: summed{Count: 3, Sum: 99},
		}}
		got := joined(counts, segs)
		if len(got) != 1 || got[0].PID != 42 || got[0].Comm != "sh" || got[0].Count != 3 || got[0].Value != 99 || got[0].Waker != nil {
			t.Fatalf("%d frames: got %+v", n, got)
		}
		if g := pcsOf(got[0].User); !slices.Equal(g, pcs) {
			t.Errorf("%d frames: user stack %x, want %x", n, g, pcs)
		}
		if f := got[0].User.Frames; f[0].Return || n > 1 && !f[1].Return {
			t.Errorf("%d frames: the leaf is no return address, all others are: %+v", n, f[:min(n, 2)])
		}
		want := stack.StopUnknown
		if n == helperFrames {
			want = stack.StopLimit
		}
		if got[0].User.Stopped != want || got[0].Kernel.Stopped != stack.StopFault {
			t.Errorf("%d frames: ends %v and %v, want %v and %v",
				n, got[0].User.Stopped, got[0].Kernel.Stopped, want, stack.StopFault)
		}
	}
}

// A recording may be damaged: segments missing, or linked in a circle.
func TestSamplesOfBrokenSegments(t *testing.T) {
	loop := []mapx.Entry[segment, uint64]{
		{Key: segment{Parent: 2, PCs: [segmentPCs]uint64{1}}, Value: 1},
		{Key: segment{Parent: 1, PCs: [segmentPCs]uint64{2}}, Value: 2},
	}
	for name, segs := range map[string][]mapx.Entry[segment, uint64]{"missing": nil, "circle": loop} {
		counts := []mapx.Entry[waitKey, summed]{{Key: waitKey{Task: taskKey{User: 1}}}}
		got := joined(counts, segs)
		if len(got) != 1 || got[0].User.Stopped != stack.StopBadMemory || len(got[0].User.Frames) != 0 {
			t.Errorf("%s: got %+v, want no frames and StopBadMemory", name, got)
		}
	}
}

func TestSamplesOrder(t *testing.T) {
	_, segs := deep(0x10, 1, 1)
	_, more := deep(0x20, 1, 2)
	segs = append(segs, more...)
	var counts []mapx.Entry[waitKey, summed]
	for _, k := range []taskKey{
		{PID: 9, Comm: comm("b"), User: 2},
		{PID: 9, Comm: comm("b"), User: 1},
		{PID: 9, Comm: comm("a"), User: 2},
		{PID: 3, Comm: comm("z"), User: 2},
	} {
		counts = append(counts, mapx.Entry[waitKey, summed]{Key: waitKey{Task: k}})
	}
	want := joined(counts, segs)
	slices.Reverse(counts)
	got := joined(counts, segs)
	if !slices.EqualFunc(got, want, func(a, b Sample) bool { return compare(a, b) == 0 }) {
		t.Errorf("order depends on the map's: %+v and %+v", got, want)
	}
	if got[0].PID != 3 || got[1].Comm != "a" || got[2].User.Frames[0].PC != 0x10 {
		t.Errorf("not in order: %+v", got)
	}
}

func joined(totals []mapx.Entry[waitKey, summed], segs []mapx.Entry[segment, uint64]) []Sample {
	var g segments
	for i := range segs {
		g.add(&segs[i].Key, segs[i].Value)
	}
	return samples(totals, &g)
}
