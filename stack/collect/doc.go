// Package collect has the kernel collect stacks: one call attaches a program to
// any target, which walks the kernel and user stacks when it fires and counts
// them in the kernel by exact key.
//
//	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 99}}, nil)
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	time.Sleep(10 * time.Second)
//	samples, err := c.Samples()
//
// A stack is found under its addresses themselves, not under a hash of them
// (as BPF's stack map does, which drops or mixes stacks whose hashes collide),
// so every count belongs to exactly one pair of stacks. What could not be
// counted is in Stats.
//
// AttachWaits collects time instead of events: off the CPU by the stacks with
// which threads left it, until a wakeup by the stacks of whoever did it, or
// by both joined.
//
//	c, err := collect.AttachWaits(collect.OffWake, &collect.WaitOptions{Min: time.Millisecond})
//
// Options.Value adds up a field of the event: bytes allocated, or the period of
// a perf event, so that page faults, cycles and instructions by stack come out in
// their own unit.
//
// User stacks are walked by the kernel along frame pointers, which most
// programs were built without. LoadWalker has them walked by call frame
// information instead, in BPF, for the processes given to AddProcess, and the
// frames of Python programs (CPython 3.11 to 3.13) read with them. Options.Hold
// counts nothing before that is so.
//
// AttachCopies copies the registers and the top of the user's stack instead, to
// be walked in Go, for events that are rare and stacks that must be exact. With
// KernelStacks it copies the kernel's, for the running kernel's own ORC tables,
// which ReadORC reads out of its memory.
//
// Stacks come out as addresses with the reason they end; package symbol names
// them. A Collector must be closed, which detaches it and frees its maps; if
// the process is killed, the kernel does the same.
//
// It needs CAP_BPF and CAP_PERFMON and Linux 5.10; no BTF (the walker needs both
// 5.17 and BTF). In a virtual machine whose hypervisor replaces how the kernel masks
// interrupts, the tops of kernel stacks skid (pmc.SamplingSpec). A sample costs one to
// three microseconds, most of it the kernel's walk; the overhead of 99 samples a second
// and CPU is below 0.1 %.
package collect
