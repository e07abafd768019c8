package feature

import (
	"errors"
	"fmt"
	"sync"
)

// slot caches one conclusive result.
type slot struct {
	mu   sync.Mutex
	done bool
	err  error
}

// slots are the package's only state: conclusive results, which cannot change while the kernel
// runs.
var slots [count]slot

// Test finds out, by trying, whether this machine supports the feature. It returns nil if so,
// *UnsupportedError with the true cause if not, and *UnknownError if the attempt was not
// conclusive. The first two results are cached for the life of the process. Test leaves
// nothing attached. It is safe for concurrent use. An attempt takes microseconds; those that
// look up a type in the kernel's BTF (Fentry, Fexit, TPBTF, Iter, LSM) take a few
// milliseconds. On other systems than Linux, no feature is supported.
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

// Explain explains why an operation that depends on f failed with err. If Test fails too, it
// returns Test's error, with err as the error of the system. If the feature is supported, it
// returns err, because the cause is another one.
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

// OfEvent returns the feature that a machine needs to count perf events of a type (attr.type),
// or 0. hardware is set for events of the CPUs' own PMUs.
func OfEvent(typ uint32, hardware bool) Feature {
	switch {
	case typ == typeBreakpoint:
		return Watchpoint
	case hardware:
		return HardwarePMU
	}
	return invalid
}

// Counts returns why perf events of a kind (see OfEvent) never count here although the kernel
// opens them, so that their count of 0 is not taken as a result; or nil. Call it before
// opening the event, which may take the last of what the test needs. A PMU for which the
// kernel refuses to count cycles may count other events.
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
