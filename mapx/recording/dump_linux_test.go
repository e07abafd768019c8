package recording

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/maptest"
)

func TestRecordMap(t *testing.T) {
	u32 := &btf.Int{Name: "u32", Size: 4}
	u64 := &btf.Int{Name: "u64", Size: 8}
	plain := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 4, MaxEntries: 100000})
	typed := maptest.New(t, &ebpf.MapSpec{
		Type: ebpf.PerCPUHash, KeySize: 4, ValueSize: 8, MaxEntries: 8, Key: u32, Value: &btf.Struct{
			Name: "v", Size: 8, Members: []btf.Member{{Name: "count", Type: u64}},
		},
	})
	dir := t.TempDir()
	rec, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rec.RecordMap("plain", plain)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Snapshot(); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	type k struct{ A, B uint32 }
	table, err := mapx.New[k, uint32](plain)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(50000) {
		if err := table.Put(k{i, i + 1}, i); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.Snapshot(); n != 50000 || err != nil {
		t.Fatal(n, err)
	}
	c, err := rec.RecordMap("percpu", typed)
	if err != nil {
		t.Fatal(err)
	}
	perCPU, err := mapx.NewPerCPU[uint32, uint64](typed)
	if err != nil {
		t.Fatal(err)
	}
	if err := perCPU.Put(7, []uint64{3}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Snapshot(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := rec.RecordMap("ring", maptest.New(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096})); err == nil {
		t.Error("recorded a ring as a table")
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}

	r, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := ReplayTable[k, uint32](r, "plain")
	if err != nil {
		t.Fatal(err)
	}
	if m := asMap(t, got); len(m) != 0 {
		t.Error(len(m))
	}
	if m := asMap(t, got); len(m) != 50000 || m[k{9, 10}] != 9 {
		t.Error(len(m))
	}
	counts, err := ReplayTable[uint32, []uint64](r, "percpu")
	if err != nil {
		t.Fatal(err)
	}
	if m := asMap(t, mapx.Sum(counts)); len(m) != 1 || m[7] != 3 {
		t.Error(m)
	}
	if _, err := ReplayTable[uint32, []uint32](r, "percpu"); err == nil {
		t.Error("values of half the size")
	}
	d, err := r.DumpTable("percpu")
	if err != nil {
		t.Fatal(err)
	}
	_, op, entries, err := d.Next()
	if err != nil || op != "Snapshot" || len(entries) != 1 || entries[0].Key != "7" ||
		entries[0].Value[:len("[count=3, count=0")] != "[count=3, count=0" {
		t.Error(op, entries, err)
	}
	if _, _, _, err := d.Next(); err != io.EOF {
		t.Error(err)
	}
	d, err = r.DumpTable("plain")
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, _ = d.Next()
	_, _, entries, err = d.Next()
	if err != nil || len(entries) != 50000 || len(entries[0].Key) != 16 {
		t.Error(len(entries), err, fmt.Sprint(entries[:1]))
	}
}

// asMap takes a snapshot.
func asMap[K comparable, V any](t *testing.T, table mapx.Table[K, V]) map[K]V {
	t.Helper()
	s, err := table.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[K]V)
	for _, e := range s.Entries {
		m[e.Key] = e.Value
	}
	return m
}
