package pmc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/perfring"
)

// PMU is one performance monitoring unit as sysfs describes it.
type PMU struct {
	// Name is its directory in sysfs, Type is attr.type of its events.
	Name string
	Type uint32
	// Core is set for the CPUs' own PMUs.
	Core bool
	// CPUs are the CPUs that it is on or, if Shared is set, those that read it for their
	// whole package; nil is all.
	CPUs   []int
	Shared bool
	// Formats are its terms, Events its named events, both by name.
	Formats []Format
	Events  []NamedEvent
	// Caps are its capabilities: "max_precise", "branches", "slots".
	Caps map[string]string
}

// NamedEvent is one of a PMU's named events.
type NamedEvent struct {
	Name  string // "cache-misses"
	Terms string // "event=0x3c,umask=0x0"
	Scale string // "6.103515625e-5", "" for none
	Unit  string // "MiB"
}

// PMUs returns all PMUs under opts.Root, by name. It fails if a PMU's files can't be read;
// on systems without sysfs there are no PMUs.
func PMUs(opts *Options) ([]PMU, error) {
	fsys := rootOf(opts)
	names, err := pmuNames(fsys)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var out []PMU
	for _, n := range names {
		p, err := readPMU(fsys, n)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func readPMU(fsys fs.FS, name string) (PMU, error) {
	s, err := lookPMU(fsys, name)
	if err != nil {
		return PMU{}, err
	}
	p := PMU{Name: name, Type: s.typ, Core: isCorePMU(name)}
	p.CPUs, p.Shared = pmuCPUs(fsys, name)
	for _, f := range s.list("format") {
		format, _, err := s.format(f)
		if err != nil {
			return PMU{}, err
		}
		p.Formats = append(p.Formats, format)
	}
	for _, e := range s.aliasNames() {
		terms, _, err := s.alias(e)
		if err != nil {
			return PMU{}, err
		}
		scale, _ := s.read("events/" + e + ".scale")
		unit, _ := s.read("events/" + e + ".unit")
		p.Events = append(p.Events, NamedEvent{e, terms, scale, unit})
	}
	for _, c := range s.list("caps") {
		if p.Caps == nil {
			p.Caps = map[string]string{}
		}
		p.Caps[c], _ = s.read(path.Join("caps", c))
	}
	return p, nil
}

// Ability reports whether the machine supports What, and if not, why.
type Ability struct {
	// What names the feature: an event's name, "sampling cycles", "user-space reads".
	What string
	OK   bool
	// Reason explains in a sentence why it is unsupported; if OK is set, it is a detail.
	Reason string
}

// Machine describes what this machine can count. It is plain data.
type Machine struct {
	Arch   string // as GOARCH spells it
	Kernel string // the release: "6.12.48+deb13-amd64"
	// CPU is the model's name, "" if the kernel has none.
	CPU        string
	Online     string // CPU list: "0-3"
	Hypervisor bool
	// Paranoid is kernel.perf_event_paranoid, -100 if it can't be read. Privileged is set
	// if this process has CAP_PERFMON or CAP_SYS_ADMIN.
	Paranoid   int
	Privileged bool
	// Watchdog is set if the NMI watchdog occupies a counter.
	Watchdog bool
	// MaxRate is the maximum of samples per second: kernel.perf_event_max_sample_rate.
	MaxRate uint64
	// Counters describes the counters according to CPUID (x86).
	Counters CPUCounters
	PMUs     []PMU
	// Events are the generic hardware events, the common cache events and the
	// software events, tried on this thread.
	Events []Ability
	// Features are sampling, precision, branches, user-space reads, breakpoints,
	// tracepoints, whole CPUs.
	Features []Ability
	// Clock is the event to sample by: hardware cycles if they can interrupt, else cpu-clock.
	Clock string
}

// Probe returns what this machine can count, by trying: it opens some forty events, each for a
// moment and stopped, and changes nothing. It takes a few milliseconds.
func Probe(opts *Options) Machine {
	m := Machine{Arch: runtime.GOARCH}
	fsys := rootOf(opts)
	m.describe(fsys)
	m.PMUs, _ = PMUs(opts)
	m.Counters = decodeCPUID(recordCPUID())
	for _, e := range probedEvents() {
		m.Events = append(m.Events, tryEvent(e, onThread(0), fsys, nil))
	}
	m.features(fsys)
	clock, why := samplingClock(opts)
	m.Clock = clock.String()
	m.Features = append(m.Features, Ability{"sampling cycles", why == nil, reason(why)})
	return m
}

func (m *Machine) describe(fsys fs.FS) {
	if b, err := readSmall(fsys, "proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if cpu, err := firstCPU(fsys); err == nil {
		for line := range strings.Lines(cpu) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				m.CPU = strings.TrimSpace(v)
			}
		}
	}
	if list, err := cpus.Online(fsys); err == nil {
		m.Online = cpus.Format(list)
	}
	f := readFacts(fsys)
	m.Hypervisor, m.Paranoid, m.Privileged = f.hypervisor, f.paranoid, f.perfmon
	m.Watchdog, m.MaxRate = f.watchdog, f.maxRate
}

