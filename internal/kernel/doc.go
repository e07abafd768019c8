// Package kernel is the thin layer over bpf(2) and perf_event_open(2) for what
// cilium/ebpf's link package does not offer: cookies on perf event links
// (cilium/ebpf#873 keeps perf events out of it) and on raw tracepoints,
// uprobe.session, fsession and tracing.multi, links on a perf event whose
// attributes are our own, and the elements and batches of maps as the bytes they are. Each
// function is one system call and gives the errno as it came; descriptors are
// the caller's to close.
//
// It is to shrink as cilium gains these calls: see its pull requests 2078
// (tracing.multi) and 2108 (fsession, for which programs are loaded here too).
package kernel
