// Package probe attaches BPF programs to every event source that the kernel offers:
// kernel functions, static tracepoints, user functions, USDT markers, performance
// events, timers, watchpoints, iterators. It finds out what can be attached and how,
// reports the arguments of each site and where they are, and leaves nothing behind.
//
//	target, err := probe.ParseTarget("uprobe:/bin/bash:readline")
//	if err != nil {
//		return err
//	}
//	link, err := probe.Attach(prog, target, nil)
//	if err != nil {
//		return err
//	}
//	defer link.Close()
//
// # Targets, plans, links
//
// A Target names an event source as plain data, in bpftrace's syntax. Resolve turns
// targets into a Plan: the programs to load, with their types and their sites, and a
// type and a location for every argument. A Plan is the input of a program compiler
// (package ir/bpf), or of code that loads a program from an object file
// (Plan.ProgramSpec). Plan.Attach carries it out and returns a Link. Attach does all of
// it for a program that is already loaded.
//
// How a target is attached depends on an Env (package env): the kernel's types, tracepoint
// formats, symbols and features, of this machine or a recorded one. Plans for other
// kernels can therefore be made and tested anywhere, without privileges.
//
// A fallback is another plan. Where the kernel has no kprobe.multi, the plan has one
// perf event for each function; where it has no attach cookies, one program for each
// set of arguments. ProgramPlan.FallbackReason gives the reason.
//
// One program may serve many functions, and see their entries and returns.
// kprobe.multi and uprobe.multi links are planned automatically where there are several
// sites. Options.EntryReturn asks for sessions, Options.TracingMulti for trampolines of many
// functions. Names and loaders that cilium/ebpf lacks so far (uprobe.session, fsession,
// tracing.multi) are here: AttachFsession and its neighbours, LoadCollection.
//
// FEATURES.md compares what can be attached with other systems, row by row, and
// names the test that proves each row.
//
// A plan can be recorded as JSON (Plan.MarshalJSON), read back on any machine, and
// compared with another (Plan.Diff).
//
// # Filters
//
// Options.Filter restricts probes of every kind to processes, control groups or a
// container's namespaces; programs check it before anything else. Package container
// names the control groups that events come from.
//
// # Several users, several versions
//
// Package deploy attaches once for several users in a process, or beyond the life of
// the process, so that the next version of a program takes over attachments and maps
// without losing an event. Package broker attaches for unprivileged services.
//
// # Lifetime
//
// Attachments belong to file descriptors that a Link owns. Close removes all of them,
// and so does the end of the process, whatever its cause. The one exception is a
// kretprobe with MaxActive: its tracefs event remains until the next process that makes
// one removes it. Links can be pinned to outlive the process.
//
// # Privileges
//
// Attaching needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN for iterators and tracing
// programs on some kernels). Requires returns what given targets need, and what of it
// is missing; testdata/daemonset.yaml is a Kubernetes manifest that grants exactly that.
// Resolving must read what the targets depend on: tracefs for tracepoints, kallsyms for
// kernel functions.
//
// # Overhead
//
// Resolving reads only what a target needs: nothing for perf events, one file for a
// tracepoint. Kernel types take 10 to 20 ms and are read once per Env. A raw tracepoint
// costs about 0.1 µs for each event, a uprobe 0.6 µs, on a 2-core virtual machine with
// Linux 6.18.
package probe
