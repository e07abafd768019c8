package testenv_test

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/borescope/borescope/internal/testenv"
)

func TestObjects(t *testing.T) {
	testenv.Need(t, testenv.Root)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	before := testenv.ObjectsOf(0)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	held := testenv.ObjectsOf(0)
	if held.Len() != before.Len()+1 || !slices.Contains(held.Maps, uint32(id)) {
		t.Errorf("map %d is not in %+v", id, held)
	}
	m.Close()
	held.WaitGone(t)
}
