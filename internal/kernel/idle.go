package kernel

import "github.com/cilium/ebpf"

// Idle is what a program of that type returns so that an event goes on as if the program
// were not there. Of a tracepoint that is 1: where one program returns 0 no perf event of
// the tracepoint sees the hit, be it anybody's (perf_trace_run_bpf_submit and
// perf_syscall_enter, kernel/events/core.c and kernel/trace/trace_syscalls.c). Kprobes and
// uprobes belong to the event that made them.
func Idle(t ebpf.ProgramType) int32 {
	if t == ebpf.TracePoint {
		return 1
	}
	return 0
}
