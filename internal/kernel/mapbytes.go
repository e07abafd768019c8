package kernel

import (
	"math/bits"

	"github.com/cilium/ebpf"
)

// PageBytes is a page's size for the reckoning of MapBytes, whatever the machine's is.
const PageBytes = 4096

// What the kernel takes for a map besides its entries.
const (
	mapHead     = 512 // struct bpf_map and what is around it, at most
	hashHead    = 48  // struct htab_elem
	hashBucket  = 16  // struct bucket
	storageHash = 16  // struct bpf_local_storage_map_bucket
)

// MapBytes is the memory that the kernel takes for a map when it is full, as
// map_mem_usage of its type reckons (6.4; memlock in fdinfo), within a twentieth
// and mapHead. Values of storages are not in it.
func MapBytes(m *ebpf.MapSpec, cpus int64) int64 {
	words := func(n uint32) int64 { return (int64(n) + 7) / 8 * 8 }
	n, key, value := int64(m.MaxEntries), words(m.KeySize), words(m.ValueSize)
	switch m.Type {
	case ebpf.RingBuf: // data, its pages' addresses twice, and three pages to tell who is where
		return n + n/PageBytes*16 + 3*PageBytes + mapHead
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
