package pmc

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Counts are counts up to one moment. They are plain data, without descriptors, and can be
// kept, subtracted, printed and stored.
type Counts struct {
	// Time is the wall-clock time since the counters were opened or, in a difference, the
	// time between the two readings.
	Time time.Duration
	// Events are the counted events, in the order in which they were given.
	Events []Event
	// Errors are the reasons why events could not be opened, by event, if
	// CountOptions.AllowMissing permitted that; "" for the others. Nil if all events were
	// opened.
	Errors []string
	// Rows are the individual counts: one for each event and thread or CPU.
	Rows []Row
}

// Row is one event's count on one thread or CPU.
type Row struct {
	// Event is an index into Counts.Events, Group the number of the group it was read with.
	Event int
	Group int
	// TID is the thread, 0 for the one that opened the event, -1 for all tasks. CPU is the
	// CPU, -1 for any.
	TID int
	CPU int
	// Raw is the count itself, over the time Running. Running is less than Enabled, the
	// time for which the event should have counted, if the event shared the counters.
	Raw     uint64
	Enabled time.Duration
	Running time.Duration
	// Lost is the number of samples that this event lost (0 before Linux 6.0).
	Lost uint64
}

// Scaled returns the count extrapolated to the time enabled: Raw × Enabled ÷ Running,
// rounded down; Raw if it never ran. It saturates at 2^64-1.
func (r Row) Scaled() uint64 {
	if r.Running >= r.Enabled || r.Running <= 0 {
		return r.Raw
	}
	hi, lo := bits.Mul64(r.Raw, uint64(r.Enabled))
	if hi >= uint64(r.Running) {
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi, lo, uint64(r.Running))
	return q
}

// Confidence is the reliability of a Value.
type Confidence uint8

// The levels.
const (
	// NotSupported: the event could not be opened; Value.Error is the reason.
	NotSupported Confidence = iota
	// NotCounted: it was enabled but never got a counter, or its thread or CPU
	// never ran. There is no count.
	NotCounted
	// Low: extrapolated from less than a quarter of the time or from less than
	// 40 ms (ten of the kernel's rotations), or one of its threads or CPUs was
	// never counted while others were.
	Low
	// High: extrapolated from a quarter of the time or more.
	High
	// Exact: counted all the time.
	Exact
)

