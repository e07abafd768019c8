package mapx

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/layout"
	"github.com/borescope/borescope/mapx/internal/maptest"
	"github.com/borescope/borescope/mapx/internal/raw"
)

type key struct {
	PID, TGID uint32
	Comm      [16]byte
	Stack     int32
	_         uint32
}

type value struct {
	Count uint64
	Max   uint32 // and 4 bytes of padding
}

func testKey(i int) key {
	k := key{PID: uint32(i), TGID: uint32(i / 2), Stack: int32(-i)}
	copy(k.Comm[:], fmt.Sprint("comm", i))
	return k
}

func hashTypes() []ebpf.MapType { return []ebpf.MapType{ebpf.Hash, ebpf.LRUHash} }

// withoutBatches makes t read as on a kernel without batches.
func withoutBatches(r *raw.Map) {
	for _, cmd := range []kernel.MapCommand{kernel.MapLookupBatch, kernel.MapLookupDelBatch} {
		r.SetLacks(cmd)
	}
}

func TestMapSnapshot(t *testing.T) {
	for _, typ := range hashTypes() {
		for _, batches := range []bool{true, false} {
			t.Run(fmt.Sprint(typ, batches), func(t *testing.T) {
				m := maptest.New(t, &ebpf.MapSpec{
					Type: typ, KeySize: 32, ValueSize: 16, MaxEntries: 40000, Name: "m",
				})
				table, err := New[key, value](m)
				if err != nil {
					t.Fatal(err)
				}
				if !batches {
					withoutBatches(table.raw)
				}
				if got := snapshotMap(t, table); len(got) != 0 {
					t.Fatal("empty map has", got)
				}
				want := map[key]value{}
				for i := range 10000 {
					k, v := testKey(i), value{Count: uint64(i) << 33, Max: uint32(i)}
					if err := table.Put(k, v); err != nil {
						t.Fatal(err)
					}
					want[k] = v
				}
				if got := snapshotMap(t, table); !maps.Equal(got, want) {
					t.Fatalf("%d entries, want %d", len(got), len(want))
				}
				all, errf := table.All()
				if got := maps.Collect(all); errf() != nil || !maps.Equal(got, want) {
					t.Fatal("All", errf(), len(got))
				}
				for range all { // stops early
					break
				}
				v, ok, err := table.Lookup(testKey(77))
				if !ok || err != nil || v != want[testKey(77)] {
					t.Fatal(v, ok, err)
				}
				if err := table.Delete(testKey(77)); err != nil {
					t.Fatal(err)
				}
				if _, ok, err := table.Lookup(testKey(77)); ok || err != nil {
					t.Fatal(ok, err)
				}
				if err := table.Delete(testKey(77)); err != nil {
					t.Fatal("deleting what is not there:", err)
				}
				delete(want, testKey(77))
				s, err := table.ReadAndClear()
				if err != nil || !maps.Equal(entryMap(t, s), want) {
					t.Fatal(err, len(s.Entries))
				}
				if got := snapshotMap(t, table); len(got) != 0 {
					t.Fatal(len(got), "entries after ReadAndClear")
				}
			})
		}
	}
}

func TestMapOfOneBucket(t *testing.T) {
	// Two entries in a map for two: a batch that is smaller than a bucket.
	m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 300})
	table, err := New[uint32, uint64](m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(300) {
		if err := table.Put(i, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	b := table.raw.Take()
	b.Resize(table.raw, 1)
	table.raw.Put(b)
	if got := snapshotMap(t, table); len(got) != 300 {
		t.Fatal(len(got))
	}
	if table.raw.Spare.Count == 1 {
		t.Fatal("no bucket held two of 300 entries?")
	}
}

func TestMapLayoutErrors(t *testing.T) {
	m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 12, ValueSize: 8, MaxEntries: 8})
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	type big struct{ A, B, C, D uint32 }
	_, err := New[big, uint64](m)
	check(err, "no room for field D (u32 at offset 12)")
	type small struct{ A, B uint32 }
	_, err = New[small, uint64](m)
	check(err, "nothing covers the bytes after field B")
	type native struct{ A uint }
	_, err = New[[12]byte, native](m)
	check(err, "use uint32 or uint64")
	type pointed struct {
		A uint32
		B *int32
	}
	_, err = New[[12]byte, pointed](m)
	check(err, "field B: a *int32 is not plain data")
	_, err = NewPerCPU[[12]byte, uint64](m)
	check(err, "use New")
	_, err = New[uint32, uint64](newCounts(t, 2))
	check(err, "use NewPerCPU")
}

