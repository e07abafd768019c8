package probe

import (
	"context"
	"time"

	"github.com/cilium/ebpf"
)

// Estimated is how often a target fires, as plain data.
type Estimated struct {
	// Target is the one that was asked about.
	Target Target
	// Sites is the number of places that the target stands for.
	Sites int
	// Events is how often they fired within Window.
	Events uint64
	Window time.Duration
	// PerSecond is Events per second, over all CPUs.
	PerSecond float64
	// PerEvent is what one event costs at the least, with a program that does
	// next to nothing, as measured on one machine: good for its order of
	// magnitude.
	PerEvent time.Duration
	// CPUShare is the share of one CPU that attaching would cost, by these
	// numbers: 0.25 is a quarter of a CPU.
	CPUShare float64
}

// Estimate attaches programs that only count to the targets, for the length of
// window (0 is 100 ms), and says how often each fires and what attaching to it
// is likely to cost, so that nobody probes malloc blindly. It has the cost
// itself for that time. Targets that can't be attached have no sites. It ends
// early, with what it has and the context's error, when ctx is cancelled. A nil
// env is this machine. Before Linux 5.11 it raises RLIMIT_MEMLOCK.
func Estimate(ctx context.Context, env *Env, targets []Target, window time.Duration) ([]Estimated, error) {
	if env == nil {
		env = NewEnv(nil)
	}
	if window <= 0 {
		window = 100 * time.Millisecond
	}
	return estimateTargets(ctx, env, targets, window)
}

// cost is what an event costs with an empty program, by method: measured on
// Linux 6.18 in a virtual machine (raw tracepoint 70 ns; uprobe 550 ns; uretprobe
// 1.3 µs) and in guests relative to those (kprobe, trampoline).
func (p *Program) cost() time.Duration {
	switch {
	case p.UserRegs && p.returnProbe():
		return 1300
	case p.UserRegs:
		return 550
	case p.Type == ebpf.Kprobe && p.Returns:
		return 300
	case p.Type == ebpf.Kprobe:
		return 150
	case p.Type == ebpf.PerfEvent:
		return 1000
	case p.Type == ebpf.TracePoint:
		return 150
	}
	return 70
}

// returnProbe tells a probe that hijacks the return address from one that sits
// on return instructions.
func (p *Program) returnProbe() bool { return p.Returns && p.Go == nil }
