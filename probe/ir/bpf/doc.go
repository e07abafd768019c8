// Package bpf loads a program of package ir into the kernel and reads what it collected.
//
//	plan, err := bpf.Resolve(nil, p, nil)
//	loaded, err := bpf.Load(p, plan)
//	defer loaded.Close()
//	link, err := plan.Attach(loaded.Programs(), nil)
//	defer link.Close()
//	hits, err := bpf.OpenTable(loaded, m)
//	snapshot, err := hits.Snapshot()
//
// Resolve plans where the program is attached, with the types and addresses that it needs.
// Compile, which is pure and deterministic, compiles a program for a plan to BPF, also for
// the kernels of other machines. Load loads it. Tables and streams read a loaded program or,
// the same way, a recording of it (Loaded.Record, Open). OpenTable uses the types that a map
// declares, CountTable and the others use Go's.
//
// # What is exact
//
// Counters and sums are never lossy. Aggregations have per-CPU entries that are changed by
// atomic operations, because a perf event's NMI may fire inside a tracepoint's program.
// Aggregations of several fields are marked so that a reader detects an update in progress
// and reads again. Losses are counted in Stats: entries and events that find no room, text
// that was cut, memory that could not be read, and events left out by a Budget.
//
// # Privileges
//
// Loading needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), and Linux 5.10 or later.
// If the kernel lacks a feature, the error matches errors.ErrUnsupported. Resolve and Compile
// for a recorded machine need no privileges, on any system.
package bpf