// TestMapPacked: C's __attribute__((packed)) key of 12 bytes, in a Go struct
// that is padded to 16.
func TestMapPacked(t *testing.T) {
	type packed struct {
		A uint32
		B uint64
	}
	m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 12, ValueSize: 12, MaxEntries: 8})
	table, err := New[packed, packed](m)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Put(packed{1, 2}, packed{3, 4}); err != nil {
		t.Fatal(err)
	}
	raw, err := m.LookupBytes([]byte{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0})
	if err != nil || string(raw) != "\x03\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00" {
		t.Fatalf("%x %v", raw, err)
	}
	if got := snapshotMap(t, table); got[packed{1, 2}] != (packed{3, 4}) {
		t.Fatal(got)
	}
}

func TestMapBTF(t *testing.T) {
	u32 := &btf.Int{Name: "u32", Size: 4}
	u64 := &btf.Int{Name: "u64", Size: 8}
	keyType := &btf.Struct{Name: "key", Size: 8, Members: []btf.Member{
		{Name: "pid", Type: u32}, {Name: "cpu", Type: &btf.Typedef{Name: "__u32", Type: u32}, Offset: 32},
	}}
	valueType := &btf.Struct{Name: "value", Size: 16, Members: []btf.Member{
		{Name: "count", Type: u64},
		{Name: "in", Type: &btf.Struct{Name: "in", Size: 8, Members: []btf.Member{
			{Name: "a", Type: u32}, {Name: "b", Type: u32, Offset: 32},
		}}, Offset: 64},
	}}
	m := maptest.New(t, &ebpf.MapSpec{
		Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: 8, Key: keyType, Value: valueType,
	})
	type k struct{ PID, CPU uint32 }
	type in struct{ A, B uint32 }
	type v struct {
		Count uint64
		In    in
	}
	if _, err := New[k, v](m); err != nil {
		t.Error(err)
	}
	if _, err := New[[8]byte, [16]byte](m); err != nil {
		t.Error("bytes lie on anything:", err)
	}
	type v2 struct {
		Count uint64
		Wide  uint64
	}
	_, err := New[k, v2](m)
	if err == nil || !strings.Contains(err.Error(), "value: field Wide (u64 at offset 8) lies on the map's in.a (u32 at offset 8)") {
		t.Error(err)
	}
	type k2 struct{ PID, _, CPU uint16 }
	_, err = New[struct{ A uint64 }, v](m)
	if err == nil || !strings.Contains(err.Error(), "key: field A") {
		t.Error(err)
	}
	_ = k2{}
}

func TestArray(t *testing.T) {
	for _, batches := range []bool{true, false} {
		m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 70000})
		table, err := New[uint32, uint64](m)
		if err != nil {
			t.Fatal(err)
		}
		if !batches {
			withoutBatches(table.raw)
		}
		for _, i := range []uint32{0, 5, 69999} {
			if err := table.Put(i, uint64(i)+1); err != nil {
				t.Fatal(err)
			}
		}
		s, err := table.Snapshot()
		if err != nil || len(s.Entries) != 70000 {
			t.Fatal(err, len(s.Entries))
		}
		for i, e := range s.Entries {
			want := uint64(0)
			if i == 0 || i == 5 || i == 69999 {
				want = uint64(i) + 1
			}
			if e.Key != uint32(i) || e.Value != want {
				t.Fatal(i, e)
			}
		}
		if _, err := table.ReadAndClear(); !errors.Is(err, errors.ErrUnsupported) ||
			!errors.Is(err, ebpf.ErrNotSupported) {
			t.Fatal(err)
		}
		if err := table.Clear(); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := table.Lookup(69999); v != 0 || !ok || err != nil {
			t.Fatal(v, ok, err)
		}
	}
}