// probedEvents returns the events that Probe tries.
func probedEvents() []Event {
	var out []Event
	for i := range hardwareNames {
		out = append(out, generic(perfring.EventHardware, uint64(i)))
	}
	for _, cache := range []string{"L1-dcache", "LLC", "dTLB"} {
		for _, of := range []string{"-loads", "-load-misses"} {
			e, _ := genericByName(cache + of)
			out = append(out, e)
		}
	}
	for i := range softwareNames {
		out = append(out, generic(perfring.EventSoftware, uint64(i)))
	}
	return out
}

// tryEvent opens an event for a moment. Events that need privileges in the kernel are tried
// in user space.
func tryEvent(e Event, at Place, root fs.FS, spec *SamplingSpec) Ability {
	if at.PID == 0 {
		e.Exclude.Kernel, e.Exclude.HV = true, true
	}
	o := &openOptions{disabled: true, root: root, sampling: spec, exactPrecise: true}
	h, err := openEvent(e, at, o)
	e.Exclude = Exclude{}
	a := Ability{What: e.String(), OK: err == nil, Reason: reason(err)}
	h.close()
	return a
}

// reason returns an error's cause for a person: the hint if there is one.
func reason(err error) string {
	var u *UnsupportedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &u):
		return u.Hint
	}
	return err.Error()
}

func (m *Machine) features(root fs.FS) {
	add := func(what string, a Ability) {
		a.What = what
		m.Features = append(m.Features, a)
	}
	for level := 1; level <= 3; level++ {
		e := Cycles()
		e.Precise = uint8(level)
		a := tryEvent(e, onThread(0), root, &SamplingSpec{Period: 1 << 20})
		if a.OK && runtime.GOARCH != "amd64" {
			a = Ability{Reason: "this architecture's kernel takes the level and pays it no attention"}
		}
		add(fmt.Sprintf("precise level %d", level), a)
	}
	// PERF_SAMPLE_BRANCH_USER|ANY
	add("branch records",
		tryEvent(Cycles(), onThread(0), root, &SamplingSpec{Period: 1 << 20, Branches: 1 | 8}))
	add("user-space reads", userReads(root))
	add("breakpoints", tryEvent(Breakpoint(0x1000, 8, BPWrite), onThread(0), root, nil))
	tp, err := Tracepoint("sched", "sched_switch", &Options{Root: root})
	if err != nil {
		add("tracepoints", Ability{Reason: reason(err)})
	} else {
		add("tracepoints", tryEvent(tp, onThread(0), root, nil))
	}
	online, err := cpus.Online(root)
	if err != nil {
		add("whole CPUs", Ability{Reason: reason(err)})
		return
	}
	add("whole CPUs", tryEvent(CPUClock(), onCPU(online[0]), root, nil))
}

