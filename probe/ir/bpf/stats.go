package bpf

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/ir/internal/check"
)

// Stats holds the costs and losses of a loaded program so far, as plain data.
type Stats struct {
	// Programs are the programs of the plan, in its order.
	Programs []ProgramStats
	// Maps are the program's own maps.
	Maps []MapStats
	// Faults counts reads of memory that failed, and returned zeros.
	Faults uint64
	// Truncated counts texts and buffers that were cut to fit their size.
	Truncated uint64
	// Full counts entries and events that did not fit in a map or buffer, over all maps.
	Full uint64
	// NoScratch counts firings that were left out because too many programs were active on a
	// CPU at the same time.
	NoScratch uint64
	// Limited counts the events, Throttled the firings that were left out because of the
	// Budget.
	Limited, Throttled uint64
	// Walked counts the stacks of OpUstackWalk. Unwalked counts those of them that were walked by frame pointers alone
	// because the process was not passed to AddProcess. Broken counts those of other
	// processes that end before the start of the thread: in a file without call frame
	// information, or in memory that could not be read.
	Walked, Unwalked, Broken uint64
	// Busy counts values of a storage kind that were not deleted because the kernel was
	// changing storage of that kind on the CPU. A value that could not be created for that
	// reason is counted in Full. Before Linux 6.2 a value may also read as missing then; no
	// counter counts that.
	Busy uint64
	// Missed counts firings that the kernel left out because the program, or for kprobes any
	// program, was running on the CPU: in an interrupt, or in a task that had been preempted
	// there. The kernel does not filter them: firings that the program saw plus Missed are
	// all firings only if no other process fires the probe. Linux 5.12 counts them for
	// tracing programs, 6.7 for all. A Session adds kprobes that were hit within another, and
	// kretprobes beyond their number (6.7).
	Missed uint64
}

// Lost returns what was not counted, or not wholly, by reason, in an order that does not change: "ring",
// "full", "missed", "no_scratch", "limited", "throttled", "faults", "truncated", "busy", "unwalked" and
// "broken". ring is the number of events for which the program's ring had no room; they are in Full,
// too, and "full" is without them.
func (s *Stats) Lost(ring uint64) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, l := range [...]struct {
			reason string
			n      uint64
		}{
			{"ring", ring},
			{"full", s.Full - min(s.Full, ring)},
			{"missed", s.Missed},
			{"no_scratch", s.NoScratch},
			{"limited", s.Limited},
			{"throttled", s.Throttled},
			{"faults", s.Faults},
			{"truncated", s.Truncated},
			{"busy", s.Busy},
			{"unwalked", s.Unwalked},
			{"broken", s.Broken},
		} {
			if !yield(l.reason, l.n) {
				return
			}
		}
	}
}

// ProgramStats holds the costs of one program.
type ProgramStats struct {
	// Name is the program's name in the plan, ID the kernel's number for it.
	Name string
	ID   ebpf.ProgramID
	// Runs is how often the program ran, Time how long in total. Both are 0 unless the sysctl
	// kernel.bpf_stats_enabled is 1 (5.1).
	Runs uint64
	Time time.Duration
	// Missed counts firings left out because of recursion (5.12).
	Missed uint64
	// Verified is the number of instructions that the verifier processed (5.16), 0 if
	// unknown.
	Verified uint32
	// Instructions is the number of loaded instructions of 8 bytes, as the verifier rewrote
	// them. JITed is the size of the machine code in bytes.
	Instructions, JITed int
}

// MapStats describes one map. The kernel may have several maps for it: two with Flip, and for
// an aggregation by stack one for each of up to three depths.
type MapStats struct {
	// Name is the map's name in the program, ID the kernel's number for it; with several, that
	// of the first for the deepest stacks.
	Name string
	ID   ebpf.MapID
	// Full counts entries or events that did not fit.
	Full uint64
	// Capacity is the number of entries that each of the kernel's maps can hold. For a ring it
	// is its size in bytes, for a perf buffer the number of possible CPUs, and for storage 0.
	Capacity uint32
	// Bytes is the memory of the kernel's maps as the kernel reports it, 0 if it does not.
	Bytes uint64
}

// Stats reads the counters.
func (l *Loaded) Stats() (Stats, error) {
	if err := l.usable(); err != nil {
		return Stats{}, fmt.Errorf("stats: %w", err)
	}
	counts, err := l.counts()
	if err != nil {
		return Stats{}, err
	}
	st := Stats{
		Faults: counts[check.CntFaults], Truncated: counts[check.CntTruncated],
		NoScratch: counts[check.CntNoScratch], Limited: counts[check.CntLimited],
		Throttled: counts[check.CntThrottled], Walked: counts[check.CntWalked],
		Unwalked: counts[check.CntUnwalked],
		Broken:   counts[check.CntBroken],
		Busy:     counts[check.CntBusy],
	}
	for i, m := range l.lay.Maps {
		ms := MapStats{
			Name: m.Name, Full: counts[check.CntMaps+i], Capacity: tableMap(l, m).MaxEntries(),
		}
		for _, name := range kernelMaps(m) {
			if info, err := l.coll.Maps[name].Info(); err == nil {
				if ms.ID == 0 {
					ms.ID, _ = info.ID()
				}
				bytes, _ := info.Memlock()
				ms.Bytes += bytes
			}
		}
		st.Full += ms.Full
		st.Maps = append(st.Maps, ms)
	}
	for i := range l.plan.Programs {
		ps, err := programStats(l.plan.Programs[i].Name, l.coll.Programs[l.plan.Programs[i].Name])
		if err != nil {
			return st, l.failed("stats", err)
		}
		st.Missed += ps.Missed
		st.Programs = append(st.Programs, ps)
	}
	return st, nil
}

// counts returns the counters, each summed over the CPUs.
func (l *Loaded) counts() ([]uint64, error) {
	out := make([]uint64, check.CntMaps+len(l.lay.Maps))
	var cpus []uint64
	for i := range out {
		if err := l.coll.Maps[check.StatsMap].Lookup(uint32(i), &cpus); err != nil {
			return nil, l.failed("read counters", err)
		}
		for _, v := range cpus {
			out[i] += v
		}
	}
	return out, nil
}

func programStats(name string, p *ebpf.Program) (ProgramStats, error) {
	ps := ProgramStats{Name: name}
	if p == nil {
		return ps, fmt.Errorf("program %s: %w", name, errors.ErrUnsupported)
	}
	info, err := p.Info()
	if err != nil {
		return ps, fmt.Errorf("program %s: %w", name, err)
	}
	ps.ID, _ = info.ID()
	ps.Verified, _ = info.VerifiedInstructions()
	if n, err := info.TranslatedSize(); err == nil {
		ps.Instructions = n / 8
	}
	if n, err := info.JitedSize(); err == nil {
		ps.JITed = int(n)
	}
	if st, err := p.Stats(); err == nil {
		ps.Runs, ps.Time, ps.Missed = st.RunCount, st.Runtime, st.RecursionMisses
	}
	return ps, nil
}
