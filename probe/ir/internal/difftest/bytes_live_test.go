//go:build linux

package difftest

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
)

// TestMapBytesAreTheKernels: the budget's estimate for a map is the memory that the kernel
// reports, within a twentieth and 1 KiB.
func TestMapBytesAreTheKernels(t *testing.T) {
	needRoot(t)
	if !check.KernelVersion(runningKernel(t)).AtLeast(ir.Version{6, 4}) {
		t.Log("before Linux 6.4 the kernel does not know what a map takes")
		return
	}
	if err := kernel.RaiseMemlock(); err != nil {
		t.Fatal(err)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	storage := &ebpf.MapSpec{
		Type: ebpf.TaskStorage, KeySize: 4, ValueSize: 8, Flags: check.BpfNoPrealloc,
		Key:   &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Value: &btf.Array{Index: check.Uint32BTF(), Type: &btf.Int{Name: "unsigned char", Size: 1}, Nelems: 8},
	}
	specs := []*ebpf.MapSpec{storage, {Type: ebpf.RingBuf, MaxEntries: 1 << 18}, {Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4}}
	for _, kind := range []ebpf.MapType{ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.Array, ebpf.PerCPUArray} {
		for _, n := range []uint32{1, 100, 4096, 5000} {
			for _, value := range []uint32{4, 24, 300} {
				specs = append(specs, &ebpf.MapSpec{Type: kind, KeySize: 4, ValueSize: value, MaxEntries: n})
			}
		}
	}
	for _, spec := range specs {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatalf("%s: %v", spec.Type, err)
		}
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		has, ok := info.Memlock()
		got := kernel.MapBytes(spec, int64(cpus))
		if d := got - int64(has); !ok || d > 1024+got/20 || -d > 1024+got/20 {
			t.Errorf("%s of %d entries, values of %d: %d bytes, the kernel says %d", spec.Type, spec.MaxEntries, spec.ValueSize, got, has)
		}
		m.Close()
	}
}
