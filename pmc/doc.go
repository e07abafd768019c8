// Package pmc provides performance events: their names and encodings, counting in groups,
// scaling of events that shared the counters, and sampling of their overflow.
//
//	events := []pmc.Event{pmc.Cycles(), pmc.Instructions()}
//	c, err := pmc.Open(events, pmc.Scope{Process: pid}, nil)
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
// ParseEvent and ParseList parse perf's spelling: generic events, cache events, raw numbers,
// the PMUs of sysfs with their terms, tracepoints, breakpoints, vendors' names with their
// JSON lists, modifiers, groups. An Event is plain comparable data and prints as the text
// that was parsed. All lookups go through Options.Root, so that a recorded machine gives
// the same results as a live one.
//
// # Numbers
//
// A count that did not cover all of the time is scaled: Value has the raw number, the
// scaled one, the part of the time that it covers, and a Confidence. For events that the
// machine does not have, the error is an *UnsupportedError whose hint names the cause.
// Probe tries all events and returns the results as plain data.
//
// # Lifetime
//
// Counters, Sampler and Meter hold file descriptors until Close; the
// kernel ends their events with them, also when the process is killed. Counts
// hold nothing. The package starts no goroutine and keeps no global state.
//
// # Privileges
//
// Linux 5.10 or later is needed. The allowed kernel.perf_event_paranoid is at most 2 for
// the process's own threads in user space, 1 for its own threads in the kernel, 0 for whole
// CPUs and cgroups, and -1 for tracepoints; with CAP_PERFMON any level is allowed. Debian's
// level 3 permits nothing without CAP_PERFMON. Parsing, encoding and decoding work on every
// system.
//
// # Overhead
//
// Counting costs the kernel some work at each context switch, and the reader one read(2)
// for each group. On a 2-core virtual machine with Linux 6.18, Counters.Read of a group of
// four software events takes 875 ns, of which read(2) takes 803 ns, without allocation. In
// an arm64 guest under QEMU, where one instruction is one nanosecond, a user-space read of
// one counter takes 85 ns and read(2) of two 3.2 µs. The amd64 rdpmc path is tested on
// recorded pages only.
package pmc
