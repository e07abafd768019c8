package pmc

// DefaultEvents are what Measure counts: cycles, instructions, branches and
// branch misses of user space as far as the machine has them, else the task
// clock, page faults and context switches.
func DefaultEvents(opts *Options) []Event {
	var out []Event
	for _, e := range []Event{Cycles(), Instructions(), Branches(), BranchMisses()} {
		e.Exclude = ExcludeKernel | ExcludeHV
		h, err := OpenEvent(e, OnThread(0), &OpenOptions{Root: rootOf(opts), Disabled: true})
		if err == nil {
			h.Close()
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		out = []Event{TaskClock(), PageFaults(), ContextSwitches()}
	}
	return out
}

// BaseName is the event for a unit: without modifiers, which testing's units
// can't hold spaces of anyway.
func BaseName(e Event) string {
	if e.Label != "" {
		return e.Label
	}
	e.Exclude, e.Precise, e.Flags = 0, 0, 0
	return e.String()
}