// userReads returns whether counters can be read without a system call.
func userReads(root fs.FS) Ability {
	e := Cycles()
	e.Exclude.Kernel, e.Exclude.HV = true, true
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, err := OpenMeter([]Event{e}, &CountOptions{Root: root})
	if err != nil {
		return Ability{Reason: reason(err)}
	}
	defer m.Close()
	if m.UserReads() {
		return Ability{OK: true}
	}
	why := "the kernel does not permit it (x86: /sys/bus/event_source/devices/cpu/rdpmc is 0)"
	if runtime.GOARCH == "arm64" {
		why = "kernel.perf_user_access is 0 (sysctl; since Linux 5.17)"
	}
	return Ability{Reason: why}
}

// Description describes one event of a List.
type Description struct {
	// Event is the string that ParseEvent parses. Kind is "hardware", "cache", "software",
	// "raw", "breakpoint", "PMU NAME", "tracepoint" or "vendor".
	Event string
	Kind  string
	// Text describes what the event counts, "" if the kernel has only the name.
	Text string
}

// List returns the events that a string can name here: the generic ones whether the CPU has
// them or not, those of the PMUs under opts.Root, the tracepoints if tracefs can be read,
// and the vendor's with opts.Events. They are sorted by kind in this order, then by name.
func List(opts *Options) []Description {
	out := listGeneric()
	all, _ := PMUs(opts)
	for _, p := range all {
		for _, e := range p.Events {
			text := e.Terms
			if e.Unit != "" {
				text += ", in " + e.Unit
			}
			out = append(out, Description{p.Name + "/" + e.Name + "/", "PMU " + p.Name, text})
		}
	}
	fsys := rootOf(opts)
	if dir, err := findTracefs(opts); err == nil {
		defer dir.Close()
		ids, _ := fs.Glob(fsys, dir.Path+"/events/*/*/id")
		for _, id := range ids {
			parts := strings.Split(id, "/")
			out = append(out, Description{parts[len(parts)-3] + ":" + parts[len(parts)-2], "tracepoint", ""})
		}
	}
	if vendor, err := VendorEvents(opts); err == nil {
		slices.SortStableFunc(vendor, func(a, b VendorEvent) int { return cmp.Compare(a.Name, b.Name) })
		for _, v := range vendor {
			out = append(out, Description{v.Name, "vendor", v.Description})
		}
	}
	return out
}

func listGeneric() []Description {
	var out []Description
	for i, names := range hardwareNames {
		out = append(out, Description{names[0], "hardware", hardwareTexts[i]})
	}
	for level := range cacheTypes {
		for op := range cacheOps {
			for result := range cacheResults {
				name := cacheName(uint64(level) | uint64(op)<<8 | uint64(result)<<16)
				text := "accesses"
				if result == 1 {
					text = "misses"
				}
				out = append(out, Description{
					name, "cache",
					cacheTexts[level] + ": " + cacheOps[op][0] + " " + text,
				})
			}
		}
	}
	for i, names := range softwareNames {
		out = append(out, Description{names[0], "software", softwareTexts[i]})
	}
	return append(out,
		Description{"rUUEE", "raw", "the CPU's own number, hexadecimal: unit mask and event"},
		Description{"mem:ADDR/LEN:rwx", "breakpoint", "accesses to LEN bytes at ADDR"})
}

var (
	hardwareTexts = [...]string{
		"CPU cycles", "instructions retired", "cache accesses, usually of the last level",
		"cache misses, usually of the last level", "branch instructions retired", "mispredicted branches",
		"bus cycles", "cycles without instructions from the front end", "cycles the back end was stalled",
		"cycles at a constant frequency",
	}
	softwareTexts = [...]string{
		"time, by a timer of each CPU, in nanoseconds", "time the tasks ran, in nanoseconds",
		"page faults", "switches between tasks", "moves of tasks between CPUs",
		"page faults without disk reads", "page faults with disk reads",
		"unaligned accesses that the kernel fixed", "instructions that the kernel emulated",
		"nothing: a carrier of records", "output of BPF programs",
		"switches between tasks of different cgroups",
	}
	cacheTexts = [...]string{
		"level 1 data cache", "level 1 instruction cache", "last level cache", "data TLB",
		"instruction TLB", "branch predictor", "memory of this node",
	}
)
