package pmc

import (
	"math/bits"
	"slices"
)

// leaf is one answer of the x86 CPUID instruction, by register.
type leaf struct{ EAX, EBX, ECX, EDX uint32 }

// leaves are recorded answers by leaf number (of sub-leaf 0).
type leaves map[uint32]leaf

// The leaves that describe a CPU's counters.
const (
	leafVendor    = 0x0
	leafFeatures  = 0x1
	leafIntelPMU  = 0xa
	leafExtended  = 0x80000000
	leafAMDFlags  = 0x80000001
	leafAMDPerfV2 = 0x80000022
)

// ArchEvent is one of Intel's architectural events, which have the same encoding on every
// Intel CPU with architectural performance monitoring (SDM volume 3B, table 20-1; the
// seven of CPUID leaf 0xA).
type ArchEvent struct {
	Name  string // "instructions retired"
	Event uint8  // the event select field
	UMask uint8  // the unit mask field
	// Config is both as a raw config: UMask<<8 | Event.
	Config uint64
	// Available is false if leaf 0xA marks the event as missing.
	Available bool
}

// archEvents are in the order of leaf 0xA's EBX bits.
var archEvents = [...]ArchEvent{
	{Name: "unhalted core cycles", Event: 0x3c, UMask: 0x00},
	{Name: "instructions retired", Event: 0xc0, UMask: 0x00},
	{Name: "unhalted reference cycles", Event: 0x3c, UMask: 0x01},
	{Name: "LLC references", Event: 0x2e, UMask: 0x4f},
	{Name: "LLC misses", Event: 0x2e, UMask: 0x41},
	{Name: "branch instructions retired", Event: 0xc4, UMask: 0x00},
	{Name: "branch misses retired", Event: 0xc5, UMask: 0x00},
}

// CPUCounters describes a CPU's counters, according to CPUID.
type CPUCounters struct {
	// Vendor is "GenuineIntel", "AuthenticAMD", …
	Vendor string
	// Hypervisor is set in a virtual machine: the other fields are then the hypervisor's,
	// not the CPU's.
	Hypervisor bool
	// Version is the version of Intel's architectural performance monitoring, or
	// of AMD's PerfMon; 0 is none.
	Version int
	// Counters is the number of general counters, Width their width in bits.
	Counters int
	Width    int
	// Fixed is the number of counters for one fixed event each, FixedWidth their width in
	// bits. AMD has none.
	Fixed      int
	FixedWidth int
	// Northbridge is the number of counters of AMD's data fabric.
	Northbridge int
	// Events are the seven architectural events; nil on other CPUs than Intel's.
	Events []ArchEvent
}

// decodeCPUID returns the counters of a CPU from its CPUID leaves: Intel's leaf 0xA, AMD's
// 0x80000001 (PerfCtrExtCore) and 0x80000022 (PerfMonV2). It is a pure function, so that
// recorded leaves can be decoded anywhere; recordCPUID records this machine's. The kernel may
// not permit counting all the same: see Probe.
func decodeCPUID(l leaves) CPUCounters {
	v := l[leafVendor]
	c := CPUCounters{Hypervisor: l[leafFeatures].ECX>>31&1 == 1}
	for _, r := range []uint32{v.EBX, v.EDX, v.ECX} {
		c.Vendor += string([]byte{byte(r), byte(r >> 8), byte(r >> 16), byte(r >> 24)})
	}
	switch c.Vendor {
	case "GenuineIntel", "CentaurHauls", "  Shanghai  ":
		if v.EAX >= leafIntelPMU {
			c.intel(l[leafIntelPMU])
		}
	case "AuthenticAMD", "HygonGenuine":
		c.amd(l)
	default:
		c.Vendor = printable(c.Vendor)
	}
	return c
}

// printable removes characters that no vendor string has, for leaves that were never filled.
func printable(s string) string {
	return string(slices.DeleteFunc([]byte(s), func(b byte) bool { return b < ' ' || b > '~' }))
}

// intel decodes leaf 0xA (SDM volume 2A, CPUID; arch/x86/include/asm/perf_event.h).
func (c *CPUCounters) intel(a leaf) {
	c.Version = int(a.EAX & 0xff)
	if c.Version == 0 {
		return
	}
	c.Counters, c.Width = int(a.EAX>>8&0xff), int(a.EAX>>16&0xff)
	if c.Version > 1 {
		fixed := uint32(1)<<(a.EDX&0x1f) - 1
		if c.Version >= 5 {
			fixed |= a.ECX // a bitmap, for counters that are not the first ones
		}
		c.Fixed, c.FixedWidth = bits.OnesCount32(fixed), int(a.EDX>>5&0xff)
	}
	known := int(a.EAX >> 24)
	c.Events = slices.Clone(archEvents[:])
	for i := range c.Events {
		e := &c.Events[i]
		e.Config = uint64(e.UMask)<<8 | uint64(e.Event)
		// A set bit marks a missing event. Events beyond the length of the vector are missing
		// too.
		e.Available = i < known && a.EBX>>i&1 == 0
	}
}

// amd decodes AMD's leaves (arch/x86/events/amd/core.c, amd_core_pmu_init): 4 counters of 48
// bits since K7, 6 with PerfCtrExtCore, and the number in PerfMonV2's leaf.
func (c *CPUCounters) amd(l leaves) {
	const perfCtrExtCore = 1 << 23
	if c.Hypervisor && l[leafAMDFlags].ECX&perfCtrExtCore == 0 && l[leafAMDPerfV2].EAX&1 == 0 {
		return // not announced, and hypervisors rarely expose old CPUs' counters
	}
	c.Version, c.Counters, c.Width = 1, 4, 48
	if l[leafAMDFlags].ECX&perfCtrExtCore != 0 {
		c.Counters = 6
	}
	if l[leafExtended].EAX >= leafAMDPerfV2 {
		if v2 := l[leafAMDPerfV2]; v2.EAX&1 == 1 {
			c.Version = 2
			c.Counters = int(v2.EBX & 0xf)
			c.Northbridge = int(v2.EBX >> 10 & 0x3f)
		}
	}
}