func TestLPMTrie(t *testing.T) {
	m := maptest.New(t, &ebpf.MapSpec{
		Type: ebpf.LPMTrie, KeySize: 8, ValueSize: 4, MaxEntries: 1000, Flags: 1, // BPF_F_NO_PREALLOC
	})
	type prefix struct {
		Bits uint32
		Addr [4]byte
	}
	table, err := New[prefix, uint32](m)
	if err != nil {
		t.Fatal(err)
	}
	want := map[prefix]uint32{}
	for i := range uint32(200) {
		k := prefix{Bits: 24, Addr: [4]byte{10, byte(i), 1, 0}}
		want[k] = i
		if err := table.Put(k, i); err != nil {
			t.Fatal(err)
		}
	}
	if got := snapshotMap(t, table); !maps.Equal(got, want) {
		t.Fatal(len(got))
	}
	if v, ok, err := table.Lookup(prefix{32, [4]byte{10, 7, 1, 99}}); v != 7 || !ok || err != nil {
		t.Fatal("longest prefix:", v, ok, err)
	}
	s, err := table.ReadAndClear()
	if err != nil || !maps.Equal(entryMap(t, s), want) {
		t.Fatal(err, len(s.Entries))
	}
	if got := snapshotMap(t, table); len(got) != 0 {
		t.Fatal(got)
	}
}

func TestPerCPU(t *testing.T) {
	for _, typ := range []ebpf.MapType{ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.PerCPUArray} {
		for _, batches := range []bool{true, false} {
			t.Run(fmt.Sprint(typ, batches), func(t *testing.T) {
				// 12 bytes: the kernel's stride is 16, Go's 12.
				type v struct{ A, B, C uint32 }
				m := maptest.New(t, &ebpf.MapSpec{Type: typ, KeySize: 4, ValueSize: 12, MaxEntries: 9000})
				table, err := NewPerCPU[uint32, v](m)
				if err != nil {
					t.Fatal(err)
				}
				if !batches {
					withoutBatches(table.raw)
				}
				for i := range uint32(3000) {
					vs := make([]v, table.CPUs())
					for c := range vs {
						vs[c] = v{i, uint32(c), i + uint32(c)}
					}
					if err := table.Put(i, vs); err != nil {
						t.Fatal(err)
					}
				}
				check := func(s Snapshot[uint32, []v], err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
					got := entryMap(t, s)
					for i := range uint32(3000) {
						if len(got[i]) != table.CPUs() {
							t.Fatal(i, got[i])
						}
						for c, x := range got[i] {
							if x != (v{i, uint32(c), i + uint32(c)}) {
								t.Fatal(i, c, x)
							}
						}
					}
				}
				check(table.Snapshot())
				all, errf := table.All()
				n := 0
				for k, vs := range all {
					if n++; k < 3000 && vs[0].A != k {
						t.Fatal(k, vs)
					}
				}
				if errf() != nil || n < 3000 {
					t.Fatal(n, errf())
				}
				sums := snapshotMap(t, SumOf(table, func(sum, x *v) { sum.C += x.C }))
				cpus := uint32(table.CPUs())
				if want := 100*cpus + cpus*(cpus-1)/2; sums[100].C != want {
					t.Fatal(sums[100], want)
				}
				if typ == ebpf.PerCPUArray {
					if _, err := table.ReadAndClear(); !errors.Is(err, errors.ErrUnsupported) {
						t.Fatal(err)
					}
					check(table.drain())
					if got := snapshotMap(t, table); got[7][0] != (v{}) || len(got) != 9000 {
						t.Fatal(got[7])
					}
					return
				}
				if err := table.Delete(5000); err != nil {
					t.Fatal(err)
				}
				check(table.ReadAndClear())
				if got := snapshotMap(t, table); len(got) != 0 {
					t.Fatal(len(got), "entries after ReadAndClear")
				}
			})
		}
	}
}

