package tool

import (
	"testing"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
)

// Samples that differ only in how their stacks ended are two: each has its own count since
// the previous reading.
func TestSamplesSince(t *testing.T) {
	frames := []stack.Frame{{PC: 0x1000}, {PC: 0x2000, Return: true}}
	sample := func(end stack.StopReason, count uint64) collect.Sample {
		return collect.Sample{PID: 7, User: stack.Stack{Frames: frames, Stopped: end}, Count: count, Value: int64(count)}
	}
	st := new(Stacks)
	st.since([]collect.Sample{sample(stack.StopUnknown, 193), sample(stack.StopBottom, 17)})
	got := st.since([]collect.Sample{sample(stack.StopUnknown, 193), sample(stack.StopBottom, 27)})
	if len(got) != 1 || got[0].Count != 10 || got[0].Value != 10 || got[0].User.Stopped != stack.StopBottom {
		t.Errorf("%+v, want 10 more that end at the bottom", got)
	}
}
