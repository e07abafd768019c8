package collect

import (
	"errors"
	"fmt"
	"time"

	"github.com/borescope/borescope/probe"
)

// Waits is a way to collect the time that threads wait.
type Waits uint8

// The ways.
const (
	// OffCPU adds up the time from when a thread leaves its CPU to when it runs
	// again, by the stacks with which it left.
	OffCPU Waits = iota + 1
	// Wakeups adds up the time from when a thread blocks to when it is woken, by the stacks
	// of its waker. It does not include the time that a thread is ready to run.
	Wakeups
	// OffWake is OffCPU with the stacks of the waker joined: they show what was waited for,
	// and why it came when it did.
	OffWake
)

// State is a set of the states in which threads leave their CPU, as
// sched_switch reports them.
type State uint32

// The states, with the letter that ps shows.
const (
	Interruptible   State = 0x01  // S: waits, and a signal would end it
	Uninterruptible State = 0x02  // D: waits, mostly for storage or a lock
	Stopped         State = 0x04  // T: by a signal
	Traced          State = 0x08  // t: by a debugger
	Parked          State = 0x40  // P: a kernel thread whose CPU is offline
	Idle            State = 0x80  // I: waits, and is no load: kernel threads without work
	Preempted       State = 0x100 // R: would run on, but another thread's turn came

	// Blocked is every state but Preempted.
	Blocked = Interruptible | Uninterruptible | Stopped | Traced | Parked | Idle
)

// WaitOptions select the waits to collect. The zero value, and nil, selects all.
type WaitOptions struct {
	// Options filter the threads that wait; their wakers are not filtered. MaxStacks also
	// bounds the threads that wait at the same time. Idle and Value have no meaning here.
	Options
	// Min and Max leave out shorter and longer waits; a Max of 0 means no limit.
	Min, Max time.Duration
	// States are the states to collect; 0 means every state, which for Wakeups is Blocked.
	States State
}

// AttachWaits starts to collect the time that threads wait, by two scheduler tracepoints.
// The caller must close the Collector.
//
// A wait is counted when it ends. Waits that began before, or have not ended when Samples
// is called, are in no count: collect for longer than the waits of interest. A sample's
// Value is in nanoseconds, its Count in waits, and its Waker is the task that ended them.
//
// It works as Attach does, LoadWalker included. Every context switch is seen and costs
// about two microseconds where the stacks are walked: on a machine with 100,000 switches a
// second that is a fifth of a CPU. Options.PIDs avoids that cost. It needs Linux 5.10 and
// tracefs.
func AttachWaits(kind Waits, o *WaitOptions) (*Collector, error) {
	if o == nil {
		o = new(WaitOptions)
	}
	f, err := o.filter(kind)
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	targets := []probe.Target{groupSwitch: probe.Tracepoint{Group: "sched", Name: "sched_switch"}}
	if kind != OffCPU {
		targets = append(targets, probe.Tracepoint{Group: "sched", Name: "sched_waking"})
	}
	return attach(targets, &o.Options, f)
}

// filter checks the options and returns what the programs filter by.
func (o *WaitOptions) filter(kind Waits) (*filter, error) {
	f, err := o.Options.filter()
	if err != nil {
		return nil, err
	}
	f.waits, f.states = kind, o.States
	if f.states == 0 {
		f.states = Blocked | Preempted
	}
	if kind == Wakeups {
		f.states &= Blocked
	}
	switch {
	case kind < OffCPU || kind > OffWake:
		return nil, fmt.Errorf("%d is not one of OffCPU, Wakeups and OffWake", kind)
	case o.Value != "" || o.Idle:
		return nil, errors.New(
			"a wait's value is its time, and idle CPUs wait for nothing: Value and Idle are for Attach")
	case o.Min < 0 || o.Max < 0 || o.Max > 0 && o.Max < o.Min:
		return nil, fmt.Errorf("no wait lasts between %v and %v", o.Min, o.Max)
	case f.states&(Blocked|Preempted) == 0:
		return nil, fmt.Errorf("states %#x have none that threads wait in", uint32(o.States))
	}
	f.min, f.max = uint64(o.Min), uint64(o.Max)
	return f, nil
}