func TestPerCPUViews(t *testing.T) {
	m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.PerCPUHash, KeySize: 4, ValueSize: 8, MaxEntries: 4})
	table, err := NewPerCPU[uint32, uint64](m)
	if err != nil {
		t.Fatal(err)
	}
	vs := make([]uint64, table.CPUs())
	want := uint64(0)
	for i := range vs {
		vs[i] = uint64(i) + 10
		want += vs[i]
	}
	if err := table.Put(1, vs); err != nil {
		t.Fatal(err)
	}
	if got := snapshotMap(t, Sum(table)); got[1] != want {
		t.Fatal(got, want)
	}
	first := Reduce(table, func(cpus []uint64) uint64 { return cpus[0] })
	if got := snapshotMap(t, first); got[1] != 10 {
		t.Fatal(got)
	}
	if err := table.Zero(); err != nil {
		t.Fatal(err)
	}
	if got := snapshotMap(t, Sum(table)); len(got) != 1 || got[1] != 0 {
		t.Fatal(got)
	}
	if err := table.Put(1, make([]uint64, table.CPUs()+1)); err == nil {
		t.Fatal("took a value for a CPU that can't be")
	}
}

// TestSnapshotUnderChange: entries that stay are in every snapshot once, while
// others come and go as fast as they can; and it ends.
func TestSnapshotUnderChange(t *testing.T) {
	for _, batches := range []bool{true, false} {
		m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 20000})
		table, err := New[uint32, uint64](m)
		if err != nil {
			t.Fatal(err)
		}
		if !batches {
			withoutBatches(table.raw)
		}
		for i := range uint32(2000) {
			if err := table.Put(i, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := uint32(2000); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := 2000 + i%8000
				if i/8000%2 == 0 {
					_ = table.Put(k, uint64(k))
				} else {
					_ = table.Delete(k)
				}
			}
		})
		unsettled := 0
		for deadline := time.Now().Add(200 * time.Millisecond); time.Now().Before(deadline); {
			s, err := table.Snapshot()
			if errors.Is(err, raw.ErrUnsettled) && !batches {
				unsettled++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got := entryMap(t, s)
			for i := range uint32(2000) {
				if v, ok := got[i]; !ok || v != uint64(i) {
					t.Fatal("entry", i, v, ok)
				}
			}
			for k, v := range got {
				if uint64(k) != v {
					t.Fatal(k, v)
				}
			}
		}
		close(stop)
		wg.Wait()
		if unsettled > 0 {
			t.Log("without batches:", unsettled, "snapshots were refused as unsettled")
		}
	}
}

// newFlipMaps makes the parts of a Flip.
func newFlipMaps(t testing.TB, inner *ebpf.MapSpec) (outer, a, b *ebpf.Map) {
	a, b = maptest.New(t, inner), maptest.New(t, inner)
	outer = maptest.New(t, &ebpf.MapSpec{
		Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner,
	})
	return outer, a, b
}

