package pmc

import (
	"strings"

	"github.com/borescope/borescope/internal/perfring"
)

// The first name of each row is the one that String prints, the others are perf's synonyms
// (tools/perf/util/parse-events.c, event_symbols_hw and _sw). The index is the kernel's number
// (enum perf_hw_id, enum perf_sw_ids).
var (
	hardwareNames = [...][]string{
		{"cycles", "cpu-cycles"},
		{"instructions"},
		{"cache-references"},
		{"cache-misses"},
		{"branches", "branch-instructions"},
		{"branch-misses"},
		{"bus-cycles"},
		{"stalled-cycles-frontend", "idle-cycles-frontend"},
		{"stalled-cycles-backend", "idle-cycles-backend"},
		{"ref-cycles"},
	}
	softwareNames = [...][]string{
		{"cpu-clock"},
		{"task-clock"},
		{"page-faults", "faults"},
		{"context-switches", "cs"},
		{"cpu-migrations", "migrations"},
		{"minor-faults"},
		{"major-faults"},
		{"alignment-faults"},
		{"emulation-faults"},
		{"dummy"},
		{"bpf-output"},
		{"cgroup-switches"},
	}
)

// Cache event names are type-op-result (tools/perf/util/evsel.c,
// evsel__hw_cache and its neighbours); the index is the kernel's number.
var (
	cacheTypes = [...][]string{
		{"L1-dcache", "l1-d", "l1d", "L1-data"},
		{"L1-icache", "l1-i", "l1i", "L1-instruction"},
		{"LLC", "L2"},
		{"dTLB", "d-tlb", "Data-TLB"},
		{"iTLB", "i-tlb", "Instruction-TLB"},
		{"branch", "branches", "bpu", "btb", "bpc"},
		{"node"},
	}
	cacheOps = [...][]string{
		{"load", "loads", "read"},
		{"store", "stores", "write"},
		{"prefetch", "prefetches", "speculative-read", "speculative-load"},
	}
	cacheResults = [...][]string{
		{"refs", "Reference", "ops", "access"},
		{"misses", "miss"},
	}
)

// index returns the row of a name table that has s, -1 if none has. Perf ignores case in
// these names.
func index(table [][]string, s string) int {
	for i, names := range table {
		for _, n := range names {
			if strings.EqualFold(n, s) {
				return i
			}
		}
	}
	return -1
}

// longestPrefix finds the longest name of the table that s begins with, followed by the
// end of s or a dash. It returns the row and the text after the dash.
func longestPrefix(table [][]string, s string) (row int, rest string) {
	row, best := -1, 0
	for i, names := range table {
		for _, n := range names {
			if len(n) <= best || len(s) < len(n) || !strings.EqualFold(s[:len(n)], n) {
				continue
			}
			if len(s) > len(n) && s[len(n)] != '-' {
				continue
			}
			row, best = i, len(n)
		}
	}
	if row < 0 {
		return -1, s
	}
	return row, strings.TrimPrefix(s[best:], "-")
}

// parseCache parses "L1-dcache-load-misses": a cache, then an operation and a result in
// either order, each of which may be missing (loads, accesses).
func parseCache(s string) (config uint64, ok bool) {
	kind, rest := longestPrefix(cacheTypes[:], s)
	if kind < 0 {
		return 0, false
	}
	op, result := -1, -1
	for rest != "" {
		var row int
		var after string
		if row, after = longestPrefix(cacheOps[:], rest); row >= 0 && op < 0 {
			op, rest = row, after
			continue
		}
		if row, after = longestPrefix(cacheResults[:], rest); row >= 0 && result < 0 {
			result, rest = row, after
			continue
		}
		return 0, false
	}
	return uint64(kind) | uint64(max(op, 0))<<8 | uint64(max(result, 0))<<16, true
}

// cacheName returns a cache config as perf prints it: "LLC-loads", "LLC-load-misses". It
// returns "" if the config is not a cache event's.
func cacheName(config uint64) string {
	kind, op, result := config&0xff, config>>8&0xff, config>>16
	if kind >= uint64(len(cacheTypes)) || op >= uint64(len(cacheOps)) ||
		result >= uint64(len(cacheResults)) {
		return ""
	}
	if result == 0 {
		return cacheTypes[kind][0] + "-" + cacheOps[op][1]
	}
	return cacheTypes[kind][0] + "-" + cacheOps[op][0] + "-misses"
}

func generic(typ uint32, config uint64) Event {
	e := Event{Type: typ, Config: config}
	e.Name = e.spell()
	if typ == perfring.EventSoftware && config <= 1 {
		e.Scale, e.Unit = 1e-6, "msec"
	}
	return e
}

// Hardware events, which the kernel maps to the CPU's own (kernel/events/core.c and the PMU
// drivers). CPUs have different subsets of them; see Probe.

// Cycles counts CPU cycles, at the CPU's actual frequency.
func Cycles() Event { return generic(perfring.EventHardware, 0) }

// Instructions counts instructions retired.
func Instructions() Event { return generic(perfring.EventHardware, 1) }

// CacheReferences counts accesses to the cache that the CPU's vendor chose,
// usually the last level.
func CacheReferences() Event { return generic(perfring.EventHardware, 2) }

// CacheMisses counts the misses among CacheReferences.
func CacheMisses() Event { return generic(perfring.EventHardware, 3) }

// Branches counts branch instructions retired.
func Branches() Event { return generic(perfring.EventHardware, 4) }

// BranchMisses counts mispredicted branches.
func BranchMisses() Event { return generic(perfring.EventHardware, 5) }

// RefCycles counts cycles at a constant frequency.
func RefCycles() Event { return generic(perfring.EventHardware, 9) }

// Software events are counted by the kernel (kernel/events/core.c) on every machine.

// CPUClock counts time in nanoseconds, driven by a high-resolution timer of each CPU.
// Profilers sample by it on machines without a PMU.
func CPUClock() Event { return generic(perfring.EventSoftware, 0) }

// TaskClock counts the time that the measured tasks ran, in nanoseconds.
func TaskClock() Event { return generic(perfring.EventSoftware, 1) }

// PageFaults counts page faults, minor and major.
func PageFaults() Event { return generic(perfring.EventSoftware, 2) }

// ContextSwitches counts switches from one task to another. They happen in the kernel: with
// Exclude.Kernel the count is 0.
func ContextSwitches() Event { return generic(perfring.EventSoftware, 3) }

// CPUMigrations counts moves of a task to another CPU.
func CPUMigrations() Event { return generic(perfring.EventSoftware, 4) }

// MinorFaults counts page faults served without reading from a disk.
func MinorFaults() Event { return generic(perfring.EventSoftware, 5) }

// MajorFaults counts page faults that had to wait for a disk.
func MajorFaults() Event { return generic(perfring.EventSoftware, 6) }

// Dummy counts nothing; its ring carries the records of tasks and mappings.
func Dummy() Event { return generic(perfring.EventSoftware, 9) }

// Raw returns an event by the CPU's own number, as "rCONFIG" does.
func Raw(config uint64) Event { return generic(perfring.EventRaw, config) }

// Breakpoint returns a hardware breakpoint: length bytes (1, 2, 4 or 8) at addr, watched
// for access, a set of BPRead, BPWrite and BPExec. Some CPUs (x86) cannot watch reads
// alone, and execution is watched at the size of a word.
func Breakpoint(addr uint64, length int, access uint32) Event {
	e := Event{Type: perfring.EventBreakpoint, BPType: access, Config1: addr, Config2: uint64(length)}
	e.Name = e.spell()
	return e
}
