package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
)

// estimateTargets counts with a program per plan entry; see Estimate.
func estimateTargets(ctx context.Context, env *Env, targets []Target, window time.Duration) ([]Estimated, error) {
	plan, err := Resolve(env, targets, &Options{NoTypes: true, Missing: MissingWarn})
	if err != nil {
		return nil, err
	}
	if err := kernel.RaiseMemlock(); err != nil {
		return nil, fmt.Errorf("estimate: %w", err)
	}
	counts, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "estimate", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(max(len(targets), 1)),
	})
	if err != nil {
		return nil, fmt.Errorf("estimate: %w", feature.Explain(feature.Perf, err))
	}
	defer counts.Close()
	specs := map[string]*ebpf.ProgramSpec{}
	for i := range plan.Programs {
		spec := plan.ProgramSpec(i)
		spec.License = "GPL"
		spec.Instructions = kernel.CountInstructions(counts.FD(), plan.Programs[i].Group)
		specs[spec.Name] = spec
	}
	progs, err := plan.load(specs)
	if err != nil {
		return nil, fmt.Errorf("estimate: %w", err)
	}
	defer closePrograms(progs)
	link, err := plan.Attach(progs, &AttachOptions{Missing: MissingWarn, Env: env})
	if err != nil {
		return nil, err
	}
	// What fired while the rest was attached does not count.
	before, err := readCounts(counts, len(targets))
	start := time.Now()
	select {
	case <-time.After(window):
	case <-ctx.Done():
	}
	took := time.Since(start)
	after, err2 := readCounts(counts, len(targets))
	if err := errors.Join(err, err2, link.Close()); err != nil {
		return nil, err
	}
	return estimates(plan, targets, before, after, took), ctx.Err()
}

// readCounts sums each slot over the CPUs.
func readCounts(counts *ebpf.Map, n int) ([]uint64, error) {
	out := make([]uint64, n)
	for i := range out {
		var perCPU []uint64
		if err := counts.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("estimate: %w", err)
		}
		for _, c := range perCPU {
			out[i] += c
		}
	}
	return out, nil
}

func estimates(plan *Plan, targets []Target, before, after []uint64, took time.Duration) []Estimated {
	out := make([]Estimated, len(targets))
	for i, t := range targets {
		n := after[i] - before[i]
		out[i] = Estimated{Target: t, Window: took, Events: n, PerSecond: float64(n) / took.Seconds()}
	}
	for i := range plan.Programs {
		g := &plan.Programs[i]
		out[g.Group].Sites += len(g.Sites)
		out[g.Group].PerEvent = max(out[g.Group].PerEvent, g.cost())
	}
	for i := range out {
		out[i].CPUShare = out[i].PerSecond * out[i].PerEvent.Seconds()
	}
	return out
}