// flipProgram counts its runs in total, and adds one to a random key below 64 of
// the map that outer[0] points to.
func flipProgram(t testing.TB, outer, total *ebpf.Map) *ebpf.Program {
	lookup := func(m asm.Instruction, label string) asm.Instructions {
		return asm.Instructions{
			m, asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, label),
		}
	}
	insns := asm.Instructions{asm.StoreImm(asm.RFP, -4, 0, asm.Word)}
	insns = append(insns, lookup(asm.LoadMapPtr(asm.R1, total.FD()), "out")...)
	insns = append(insns, asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0))
	insns = append(insns, lookup(asm.LoadMapPtr(asm.R1, outer.FD()), "out")...)
	insns = append(insns,
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 63),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
	)
	insns = append(insns, lookup(asm.Mov.Reg(asm.R1, asm.R6), "insert")...)
	insns = append(insns,
		asm.Mov.Imm(asm.R1, 1).WithSymbol("add"),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Ja.Label("out"),
		// Insert 0 unless another CPU was faster, then look again.
		asm.Mov.Imm(asm.R1, 0).WithSymbol("insert"),
		asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
		asm.FnMapUpdateElem.Call(),
	)
	insns = append(insns, lookup(asm.Mov.Reg(asm.R1, asm.R6), "out")...)
	insns = append(insns,
		asm.Ja.Label("add"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return(),
	)
	return newProg(t, insns)
}

func TestFlipLosesNothing(t *testing.T) {
	maptest.Need(t)
	flip := func(t *testing.T, outer *ebpf.Map, table Table[uint32, uint64]) {
		total := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
		prog := flipProgram(t, outer, total)
		var wg sync.WaitGroup
		var stop atomic.Bool
		for range 8 {
			wg.Go(func() {
				for !stop.Load() {
					run(t, prog, 2000)
				}
			})
		}
		sum := uint64(0)
		read := func() {
			s, err := table.ReadAndClear()
			if err != nil {
				t.Error(err)
			}
			for _, n := range entryMap(t, s) {
				sum += n
			}
		}
		// Five reads, and on until one met updates: the first ones may end
		// before a slow machine has run the program at all.
		for i := 0; i < 5 || sum == 0 && !t.Failed(); i++ {
			read()
		}
		stop.Store(true)
		wg.Wait()
		during := sum
		read()
		var updates uint64
		if err := total.Lookup(uint32(0), &updates); err != nil {
			t.Fatal(err)
		}
		if sum != updates {
			t.Fatalf("%d of %d updates, %d while they arrived", sum, updates, during)
		}
		t.Logf("%d updates, %d of them in reads meanwhile", sum, during)
	}
	for _, typ := range []ebpf.MapType{ebpf.Hash, ebpf.Array} {
		t.Run(typ.String(), func(t *testing.T) {
			outer, a, b := newFlipMaps(t, &ebpf.MapSpec{Type: typ, KeySize: 4, ValueSize: 8, MaxEntries: 64})
			ta, err := New[uint32, uint64](a)
			if err != nil {
				t.Fatal(err)
			}
			tb, err := New[uint32, uint64](b)
			if err != nil {
				t.Fatal(err)
			}
			f, err := NewFlip(outer, 0, ta, tb)
			if err != nil {
				t.Fatal(err)
			}
			flip(t, outer, f)
		})
	}
	for _, typ := range []ebpf.MapType{ebpf.PerCPUHash, ebpf.PerCPUArray} {
		t.Run(typ.String(), func(t *testing.T) {
			outer, a, b := newFlipMaps(t, &ebpf.MapSpec{Type: typ, KeySize: 4, ValueSize: 8, MaxEntries: 64})
			ta, err := NewPerCPU[uint32, uint64](a)
			if err != nil {
				t.Fatal(err)
			}
			tb, err := NewPerCPU[uint32, uint64](b)
			if err != nil {
				t.Fatal(err)
			}
			f, err := NewFlipPerCPU(outer, 0, ta, tb)
			if err != nil {
				t.Fatal(err)
			}
			flip(t, outer, Sum(f))
		})
	}
}

func TestFlipRefusesOtherMaps(t *testing.T) {
	m := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 64})
	table, err := New[uint32, uint64](m)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := NewFlip(m, 0, table, table); err == nil || f != nil {
		t.Fatal(f, err)
	}
}

func TestAlignedBytes(t *testing.T) {
	for n := range 70 {
		b := layout.AlignedBytes(n)
		if len(b) != n || n > 0 && uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
			t.Fatal(n, len(b))
		}
	}
}
