package pmc

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/perfring"
)

// UnsupportedError is the error for features that this machine, kernel or process lacks, with
// the reason.
type UnsupportedError = feature.UnsupportedError

// Event is one performance event, encoded: the event to count, and the modes to count it in
// (user, kernel, guest). It is plain data and comparable; two equal events count the same
// thing. Events come from ParseEvent or from the predeclared functions (Cycles, CPUClock, …),
// or are made of a type and a config.
//
// The zero Event is no event: see IsZero. Generic cycles, whose encoding is all zeros too, have
// a Name.
type Event struct {
	// Name is the event in perf's spelling, without modifiers: "cycles",
	// "cpu/event=0x3c,umask=0x0/", "sched:sched_switch". ParseEvent uses one spelling for
	// all of perf's synonyms ("branches" for "branch-instructions"). If it is empty, String
	// makes a name from the encoding.
	Name string
	// Label is the name= term of a PMU event, for tables; usually empty.
	Label string
	// PMU is the sysfs name of the PMU that Type was read from: "cpu",
	// "armv8_pmuv3", "msr". Empty for the kernel's own types.
	PMU string

	// Type and Config to Config3 are attr.type and attr.config…config3
	// (Config3: Linux 6.3). For a breakpoint Config1 is the address and Config2
	// the length in bytes.
	Type    uint32
	Config  uint64
	Config1 uint64
	Config2 uint64
	Config3 uint64
	// BPType is the set of accesses that a breakpoint watches: BPRead, BPWrite, BPExec.
	BPType uint32
	// Path is the string that Config1 points to for the kprobe and uprobe PMUs: the kernel
	// function, or the file.
	Path string

	// Exclude is the set of modes in which the event is not counted. The zero value is perf's
	// default: it is counted everywhere except in virtual machines that this machine runs.
	Exclude Exclude
	// Precise limits the skid of a sample's address (attr.precise_ip): 0 any, 1 constant, 2
	// requested to be zero, 3 must be zero. Without PEBS, IBS or SPE only 0 is possible;
	// Handle.Precise returns the level obtained.
	Precise uint8
	// PreciseMax selects the highest available level of precision: modifier P.
	PreciseMax bool

	// How the event is scheduled and read.
	Pinned     bool // modifier D: always on the PMU, or in error
	Exclusive  bool // modifier e: alone on the PMU
	SampleRead bool // modifier S: a sample of the leader reads the whole group
	Weak       bool // modifier W: the group may be broken up if it does not fit
	PerPackage bool // sysfs .per-pkg: one count for each package
	Snapshot   bool // sysfs .snapshot: a level, not a count

	// Period or Freq are the period= and freq= terms of a PMU event: the sampling that the
	// event string requests, 0 if it does not.
	Period uint64
	Freq   uint64
	// Scale turns counts into Unit: count × Scale Unit. 0 is 1. From sysfs
	// (events/NAME.scale, .unit), and 1e-6 msec for the clocks, as in perf.
	Scale float64
	Unit  string
}

// Breakpoint kinds: attr.bp_type (include/uapi/linux/hw_breakpoint.h).
const (
	BPRead  uint32 = 1
	BPWrite uint32 = 2
	BPExec  uint32 = 4
)

// Exclude is a set of contexts that are not counted.
type Exclude struct {
	User   bool // user space
	Kernel bool // the kernel
	HV     bool // the hypervisor
	Idle   bool // the idle task
	Host   bool // the host, that is: count guests only

	// IncludeGuest counts virtual machines that this one runs too. It is inverted because
	// perf leaves guests out by default.
	IncludeGuest bool
}

// IsZero reports whether e is the zero Event, which is no event.
func (e Event) IsZero() bool { return e == Event{} }

