package check

import (
	"fmt"

	"github.com/borescope/borescope/probe/ir"
)

// Deletable reports whether the map's entries can be removed.
func Deletable(m *ir.Map) bool {
	return Storage(m) || !m.Keyless() && m.Kind != ir.MapArray && m.Kind != ir.MapPerCPUArray
}

// Storage reports whether the map's values belong to objects of the kernel.
func Storage(m *ir.Map) bool { return m.Kind == ir.MapTaskStorage || m.Kind == ir.MapCgroupStorage }

var ForEachSince = ir.Version{5, 13} // bpf_for_each_map_elem

// longKeys is the version from which the checker allows keys of hashes that are longer than
// MaxKey: on 5.10 they have at most MAX_BPF_STACK bytes (htab_map_alloc_check,
// kernel/bpf/hashtab.c), on 6.1 they may be longer.
var longKeys = ir.Version{6, 1}

// AggSize returns the size of an aggregation's value in bytes.
func AggSize(m *ir.Map) int {
	a := m.Agg
	if a == ir.AggSeries {
		a = m.Inner
	}
	switch a {
	case ir.AggMin, ir.AggMax, ir.AggLast:
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

// Levels is the number of programs that may use scratch memory on one CPU at a time: in task
// context, soft interrupt, interrupt and NMI, and as many again because programs may be
// preempted.
const Levels = 8

// ScratchUsed is the size of the word before a scratch area that is set while the area is in
// use.
const ScratchUsed = 8

// flippedMap refuses every use of a map with Flip except aggregation: its reader switches the
// map between two, and takes the entries of the inactive one.
func flippedMap(m *ir.Map) error {
	if m != nil && m.Flip {
		return fmt.Errorf("map %s flips: a program can only add to it", m.Name)
	}
	return nil
}
