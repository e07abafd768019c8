package pmc

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/borescope/borescope/internal/perfring"
)

// Attr is the kernel's struct perf_event_attr (include/uapi/linux/perf_event.h) in its newest
// layout, field for field, for programs that call perf_event_open themselves. A kernel with a
// shorter layout accepts it if the fields that the kernel lacks are zero.
type Attr = perfring.Attr

// Place is the thread and CPU that one perf event counts on, as in perf_event_open. The zero
// Place is this thread on CPU 0.
type Place struct {
	// PID is a thread's id (gettid; a process's id is its first thread's), 0 for the
	// calling thread, -1 for all tasks. To count one goroutine, lock it to its thread first
	// (runtime.LockOSThread).
	PID int
	// CPU is an online CPU, -1 for any. With PID -1 it must be a CPU.
	CPU int
	// Cgroup is an open cgroup directory, whose tasks are counted on CPU; PID is then
	// ignored. Nil is no cgroup. The file remains the caller's.
	Cgroup *os.File
}

// onThread returns the place of one thread, on any CPU; 0 is the calling thread.
func onThread(tid int) Place { return Place{PID: tid, CPU: -1} }

// onCPU returns the place of all tasks on one CPU.
func onCPU(cpu int) Place { return Place{PID: -1, CPU: cpu} }

// String returns the place for a person: "thread 12", "CPU 3".
func (p Place) String() string {
	who := fmt.Sprintf("thread %d", p.PID)
	switch {
	case p.Cgroup != nil:
		who = "cgroup " + p.Cgroup.Name()
	case p.PID == 0:
		who = "this thread"
	case p.PID == -1:
		return fmt.Sprintf("CPU %d", p.CPU)
	}
	if p.CPU >= 0 {
		return fmt.Sprintf("%s on CPU %d", who, p.CPU)
	}
	return who
}

// openOptions are the options of openEvent. A nil *openOptions is the zero value: one count,
// running at once.
type openOptions struct {
	// disabled leaves the event stopped until enable. A member of a
	// group starts and stops with its leader.
	disabled bool
	// enableOnExec opens it stopped and starts it when the task calls execve.
	enableOnExec bool
	// inherit counts the threads and processes that the task starts later, too.
	inherit bool
	// leader is the group's first event, nil to lead a group.
	leader *Handle
	// readFormat is the format of read(2): unix.PERF_FORMAT_GROUP and the others.
	readFormat uint64
	// sampling makes the event interrupt; nil only counts.
	sampling *SamplingSpec
	// exactPrecise makes openEvent fail if the event's Precise level is not available, instead
	// of using the next lower one.
	exactPrecise bool
	// root is the tree of the machine's files, which explain a refusal; nil is this machine.
	root fs.FS
}

// SamplingSpec describes when an event's overflow interrupts, and the records to write then.
// The zero value, with the period or frequency of the event itself, is right for a BPF program
// on the event: it sees the registers and needs no record.
//
// Skid: without precise sampling (Event.Precise) the recorded address is that at which the CPU
// took the interrupt, some tens of instructions after the one that overflowed the counter. For
// events without NMI (software clocks, arm64 without pseudo-NMI) it is always one at which
// interrupts are enabled.
//
// On a hypervisor that replaces how the kernel masks interrupts (pvm_irq_enable, xen_irq_enable
// and the like at the top of kernel stacks), a clock's interrupt is held back until interrupts
// are enabled again. Code that ran without them, including the entry into the kernel and its
// interrupts, is then attributed to that function. Shares of single kernel functions are wrong
// there; those of user functions, of system calls and of their callers are right.
type SamplingSpec struct {
	// Period is events per sample. Freq is samples per second, for which the kernel adjusts
	// the period; at most kernel.perf_event_max_sample_rate. One of them is set, or neither
	// if the event has its own.
	Period uint64
	Freq   uint64
	// The contents of a sample's record (enum perf_event_sample_format), in addition to the
	// branches that Branches selects.
	IP           bool // the address: see Skid
	Thread       bool // process and thread; of other records too
	Time         bool // of other records too
	CPU          bool // of other records too
	ID           bool // of the event; of other records too
	SamplePeriod bool // events since the last one
	Counts       bool // the event's and its group's, and for how long they counted
	Callchain    bool // by the kernel: kernel frames, then user frames by frame pointer
	Raw          bool // data that a tracepoint or a BPF program wrote
	// Other records.
	Comm     bool // a thread has a new name
	Task     bool // threads begin (fork) and end (exit)
	Mmap     bool // code is mapped
	Switches bool // context switches
	Ksymbols bool // code is added to the kernel or removed
	// Wakeup wakes the ring's reader after that many samples, WakeupBytes after that many
	// bytes. With neither, the reader is woken when the ring is half full.
	Wakeup      uint32
	WakeupBytes uint32
	// Branches selects the last branches that a sample contains: attr.branch_sample_type,
	// unix.PERF_SAMPLE_BRANCH_ANY and the others.
	Branches uint64
	// MonotonicTime stamps records with CLOCK_MONOTONIC, not the scheduler's clock.
	MonotonicTime bool
}