// Attr returns the event encoded for perf_event_open, with Size set, for counting: without
// period, sample type, read format and the flags for opening it. It excludes guests as perf
// does; PMUs that can't exclude anything refuse that, and there the event is opened without it.
//
// The kprobe and uprobe PMUs require a pointer in Config1, which plain data can't hold: it is
// added to the attribute while the event is opened.
func (e Event) Attr() Attr {
	a := perfring.Attr{
		Type: e.Type, Size: perfring.AttrSize, BPType: e.BPType,
		Config: e.Config, Config1: e.Config1, Config2: e.Config2, Config3: e.Config3,
	}
	set := func(on bool, f perfring.AttrFlags) {
		if on {
			a.Flags |= f
		}
	}
	set(e.Exclude.User, perfring.AttrExcludeUser)
	set(e.Exclude.Kernel, perfring.AttrExcludeKernel)
	set(e.Exclude.HV, perfring.AttrExcludeHV)
	set(e.Exclude.Idle, perfring.AttrExcludeIdle)
	set(e.Exclude.Host, perfring.AttrExcludeHost)
	set(!e.Exclude.IncludeGuest, perfring.AttrExcludeGuest)
	set(e.Pinned, perfring.AttrPinned)
	set(e.Exclusive, perfring.AttrExclusive)
	a.Flags = a.Flags.WithPrecise(int(min(e.Precise, 3)))
	return a
}

// Hardware reports whether the event needs a CPU's performance counters:
// hardware, cache and raw events, and those of a core PMU.
func (e Event) Hardware() bool {
	switch e.Type {
	case perfring.EventHardware, perfring.EventCache, perfring.EventRaw:
		return !e.IsZero()
	}
	return isCorePMU(e.PMU)
}

// String returns the event in perf's spelling, which ParseEvent parses into the same Event:
// "cycles:u", "cpu/event=0x3c,umask=0x0/k", "mem:0x1000/4:w". It is "" for the zero Event.
func (e Event) String() string {
	if e.IsZero() {
		return ""
	}
	name := e.Name
	if name == "" {
		name = e.spell()
	}
	mods := e.modifiers()
	if mods == "" || strings.HasSuffix(name, "/") {
		return name + mods
	}
	return name + ":" + mods
}

// Short returns the event for a table's row: the label if it has one, else the name and
// modifiers.
func (e Event) Short() string {
	if e.Label != "" {
		return e.Label
	}
	return e.String()
}

// spell returns a name made from the encoding alone.
func (e Event) spell() string {
	switch e.Type {
	case perfring.EventHardware:
		if e.Config < uint64(len(hardwareNames)) {
			return hardwareNames[e.Config][0]
		}
	case perfring.EventSoftware:
		if e.Config < uint64(len(softwareNames)) {
			return softwareNames[e.Config][0]
		}
	case perfring.EventCache:
		if n := cacheName(e.Config); n != "" {
			return n
		}
	case perfring.EventRaw:
		if e.Config1|e.Config2|e.Config3 == 0 {
			return fmt.Sprintf("r%x", e.Config)
		}
	case perfring.EventBreakpoint:
		return spellBreakpoint(e)
	}
	if e.PMU == "" {
		return fmt.Sprintf("%d:0x%x", e.Type, e.Config)
	}
	return e.spellPMU()
}

func (e Event) spellPMU() string {
	var b strings.Builder
	b.WriteString(e.PMU + "/")
	if e.Path != "" {
		fmt.Fprintf(&b, "%s=%s,", pathTerm(e.PMU), e.Path)
	}
	fmt.Fprintf(&b, "config=0x%x", e.Config)
	for i, v := range []uint64{e.Config1, e.Config2, e.Config3} {
		if v != 0 {
			fmt.Fprintf(&b, ",config%d=0x%x", i+1, v)
		}
	}
	for _, t := range []struct {
		name string
		v    uint64
	}{{"period", e.Period}, {"freq", e.Freq}} {
		if t.v != 0 {
			fmt.Fprintf(&b, ",%s=%d", t.name, t.v)
		}
	}
	if e.Label != "" {
		b.WriteString(",name=" + e.Label)
	}
	b.WriteByte('/')
	return b.String()
}

func spellBreakpoint(e Event) string {
	var access strings.Builder
	for _, k := range []struct {
		bit    uint32
		letter byte
	}{{BPRead, 'r'}, {BPWrite, 'w'}, {BPExec, 'x'}} {
		if e.BPType&k.bit != 0 {
			access.WriteByte(k.letter)
		}
	}
	return fmt.Sprintf("mem:0x%x/%d:%s", e.Config1, e.Config2, access.String())
}
