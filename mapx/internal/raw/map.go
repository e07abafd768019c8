package raw

import (
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/layout"
)

func CheckKind(m *ebpf.Map, perCPU bool) error {
	if m == nil {
		return ErrNoMap
	}
	switch m.Type() {
	case ebpf.PerCPUHash, ebpf.PerCPUArray, ebpf.LRUCPUHash, ebpf.PerCPUCGroupStorage:
		if !perCPU {
			return fmt.Errorf("map %v has a value per CPU: use NewPerCPU", m)
		}
		return nil
	case ebpf.RingBuf:
		return fmt.Errorf("map %v is a stream: use OpenRing", m)
	case ebpf.PerfEventArray:
		return fmt.Errorf("map %v is a stream: use OpenPerfBuffer", m)
	case ebpf.Queue, ebpf.Stack:
		return fmt.Errorf("map %v has no keys", m)
	case ebpf.BloomFilter:
		return fmt.Errorf("map %v can only be asked whether a value was added", m)
	}
	if perCPU {
		return fmt.Errorf("map %v has one value per entry, not one per CPU: use New", m)
	}
	return nil
}

func (r *RawMap) Delete(key []byte) error {
	err := kernel.MapElem(kernel.MapDelete, r.M.FD(), key, nil, 0)
	if err != nil && err != syscall.ENOENT {
		return r.ErrorMoved("delete", err)
	}
	return nil
}

func (r *RawMap) Clear() error {
	if r.IsArray() {
		return r.ZeroAll()
	}
	return r.Each(true, func([]byte, []byte, int) bool { return true })
}

func (r *RawMap) Zero() error {
	if r.IsArray() {
		return r.ZeroAll()
	}
	var keys []byte
	err := r.Each(false, func(k, _ []byte, _ int) bool {
		keys = append(keys, k...)
		return true
	})
	if err != nil {
		return err
	}
	zero := layout.AlignedBytes(r.ValueSize)
	for ; len(keys) > 0; keys = keys[r.keySize:] {
		err := kernel.MapElem(kernel.MapUpdate, r.M.FD(), keys[:r.keySize], zero, uint64(ebpf.UpdateExist))
		if err != nil && err != syscall.ENOENT {
			return r.ErrorMoved("zero", err)
		}
	}
	return nil
}
