// Package probe attaches BPF programs to everything that the kernel offers as
// a source of events: kernel functions, static tracepoints, user functions,
// USDT markers, performance events, timers, watchpoints, iterators. It finds
// out what can be attached and how, says which arguments each place offers and
// where they are, and leaves nothing behind.
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
// A Target names an event source as plain data, in bpftrace's syntax. Resolve
// turns targets into a Plan: which programs must be loaded, with which types,
// at which sites, and for every argument a type and a location. A plan is what
// a compiler of programs works from (package action), or whoever loads one from
// an object file (Plan.ProgramSpec). Plan.Attach carries it out and returns a
// Link. Attach does all of it for a program at hand.
//
// What decides how a target is attached is an Env (package env): the kernel's types,
// tracepoint formats, symbols and features, of this machine or a recorded one,
// so that plans for other kernels can be made, and tested, anywhere and without
// privileges.
//
// A fallback is another plan: where the kernel has no kprobe.multi the plan has
// one perf event for each function, where it has no attach cookies one program
// for each set of arguments, and Program.FallbackReason says so.
//
// One program may serve many functions, and see their entries and returns:
// kprobe.multi and uprobe.multi links are planned by themselves where there are
// several sites, sessions with Options.Session, trampolines for many functions
// with Options.TracingMulti. What cilium/ebpf has no name or loader for yet
// (uprobe.session, fsession, tracing.multi) is here: AttachFsession and its
// neighbours, LoadCollection.
//
// FEATURES.md compares what can be attached with other systems, row by row, and
// names the test that proves each.
//
// A plan is recorded as JSON (Plan.MarshalJSON), read back on any machine, and
// compared with another (Plan.Diff).
//
// # Whose events
//
// Options.Filter restricts probes of every kind to processes, control groups or
// a container's namespaces; programs check it first of all. Package container
// names the control groups that events come from.
//
// # Several users, several versions
//
// Package deploy attaches once for several users in a process, or for good, so that
// the next version of a program takes over attachments and maps without losing an
// event. Package broker attaches for services that may not.
//
// # Lifetime
//
// Attachments belong to file descriptors that a Link owns. Close takes all of
// them away, and so does the end of the process, whatever ends it; the one
// exception is a kretprobe with MaxActive, whose tracefs event the next process
// that makes one sweeps away. Links can be pinned to outlive the process.
//
// # Privileges
//
// Attaching needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN for iterators and
// tracing programs on some kernels); Requires says for given targets what is
// needed, and what of it is missing; testdata/daemonset.yaml is a Kubernetes
// manifest that grants exactly that. Resolving needs to read what the targets
// depend on: tracefs for tracepoints, kallsyms for kernel functions.
//
// # Overhead
//
// Resolving reads only what a target needs: nothing for perf events, one file
// for a tracepoint; kernel types take 10 to 20 ms and are read once per Env.
// Costs per event on a 2-core virtual machine with Linux 6.18: a raw tracepoint
// some 0.1 µs, a uprobe 0.6 µs.
package probe
