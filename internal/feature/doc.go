// Package feature finds out what this kernel, machine and process can do, by
// trying, and says why where they can't.
//
//	if err := feature.Test(feature.KprobeMulti); err != nil {
//		var no *feature.UnsupportedError
//		if !errors.As(err, &no) {
//			return err // could not tell: not privileged enough to try
//		}
//		fmt.Println(no.Hint) // CONFIG_FPROBE is not set
//	}
//
// Test has three outcomes: nil (the feature was seen working),
// *UnsupportedError (it is not there, and the hint is the true cause) and
// *UnknownError (could not tell). Only the first two are final, and only they
// are remembered: a process that gains privileges asks again.
//
// A yes of the kernel is believed where the kernel itself does the work: it lists
// what it has, and the verifier knows its helpers. What a processor or hypervisor
// has to do is tried by its effect (Watchpoint, HardwarePMU), for some hypervisors
// take the registers' values and do nothing. BranchStack is the exception: whether
// branches are recorded shows in samples only, which say so themselves.
//
// Set is the same knowledge as plain data, recorded on one machine and asked
// on another.
//
// The probes speak bpf(2) and perf_event_open(2) themselves instead of through
// cilium/ebpf, so that the packages that parse can return *UnsupportedError
// without linking a BPF library, on every operating system; and they keep the
// errno and the verifier's log, without which the cause can't be told.
package feature
