// Package kernel is a thin layer over bpf(2) and perf_event_open(2) for calls that
// cilium/ebpf's link package does not offer: cookies on perf event links (cilium/ebpf#873
// keeps perf events out of it) and on raw tracepoints, uprobe.session, fsession and
// tracing.multi, links on a perf event with our own attributes, and the elements and batches
// of maps as raw bytes. Each function is one system call and returns the errno unchanged. The
// caller closes descriptors.
//
// It should shrink as cilium gains these calls: see its pull requests 2078 (tracing.multi) and
// 2108 (fsession, for which this package also loads programs).
package kernel
