package pmc

import "errors"

// Hardware returns nil if hardware cycles can be counted here. It opens the event for this
// thread in user space, which the strictest upstream perf_event_paranoid permits. It returns
// an *UnsupportedError if the machine has no PMU; that is conclusive unless the error matches
// fs.ErrPermission. It returns another error if it could not find out.
func Hardware(opts *Options) error {
	e := Cycles()
	e.Exclude = Exclude{Kernel: true, HV: true}
	h, err := openEvent(e, onThread(0), &openOptions{root: rootOf(opts), disabled: true})
	if err != nil {
		return err
	}
	return h.close()
}

// samplingClock returns the best event to sample busy CPUs by: hardware cycles if they can
// interrupt, else cpu-clock. why is nil for cycles, and for cpu-clock the reason why it is not
// cycles. The result holds for the machine, so callers need it once.
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
