package pmc

import "errors"

// Hardware reports whether hardware cycles can be counted here, by opening the
// event for this thread in user space, which the strictest upstream
// perf_event_paranoid permits: nil if so; an *UnsupportedError if the machine
// has no PMU, which is conclusive unless it matches fs.ErrPermission; another
// error if it could not be found out.
func Hardware(opts *Options) error {
	e := Cycles()
	e.Exclude = Exclude{Kernel: true, HV: true}
	h, err := openEvent(e, onThread(0), &openOptions{root: rootOf(opts), disabled: true})
	if err != nil {
		return err
	}
	return h.close()
}

// samplingClock is the best event to sample where the CPUs are busy: hardware
// cycles where they can interrupt, else cpu-clock; why is nil for cycles, and
// says for cpu-clock why it is not cycles. The answer holds for the machine, so
// a caller asks once.
func samplingClock(opts *Options) (e Event, why error) {
	e = Cycles()
	e.Exclude = Exclude{Kernel: true, HV: true}
	h, err := openEvent(e, onThread(0), &openOptions{
		root: rootOf(opts), disabled: true, sampling: &SamplingSpec{Freq: 99},
	})
	if err != nil {
		return CPUClock(), err
	}
	return Cycles(), errors.Join(h.close())
}
