package action

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
)

// checkBytes compares what maps and buffers need, on a machine of so many
// possible CPUs, with the budget.
func (l *layout) checkBytes(p *Program, spec *ebpf.CollectionSpec, cpus int) error {
	if p.Budget.MapBytes <= 0 {
		return nil
	}
	total := int64(0)
	for _, m := range spec.Maps {
		total += mapBytes(m, int64(cpus))
	}
	for _, m := range l.maps {
		if m.Kind == MapPerf {
			size := m.Entries
			if size == 0 {
				size = DefaultBuffer
			}
			pages := int64(1) << bits.Len64(uint64(max(size-1, 0))/pageBytes) // a power of two, and one to tell where it is read
			total += int64(cpus) * (pages + 1) * pageBytes
		}
	}
	if total > p.Budget.MapBytes {
		return fmt.Errorf("maps need %d bytes with %d possible CPUs: the budget is %d", total, cpus, p.Budget.MapBytes)
	}
	return nil
}

// What the kernel takes for a map besides its entries: pages are 4096 bytes for
// this reckoning, whatever the machine's are.
const (
	pageBytes   = 4096
	mapHead     = 512 // struct bpf_map and what is around it, at most
	hashHead    = 48  // struct htab_elem
	hashBucket  = 16  // struct bucket
	storageHash = 16  // struct bpf_local_storage_map_bucket
)

// mapBytes is the memory that the kernel takes for a map when it is full, as
// map_mem_usage of its type reckons (6.4; memlock in fdinfo), within a twentieth
// and mapHead. Values of storages are not in it.
func mapBytes(m *ebpf.MapSpec, cpus int64) int64 {
	words := func(n uint32) int64 { return (int64(n) + 7) / 8 * 8 }
	n, key, value := int64(m.MaxEntries), words(m.KeySize), words(m.ValueSize)
	switch m.Type {
	case ebpf.RingBuf: // data, its pages' addresses twice, and three pages to tell who is where
		return n + n/pageBytes*16 + 3*pageBytes + mapHead
	case ebpf.PerCPUArray:
		return n*(8+cpus*value) + mapHead
	case ebpf.PerfEventArray:
		return cpus*8 + mapHead
	case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
		return n*(key+8) + mapHead
	case ebpf.TaskStorage, ebpf.CgroupStorage:
		return storageHash<<bits.Len64(uint64(max(cpus-1, 1))) + mapHead
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		buckets := int64(hashBucket) << bits.Len64(uint64(max(n-1, 0)))
		switch m.Type {
		case ebpf.Hash:
			n += cpus // spare entries, to replace others by
		case ebpf.PerCPUHash, ebpf.LRUCPUHash:
			value = 8 + cpus*value
		}
		return buckets + n*(hashHead+key+value) + mapHead
	}
	return n*value + mapHead
}
