package kernel

import "github.com/cilium/ebpf"

// Idle returns the value that a program of type t returns so that an event is processed as if
// the program were not there. It is 1 for tracepoints: if one program returns 0, no perf event
// of the tracepoint sees the hit, not even those of other processes (perf_trace_run_bpf_submit
// and perf_syscall_enter, kernel/events/core.c and kernel/trace/trace_syscalls.c). Kprobes and
// uprobes belong to the event that created them.
func Idle(t ebpf.ProgramType) int32 {
	if t == ebpf.TracePoint {
		return 1
	}
	return 0
}
