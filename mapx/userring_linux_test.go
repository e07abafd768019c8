package mapx

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// newDrain loads a program that drains the ring, and adds up the first eight
// bytes of each record in counts[1] and their number in counts[0].
func newDrain(t testing.TB, ring, counts *ebpf.Map) *ebpf.Program {
	add := func(slot int64, label string) asm.Instructions {
		return asm.Instructions{
			asm.StoreImm(asm.RFP, -4, slot, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, counts.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, label),
		}
	}
	i32, u64 := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, &btf.Int{Name: "u64", Size: 8}
	proto := func(params ...btf.FuncParam) *btf.FuncProto {
		return &btf.FuncProto{Return: i32, Params: params}
	}
	pointer := &btf.Pointer{Target: &btf.Void{}}
	insns := asm.Instructions{
		btf.WithFuncMetadata(asm.LoadMapPtr(asm.R1, ring.FD()).WithSymbol("entry"), &btf.Func{
			Name: "entry", Type: proto(btf.FuncParam{Name: "ctx", Type: pointer}), Linkage: btf.GlobalFunc,
		}),
		asm.Instruction{
			OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1,
		}.WithReference("each"),
		asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnUserRingbufDrain.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Reg(asm.R3, asm.R1).WithSymbol("each"), &btf.Func{
			Name: "each", Type: proto(btf.FuncParam{Name: "dynptr", Type: pointer}, btf.FuncParam{Name: "ctx", Type: u64}),
			Linkage: btf.StaticFunc,
		}),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -16),
		asm.Mov.Imm(asm.R2, 8), asm.Mov.Imm(asm.R4, 0), asm.Mov.Imm(asm.R5, 0),
		asm.FnDynptrRead.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
	}
	insns = append(insns, add(0, "out")...)
	insns = append(insns, asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0))
	insns = append(insns, add(1, "out")...)
	insns = append(insns,
		asm.LoadMem(asm.R1, asm.RFP, -16, asm.DWord), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return(),
	)
	return newProg(t, insns)
}

func TestUserRing(t *testing.T) {
	ring := newMapSince(t, "6.1", &ebpf.MapSpec{Type: typeUserRing, MaxEntries: 4096, Name: "user"})
	counts := newMap(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2})
	prog := newDrain(t, ring, counts)
	table, err := New[uint32, uint64](counts)
	if err != nil {
		t.Fatal(err)
	}
	u, err := OpenUserRing(ring)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := u.TryWrite(make([]byte, 4096)); err == nil || errors.Is(err, ErrFull) {
		t.Error("a record as large as the ring:", err)
	}

	// Until it is full: 170 records of 24 bytes fit.
	record := make([]byte, 16)
	n := uint64(0)
	for ; err == nil; n++ {
		binary.NativeEndian.PutUint64(record, n)
		err = u.TryWrite(record)
	}
	n--
	if !errors.Is(err, ErrFull) || n != 4096/24 || u.Unread() != int(n)*24 {
		t.Fatal(n, err, u.Unread())
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := u.Write(short, record); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	run(t, prog, 1)
	if got := snapshotMap(t, table); got[0] != n || got[1] != n*(n-1)/2 || u.Unread() != 0 {
		t.Fatal(got, n)
	}

	// Four goroutines against a program that drains: nothing is lost.
	var writers, drain sync.WaitGroup
	stop := make(chan struct{})
	drain.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				run(t, prog, 1)
			}
		}
	})
	const each = 5000
	for range 4 {
		writers.Go(func() {
			b := make([]byte, 8)
			for i := range uint64(each) {
				binary.NativeEndian.PutUint64(b, i)
				if err := u.Write(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	drain.Wait()
	run(t, prog, 1)
	want := n*(n-1)/2 + 4*each*(each-1)/2
	if got := snapshotMap(t, table); got[0] != n+4*each || got[1] != want {
		t.Fatal(got, want)
	}

	if allocs := testing.AllocsPerRun(50, func() { u.TryWrite(record) }); allocs != 0 {
		t.Error(allocs, "allocations")
	}
	for err = nil; err == nil; {
		err = u.TryWrite(record)
	}
	done := make(chan error)
	go func() { done <- u.Write(context.Background(), record) }()
	time.Sleep(2 * time.Millisecond)
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if err := u.TryWrite(record); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenUserRing(counts); err == nil {
		t.Error("opened an array")
	}
}
