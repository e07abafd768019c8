package check

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir"
)

// Bytes returns an error if the maps and buffers of a program need more memory than its
// budget on a machine with cpus possible CPUs.
func Bytes(l *Layout, p *ir.Program, spec *ebpf.CollectionSpec, cpus int) error {
	if p.Budget.MapBytes <= 0 {
		return nil
	}
	total := int64(0)
	for _, m := range spec.Maps {
		total += kernel.MapBytes(m, int64(cpus))
	}
	for _, m := range l.Maps {
		if m.Kind == ir.MapPerf {
			size := m.Entries
			if size == 0 {
				size = ir.DefaultBuffer
			}
			// a power of two of data pages, and the page of struct perf_event_mmap_page
			pages := int64(1) << bits.Len64(uint64(max(size-1, 0))/kernel.PageBytes)
			total += int64(cpus) * (pages + 1) * kernel.PageBytes
		}
	}
	if total > p.Budget.MapBytes {
		return fmt.Errorf("maps need %d bytes with %d possible CPUs: the budget is %d", total, cpus,
			p.Budget.MapBytes)
	}
	return nil
}