// String returns the level's name.
func (c Confidence) String() string {
	names := [...]string{"not supported", "not counted", "low", "high", "exact"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Confidence(%d)", c)
}

// MarshalText returns the level's name.
func (c Confidence) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Value is one event's count over several rows. It is scaled if the event shared the
// counters, as Confidence and Coverage show.
type Value struct {
	// Event is the counted event.
	Event Event
	// Raw is the number that was counted. Count is the number extrapolated from it, the sum
	// of Row.Scaled.
	Raw   uint64
	Count uint64
	// Enabled and Running are summed over the rows: CPU-seconds, not seconds.
	Enabled time.Duration
	Running time.Duration
	// Coverage is Running ÷ Enabled, 0 to 1. Confidence is derived from it.
	Coverage   float64
	Confidence Confidence
	// Lost is the number of samples that the event lost (0 before Linux 6.0).
	Lost uint64
	// Error is the reason why the event is NotSupported.
	Error string
}

// minRunning is ten rotations of the kernel's default perf_event_mux_interval_ms.
const minRunning = 40 * time.Millisecond

// add adds a row. It sets idle if the row was enabled and not counted.
func (v *Value) add(r Row, idle *bool) {
	v.Raw += r.Raw
	if sum, carry := bits.Add64(v.Count, r.Scaled(), 0); carry == 0 {
		v.Count = sum
	} else {
		v.Count = ^uint64(0)
	}
	v.Enabled += r.Enabled
	v.Running += r.Running
	v.Lost += r.Lost
	if r.Enabled > 0 && r.Running <= 0 {
		*idle = true
	}
}

// judge sets Coverage and Confidence.
func (v *Value) judge(idle bool) {
	if v.Enabled > 0 {
		v.Coverage = min(1, float64(v.Running)/float64(v.Enabled))
	}
	switch {
	case v.Running <= 0:
		v.Confidence = NotCounted
	case idle, v.Running < v.Enabled && (v.Coverage < 0.25 || v.Running < minRunning):
		v.Confidence = Low
	case v.Running < v.Enabled:
		v.Confidence = High
	default:
		v.Confidence = Exact
	}
}

// Bounds returns bounds of the true count, assuming that the event's rate while it was not
// counted was between 1/factor and factor times its rate while it was counted. A factor of
// 1 returns Count twice, and an Exact value is its own bounds. A factor below 1 counts as
// its inverse.
func (v Value) Bounds(factor float64) (low, high float64) {
	if factor < 1 {
		factor = 1 / factor
	}
	rest := float64(v.Count) - float64(v.Raw)
	return float64(v.Raw) + rest/factor, float64(v.Raw) + rest*factor
}

// Scaled returns the count in the event's unit: Count × Event.Scale.
func (v Value) Scaled() float64 {
	if v.Event.Scale != 0 {
		return float64(v.Count) * v.Event.Scale
	}
	return float64(v.Count)
}

// valueOf sums the rows of an event for which keep reports true.
func (c Counts) valueOf(event int, keep func(Row) bool) Value {
	v := Value{Event: c.Events[event]}
	if event < len(c.Errors) && c.Errors[event] != "" {
		v.Error = c.Errors[event]
		return v
	}
	idle := false
	for _, r := range c.Rows {
		if r.Event == event && keep(r) {
			v.add(r, &idle)
		}
	}
	v.judge(idle)
	return v
}

// Totals returns each event's count over all threads and CPUs, in the order of Events.
func (c Counts) Totals() []Value {
	out := make([]Value, len(c.Events))
	for i := range c.Events {
		out[i] = c.valueOf(i, func(Row) bool { return true })
	}
	return out
}

// Total returns one event's count over all threads and CPUs. The modifiers of e must match
// too. It reports false if the event is not among Events.
func (c Counts) Total(e Event) (Value, bool) {
	i := slices.Index(c.Events, e)
	if i < 0 {
		return Value{}, false
	}
	return c.valueOf(i, func(Row) bool { return true }), true
}

// View contains the values of one CPU or one thread.
type View struct {
	// ID is the CPU's number or the thread's id.
	ID     int
	Values []Value // in the order of Counts.Events
}

// PerCPU returns a View for each CPU that was counted separately, ascending;
// none if the scope was threads.
func (c Counts) PerCPU() []View { return c.views(func(r Row) int { return r.CPU }) }

// PerThread returns a View for each thread, ascending; none if the scope was CPUs.
func (c Counts) PerThread() []View { return c.views(func(r Row) int { return r.TID }) }

func (c Counts) views(id func(Row) int) []View {
	var ids []int
	for _, r := range c.Rows {
		if k := id(r); k >= 0 && !slices.Contains(ids, k) {
			ids = append(ids, k)
		}
	}
	slices.Sort(ids)
	out := make([]View, len(ids))
	for i, k := range ids {
		out[i] = View{ID: k, Values: make([]Value, len(c.Events))}
		for e := range c.Events {
			out[i].Values[e] = c.valueOf(e, func(r Row) bool { return id(r) == k })
		}
	}
	return out
}

// rowKey identifies a row in two readings.
type rowKey struct{ event, tid, cpu int }

// Sub returns the counts between an earlier reading and this one. Rows that the earlier reading
// does not have are taken whole. Counts never decrease, so a row that is smaller now (the event
// was reset in between) is taken whole too.
func (c Counts) Sub(earlier Counts) Counts {
	old := make(map[rowKey]Row, len(earlier.Rows))
	for _, r := range earlier.Rows {
		old[rowKey{r.Event, r.TID, r.CPU}] = r
	}
	out := Counts{
		Time: c.Time - earlier.Time, Events: c.Events, Errors: c.Errors,
		Rows: slices.Clone(c.Rows),
	}
	for i := range out.Rows {
		r := &out.Rows[i]
		o, ok := old[rowKey{r.Event, r.TID, r.CPU}]
		if !ok || o.Raw > r.Raw || o.Enabled > r.Enabled || o.Running > r.Running {
			continue
		}
		r.Raw -= o.Raw
		r.Enabled -= o.Enabled
		r.Running -= o.Running
		r.Lost -= min(o.Lost, r.Lost)
	}
	return out
}

// DefaultEvents returns the events that OpenMeter and measure.Func count by default: cycles,
// instructions, branches and branch misses of user space as far as the machine has them,
// else the task clock, page faults and context switches.
func DefaultEvents(opts *Options) []Event {
	var out []Event
	for _, e := range []Event{Cycles(), Instructions(), Branches(), BranchMisses()} {
		e.Exclude = Exclude{Kernel: true, HV: true}
		h, err := openEvent(e, onThread(0), &openOptions{root: rootOf(opts), disabled: true})
		if err == nil {
			h.close()
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		out = []Event{TaskClock(), PageFaults(), ContextSwitches()}
	}
	return out
}
