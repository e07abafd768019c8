package check

import (
	"fmt"

	"github.com/borescope/borescope/probe/ir"
)

// Deletable says whether the map's entries can be removed.
func Deletable(m *ir.Map) bool {
	return Storage(m) || !m.Keyless() && m.Kind != ir.MapArray && m.Kind != ir.MapPerCPUArray
}

// Storage says whether the map's values belong to objects of the kernel.
func Storage(m *ir.Map) bool { return m.Kind == ir.MapTaskStorage || m.Kind == ir.MapCgroupStorage }

var ForEachSince = ir.Version{5, 13} // bpf_for_each_map_elem

// Keys of hashes are at most MAX_BPF_STACK bytes on 5.10 (htab_map_alloc_check,
// kernel/bpf/hashtab.c), and may be longer on 6.1.
var longKeys = ir.Version{6, 1}

// AggSize is the size of an aggregation's value.
func AggSize(m *ir.Map) int {
	a := m.Agg
	if a == ir.AggSeries {
		a = m.Inner
	}
	switch a {
	case ir.AggMin, ir.AggMax:
		return 16
	case ir.AggAvg:
		return 24
	case ir.AggStats:
		return 40
	}
	return 8
}

const ctlSize = 64

const budSize = 32

// Levels is how many programs may be in scratch memory on one CPU at a time:
// task, soft interrupt, interrupt, NMI, and as many again for preemption.
const Levels = 8

// ScratchUsed is the size of what stands before a scratch area: the word that
// says that it is in use.
const ScratchUsed = 8

// flippedMap refuses what a program cannot do with a map that its reader takes
// away from it.
func flippedMap(m *ir.Map) error {
	if m != nil && m.Flip {
		return fmt.Errorf("map %s flips: a program can only add to it", m.Name)
	}
	return nil
}
