// Package collect collects stacks in the kernel: one call attaches a program to any target.
// When it fires, the program walks the kernel and user stacks and counts them in the kernel
// by exact key.
//
//	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 99}}, nil)
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	time.Sleep(10 * time.Second)
//	samples, err := c.Samples()
//
// A Profiler makes profiles with names of it, also of processes that ended, for the formats of
// package profile; with Options.Windows it collects for as long as a service runs, one window of
// time after the other. Package collecthttp serves these: a flame graph of the last minute, and
// profiles for go tool pprof.
//
//	p, err := collect.NewProfiler(c, nil) // owns c
//	…
//	prof, err := p.Window() // since the last call
//	err = profile.WriteSVG(w, prof.Folded(nil), nil)
//
// # In a service
//
// Each step from here has an Example that compiles and can be copied:
//
//   - Names, and a picture: ExampleProfiler writes a flame graph of every minute, whose samples
//     have functions, lines and inlined calls.
//   - A filter for oneself: ExampleAttach_self collects this process only, by Options.PIDs and
//     Options.IncludeSelf, also in a container. For programs of package action it is
//     probe.Filter.
//   - Pages: collecthttp's Example serves flame graphs and pprof of the last minute, and that of
//     bpfhttp (probe/ir/bpf/bpfhttp) the tables of an action's session.
//   - Metrics: ExampleHist_metrics of probe/action serves the latency of this process's own
//     system calls at /metrics, for Prometheus; ExampleCounter_Windows has the last ten seconds
//     of a count.
//
// A whole service of 80 lines that does all this is in collecthttp/testdata/service.
//
// # How it counts
//
// The key of a stack is its addresses, not a hash of them (as in BPF's stack map, which
// drops or mixes stacks whose hashes collide), so every count belongs to exactly one pair
// of stacks. Stats has the number of samples that could not be counted.
//
// A process's number and its addresses mean other code when it executes a program, when another process
// gets the number, and when a library takes the place of another. The key has the process's start and how
// many programs were executed, and the count has the times of its first and its last sample, so that a
// Namer names each by what was mapped then (symbol.Process.During). A library in the place of another is
// seen some hundred microseconds later; a count that has samples of both has no name at such an address
// (profile.Profile.Uncertain).
//
// AttachWaits collects time instead of events: the time off the CPU, by the stacks with
// which threads left it; the time until a wakeup, by the stacks of the waker; or the time
// off the CPU by both joined.
//
//	c, err := collect.AttachWaits(collect.OffWake, &collect.WaitOptions{Min: time.Millisecond})
//
// Options.Value adds up a field of the event, such as bytes allocated or the period of a
// perf event, so that page faults, cycles and instructions by stack have their own unit.
//
// The kernel walks user stacks along frame pointers, which most programs were built
// without. After LoadWalker they are walked by call frame information instead, in BPF, for
// the processes given to AddProcess, together with the frames of Python programs (CPython
// 3.11 to 3.13). With Options.Hold nothing is counted before that.
//
// A process that has just begun, and a library that was just loaded, have no rules in BPF yet. While
// processes are watched (Watch, NewProfiler), such stacks are copied, some 1,900 a second and CPU at most,
// and walked in Go by what the kernel's records say was mapped then, also of processes that have ended
// since. Each sample is counted once: until its copy is walked, or if that is lost (Stats.Copied), under
// the stack that was found without rules. Of waits (AttachWaits) the stacks of wakers are not copied.
//
// The stacks of 32-bit programs (of i386) are always copied so, within these limits, and are whole. What is
// not copied, and on arm64 all of them, have the innermost frame and end with stack.StopCompat.
//
// AttachCopies copies the registers and the top of the user's stack instead, to be walked
// in Go, for events that are rare and stacks that must be exact. With KernelStacks it
// copies those of the kernel, to be walked by the running kernel's own ORC tables, which
// ReadORC reads from its memory.
//
// Stacks are addresses with the reason for their end; package symbol names the addresses. A
// Collector must be closed, which detaches it and frees its maps; if the process is killed,
// the kernel does the same.
//
// The package needs CAP_BPF and CAP_PERFMON and Linux 5.10, but no BTF (the walker needs
// both 5.17 and BTF). In a virtual machine whose hypervisor replaces the way in which the
// kernel masks interrupts, the tops of kernel stacks skid (pmc.SamplingSpec). A sample
// costs one to three microseconds, most of it for the kernel's walk; the overhead of 99
// samples a second and CPU is below 0.1 %.
package collect
