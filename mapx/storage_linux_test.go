package mapx

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// TestTaskStorage: a task's value is found by a pidfd, and the kernel does not
// list the map.
func TestTaskStorage(t *testing.T) {
	m := newMapSince(t, "5.11", &ebpf.MapSpec{
		Type: ebpf.TaskStorage, KeySize: 4, ValueSize: 8, Flags: 1, // BPF_F_NO_PREALLOC
		Key:   &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Value: &btf.Int{Name: "u64", Size: 8},
	})
	table, err := New[int32, uint64](m)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	err = self.WithHandle(func(pidfd uintptr) {
		if err := table.Put(int32(pidfd), 42); err != nil {
			t.Error(err)
		}
		if v, ok, err := table.Lookup(int32(pidfd)); v != 42 || !ok || err != nil {
			t.Error(v, ok, err)
		}
		if err := table.Delete(int32(pidfd)); err != nil {
			t.Error(err)
		}
		if _, ok, err := table.Lookup(int32(pidfd)); ok || err != nil {
			t.Error(ok, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Snapshot(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
