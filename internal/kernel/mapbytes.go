package kernel

import (
	"math/bits"

	"github.com/cilium/ebpf"
)

// PageBytes is the page size that MapBytes assumes, on all machines.
const PageBytes = 4096

// These are the bytes that the kernel needs for a map in addition to its entries.
const (
	mapHead     = 512 // struct bpf_map and its surroundings, at most
	hashHead    = 48  // struct htab_elem
	hashBucket  = 16  // struct bucket
	storageHash = 16  // struct bpf_local_storage_map_bucket
)

// MapBytes returns the memory that the kernel needs for a full map, as map_mem_usage of its
// type computes it (6.4; memlock in fdinfo), with an error of at most a twentieth and mapHead.
// It does not include the values of storages.
func MapBytes(m *ebpf.MapSpec, cpus int64) int64 {
	words := func(n uint32) int64 { return (int64(n) + 7) / 8 * 8 }
	n, key, value := int64(m.MaxEntries), words(m.KeySize), words(m.ValueSize)
	switch m.Type {
	case ebpf.RingBuf: // data, addresses of its pages twice, pages of the header and positions
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
			n += cpus // spare entries for replacing others
		case ebpf.PerCPUHash, ebpf.LRUCPUHash:
			value = 8 + cpus*value
		}
		return buckets + n*(hashHead+key+value) + mapHead
	}
	return n*value + mapHead
}
