// Package bpf brings a program of package ir into the kernel and reads what it finds
// there.
//
//	plan, err := bpf.Resolve(nil, p, nil)
//	loaded, err := bpf.Load(p, plan)
//	defer loaded.Close()
//	link, err := plan.Attach(loaded.Programs(), nil)
//	defer link.Close()
//	hits, err := bpf.OpenTable(loaded, m)
//	snapshot, err := hits.Snapshot()
//
// Resolve plans where the program is attached, with the types and addresses that it
// needs; Compile, which is pure and deterministic, makes BPF of a program and a plan,
// also for kernels that are elsewhere; Load loads it. Tables and streams read a program
// that is loaded, or, the same way, a recording of it (Loaded.Record, Open). OpenTable
// reads by the types that a map declares, CountTable and the others by Go's.
//
// # What is exact
//
// Counters and sums are never lossy: aggregations live in per-CPU entries and are
// changed by atomic operations, because a perf event's NMI may fire inside a
// tracepoint's program. Aggregations of several fields are marked so that a reader
// notices an update in its middle, and reads again. What finds no room, text that was
// cut, memory that could not be read and events left out by a Budget are counted: Stats.
//
// # Privileges
//
// Loading needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), and Linux 5.10 or
// later; what a kernel lacks is an error that matches errors.ErrUnsupported. Resolve and
// Compile for a recorded machine need nothing, on any system.
package bpf
