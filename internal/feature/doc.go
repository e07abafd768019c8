// Package feature finds out, by trying, which features this kernel, machine and process
// support, and the cause if they do not.
//
//	if err := feature.Test(feature.KprobeMulti); err != nil {
//		var no *feature.UnsupportedError
//		if !errors.As(err, &no) {
//			return err // unknown: not privileged enough to try
//		}
//		fmt.Println(no.Hint) // CONFIG_FPROBE is not set
//	}
//
// Test has three outcomes: nil (the feature was seen working), *UnsupportedError (it is
// missing, and the hint is the true cause) and *UnknownError (the attempt was not conclusive).
// Only the first two are final, and only they are cached: a process that gains privileges can
// test again.
//
// If the kernel itself implements a feature, its report is enough: lists of what it has, and
// the verifier's check of helpers. Features of the processor or the hypervisor are tested by
// their effect (Watchpoint, HardwarePMU), because some hypervisors accept the registers'
// values and do nothing. BranchStack is the exception: only samples show whether branches are
// recorded.
//
// Set contains the same results as plain data, recorded on one machine and used on another.
//
// The probes call bpf(2) and perf_event_open(2) directly instead of through cilium/ebpf. So
// the parsing packages can return *UnsupportedError without linking a BPF library, on every
// operating system. The probes also keep the errno and the verifier's log, which are necessary
// to find the cause.
package feature
