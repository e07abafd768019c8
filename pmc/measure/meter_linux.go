package measure

import (
	"runtime"

	"github.com/borescope/borescope/pmc"
)

// Measure runs f once, on one thread, and counts what that thread did: the
// goroutine is locked to it (runtime.LockOSThread), so goroutines that f starts
// are not counted. Nil events are DefaultEvents.
//
// A difference of a few hundred instructions is the cost of reading the
// counters; Measurement.Empty is what an empty function costs, measured the
// same way. The garbage collector may run on this thread too: Measurement.GC
// says how many of its cycles ended meanwhile.
func Measure(f func(), events ...pmc.Event) (Measurement, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if len(events) == 0 {
		events = nil
	}
	m, err := pmc.OpenMeter(events, nil)
	if err != nil {
		return Measurement{}, err
	}
	defer m.Close()
	var out Measurement
	if out.Empty, _, err = measure(m, func() {}); err != nil {
		return Measurement{}, err
	}
	out.Counts, out.GC, err = measure(m, f)
	return out, err
}

func measure(m *pmc.Meter, f func()) (c pmc.Counts, gc uint64, err error) {
	var before, after pmc.Counts
	before.Rows = make([]pmc.Row, 0, len(m.Pages))
	after.Rows = make([]pmc.Row, 0, len(m.Pages))
	gc = gcCycles()
	if err := m.Read(&before); err != nil {
		return pmc.Counts{}, 0, err
	}
	f()
	if err := m.Read(&after); err != nil {
		return pmc.Counts{}, 0, err
	}
	return after.Sub(before), gcCycles() - gc, nil
}
