// Package pmc has performance events: their names and encodings, counting them
// in groups, scaling what shared the counters, and sampling their overflow.
//
//	c, err := pmc.Open([]pmc.Event{pmc.Cycles(), pmc.Instructions()}, pmc.Scope{Process: pid}, nil)
//	if err != nil {
//		return err // says why: no PMU in this VM, perf_event_paranoid, …
//	}
//	defer c.Close()
//	var counts pmc.Counts
//	err = c.Read(&counts)
//	for _, v := range counts.Totals() {
//		fmt.Println(v.Event, v.Count, v.Confidence, v.Coverage)
//	}
//
// # Names
//
// ParseEvent and ParseList read perf's spelling: generic events, cache events,
// raw numbers, the PMUs of sysfs with their terms, tracepoints, breakpoints,
// vendors' names with their JSON lists, modifiers, groups. An Event is plain
// comparable data and prints as what was read. Everything is looked up through
// Options.Root, so that a recorded machine answers as a live one does.
//
// # Numbers
//
// A count that was not counted all the time is scaled and says so: Value has
// the raw number, the scaled one, the part of the time it covers, and a
// Confidence. What the machine has not is an *UnsupportedError whose hint names
// the cause; Probe tries all and returns what works as plain data.
//
// # Lifetime
//
// Counters, Sampler and Meter hold file descriptors until Close; the
// kernel ends their events with them, also when the process is killed. Counts
// hold nothing. The package starts no goroutine and keeps no global state.
//
// # Privileges
//
// Linux 5.10 or later. One's own threads in user space need
// kernel.perf_event_paranoid ≤ 2; one's own threads in the kernel ≤ 1; whole
// CPUs and cgroups ≤ 0; tracepoints ≤ -1; or CAP_PERFMON for all of them.
// Debian's level 3 permits nothing without CAP_PERFMON. Parsing, encoding and
// decoding work on every system.
//
// # Overhead
//
// Counting costs the kernel some work at each context switch and the reader one
// read(2) for each group. Measured on a 2-core virtual machine, Linux 6.18:
// Counters.Read of a group of four software events 875 ns, of which read(2) is
// 803 ns, no allocation. In an arm64 guest under QEMU (one instruction is one
// nanosecond there): a user-space read of one counter 85 ns, read(2) of two
// 3.2 µs. The amd64 rdpmc path is tested on recorded pages only.
package pmc
