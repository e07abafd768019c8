package mapx

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
)

func TestQueueAndStack(t *testing.T) {
	for typ, want := range map[ebpf.MapType][]uint64{ebpf.Queue: {1, 2, 3}, ebpf.Stack: {3, 2, 1}} {
		m := newMap(t, &ebpf.MapSpec{Type: typ, ValueSize: 8, MaxEntries: 3})
		q, err := NewQueue[uint64](m)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(3) {
			if err := q.Push(i + 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Push(4); !errors.Is(err, syscall.E2BIG) {
			t.Error("a full map:", err)
		}
		if v, ok, err := q.Peek(); v != want[0] || !ok || err != nil {
			t.Error(v, ok, err)
		}
		if got, err := q.Drain(); err != nil || !slices.Equal(got, want) {
			t.Error(typ, got, err)
		}
		if _, ok, err := q.Pop(); ok || err != nil {
			t.Error(ok, err)
		}
		if _, err := New[uint32, uint64](m); err == nil {
			t.Error("a map of a queue")
		}
		if _, err := NewQueue[uint32](m); err == nil {
			t.Error("values of half the size")
		}
	}
}

func TestBloom(t *testing.T) {
	m := newMapSince(t, "5.16", &ebpf.MapSpec{Type: ebpf.BloomFilter, ValueSize: 8, MaxEntries: 1000})
	b, err := NewBloom[uint64](m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(100) {
		if err := b.Add(i); err != nil {
			t.Fatal(err)
		}
	}
	wrong := 0
	for i := range uint64(1000) {
		has, err := b.Has(i)
		if err != nil || i < 100 && !has {
			t.Fatal(i, has, err)
		}
		if i >= 100 && has {
			wrong++
		}
	}
	if wrong > 100 {
		t.Error(wrong, "of 900 others are said to be in it")
	}
}

func TestMapsOfMaps(t *testing.T) {
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}
	a := newMap(t, inner)
	info, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	m := newMap(t, &ebpf.MapSpec{Type: ebpf.HashOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 10, InnerMap: inner})
	if err := m.Put(uint32(7), uint32(a.FD())); err != nil {
		t.Fatal(err)
	}
	table, err := New[uint32, uint32](m)
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshotMap(t, table); len(got) != 1 || got[7] != uint32(id) {
		t.Error(got, "want the id", id)
	}
}