// sampleType returns attr.sample_type.
func (s *SamplingSpec) sampleType() (bits uint64) {
	for _, f := range [...]struct {
		on  bool
		bit uint64
	}{
		{s.IP, perfring.SampleIP},
		{s.Thread, perfring.SampleTID},
		{s.Time, perfring.SampleTime},
		{s.CPU, perfring.SampleCPU},
		{s.ID, perfring.SampleIdentifier},
		{s.SamplePeriod, perfring.SamplePeriod},
		{s.Counts, perfring.SampleReadGroup},
		{s.Callchain, perfring.SampleCallchain},
		{s.Raw, perfring.SampleRaw},
		{s.Branches != 0, perfring.SampleBranchStack},
	} {
		if f.on {
			bits |= f.bit
		}
	}
	return bits
}

// records returns attr's flags for records other than samples.
func (s *SamplingSpec) records() (flags perfring.AttrFlags) {
	for _, f := range [...]struct {
		on    bool
		flags perfring.AttrFlags
	}{
		{s.Comm, perfring.AttrComm | perfring.AttrCommExec},
		{s.Task, perfring.AttrTask},
		{s.Mmap, perfring.AttrMmap | perfring.AttrMmap2},
		{s.Switches, perfring.AttrContextSwitch},
		{s.Ksymbols, perfring.AttrKsymbol},
	} {
		if f.on {
			flags |= f.flags
		}
	}
	if flags != 0 {
		flags |= perfring.AttrSampleIDAll // thread and time
	}
	return flags
}

// silent reports whether the spec never produces a record: the kernel accepts a period of 0
// for an event that only counts.
func (s *SamplingSpec) silent(e Event) bool {
	switch e.Name {
	case Dummy().Name, "bpf-output":
		return false
	}
	return s.Period|s.Freq|e.Period|e.Freq == 0 && s.records() == 0
}

// apply writes the spec into a.
func (s *SamplingSpec) apply(a *perfring.Attr, e Event) error {
	period, freq := s.Period, s.Freq
	if period == 0 && freq == 0 {
		period, freq = e.Period, e.Freq
	}
	switch {
	case period != 0 && freq != 0:
		return fmt.Errorf("event %s: both a period and a frequency", e)
	case freq != 0:
		a.Sample = freq
		a.Flags |= perfring.AttrFreq
	default:
		a.Sample = period
	}
	if s.Wakeup != 0 && s.WakeupBytes != 0 {
		return fmt.Errorf("event %s: wake-ups both by samples and by bytes", e)
	}
	a.SampleType = s.sampleType()
	a.Flags |= s.records()
	a.Wakeup = s.Wakeup
	if s.WakeupBytes != 0 {
		a.Wakeup = s.WakeupBytes
		a.Flags |= perfring.AttrWatermark
	}
	a.BranchSampleType = s.Branches
	if s.MonotonicTime {
		const clockMonotonic = 1
		a.Flags |= perfring.AttrUseClockID
		a.ClockID = clockMonotonic
	}
	return nil
}

// attr returns the attribute that openEvent tries first.
func (o *openOptions) attr(e Event) (perfring.Attr, error) {
	a := e.Attr()
	a.ReadFormat = o.readFormat
	if o.disabled || o.enableOnExec {
		a.Flags |= perfring.AttrDisabled
	}
	if o.enableOnExec {
		a.Flags |= perfring.AttrEnableOnExec
	}
	if o.inherit {
		a.Flags |= perfring.AttrInherit
	}
	if e.PreciseMax {
		a.Flags = a.Flags.WithPrecise(3)
	}
	if o.sampling == nil {
		return a, nil
	}
	return a, o.sampling.apply(&a, e)
}

// CountOptions are the options of Open, OpenGroups and OpenMeter. A nil *CountOptions is
// the zero value.
type CountOptions struct {
	// Inherit also counts the threads and processes that the counted ones start later. It
	// is for threads and processes, not for CPUs.
	Inherit bool
	// EnableOnExec starts the events when the thread calls execve. With Inherit and the
	// calling thread as the scope, that is the execve of the first program that this thread
	// starts (os/exec, after runtime.LockOSThread): the counts are then of that program and
	// its children. Later programs need Counters of their own, since the kernel may give the
	// thread's events to the first one (perf_event_context_sched_out swaps equal contexts).
	EnableOnExec bool
	// Disabled leaves the events stopped until Counters.Enable.
	Disabled bool
	// AllowMissing leaves out events that the machine does not have, with the reason in
	// Counts.Errors, instead of failing.
	AllowMissing bool
	// Root is the tree of the machine's files (CPUs, PMUs, threads); nil is this machine.
	Root fs.FS
}
