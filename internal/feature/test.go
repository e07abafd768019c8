package feature

import (
	"errors"
	"fmt"
	"sync"
)

// slot remembers one conclusive answer.
type slot struct {
	mu   sync.Mutex
	done bool
	err  error
}

// slots are the package's only state: conclusive results, which can't change
// while the kernel runs.
var slots [count]slot

// Test finds out, by trying, whether this machine has the feature, and returns
// nil if so, *UnsupportedError with the true cause if not, and *UnknownError
// if it could not tell. The first two are remembered for the life of the
// process. It leaves nothing attached. Safe for concurrent use; an attempt
// costs microseconds, those that look a type up in the kernel's BTF (Fentry,
// Fexit, TPBTF, Iter, LSM) a few milliseconds. Off Linux, everything is
// unsupported.
func Test(f Feature) error {
	if !f.valid() {
		return fmt.Errorf("%s: no such feature", f)
	}
	s := &slots[f]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.err
	}
	err := test(f)
	var dunno *UnknownError
	if errors.As(err, &dunno) {
		return err
	}
	s.done, s.err = true, err
	return err
}

// Explain says why something that depends on f failed with err: it returns
// what Test says where Test fails too, with err as the system's own answer,
// and err itself where the feature is there, so that the cause is elsewhere.
func Explain(f Feature, err error) error {
	if err == nil {
		return nil
	}
	var no *UnsupportedError
	var dunno *UnknownError
	switch why := Test(f); {
	case errors.As(why, &no):
		c := *no
		c.Err = err
		return &c
	case errors.As(why, &dunno):
		c := *dunno
		c.Err = err
		return &c
	}
	return err
}

// typeBreakpoint is PERF_TYPE_BREAKPOINT (include/uapi/linux/perf_event.h).
const typeBreakpoint = 5

// OfEvent is what a machine must have to count perf events of a type (attr.type), or
// 0; hardware is set for those of the CPUs' own PMUs.
func OfEvent(typ uint32, hardware bool) Feature {
	switch {
	case typ == typeBreakpoint:
		return Watchpoint
	case hardware:
		return HardwarePMU
	}
	return invalid
}

// Counts says why perf events of a kind (OfEvent) never count here although the
// kernel opens them, or nil, so that no count of 0 is taken for one. Ask before
// opening the event, which may take the last of what it needs. A PMU whose cycles the
// kernel refuses may count other events.
func Counts(typ uint32, hardware bool) error {
	f := OfEvent(typ, hardware)
	if f == invalid {
		return nil
	}
	err := Test(f)
	if f == HardwarePMU {
		var no *UnsupportedError
		if !errors.As(err, &no) || no.Err != nil {
			return nil
		}
	}
	return err
}
