package mapx

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/mapx/internal/maptest"
)

func newPerfEmitter(t testing.TB) *emitter {
	out := maptest.New(t, &ebpf.MapSpec{Type: ebpf.PerfEventArray, Name: "events"})
	counts := newCounts(t, 2)
	insns := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	insns = append(insns, bump(counts, 0, "out")...)
	insns = append(insns,
		asm.StoreMem(asm.RFP, -40, asm.R7, asm.DWord),
		asm.FnGetSmpProcessorId.Call(),
		asm.StoreMem(asm.RFP, -32, asm.R0, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, -24, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, 0x3344),
		asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, out.FD()),
		asm.LoadImm(asm.R3, 0xffffffff, asm.DWord), // BPF_F_CURRENT_CPU
		asm.Mov.Reg(asm.R4, asm.RFP),
		asm.Add.Imm(asm.R4, -40),
		asm.Mov.Imm(asm.R5, 32),
		asm.FnPerfEventOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	)
	insns = append(insns, bump(counts, 1, "out")...)
	insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
	return &emitter{prog: newProg(t, insns), out: out, counts: counts}
}

func openPerf(t testing.TB, e *emitter, opts *PerfBufferOptions) *PerfBuffer {
	t.Helper()
	p, err := OpenPerfBuffer(e.out, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func perfSequence(t testing.TB, next []uint64, rec *Record) {
	if len(rec.Data) < 32 || u64(rec.Data, 24) != 0x3344 || u64(rec.Data, 8) != uint64(rec.CPU) {
		t.Fatalf("record %+v", rec)
	}
	if seq := u64(rec.Data, 0); seq < next[rec.CPU] {
		t.Fatalf("cpu %d: sequence %d after %d", rec.CPU, seq, next[rec.CPU]-1)
	} else {
		next[rec.CPU] = seq + 1
	}
}

func TestPerfBufferReads(t *testing.T) {
	e := newPerfEmitter(t)
	p := openPerf(t, e, nil)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next := make([]uint64, 1024)
	var rec Record
	for round := range 50 {
		before := e.total(t, 0)
		run(t, e.prog, 500)
		n := int(e.total(t, 0) - before)
		for i := range n {
			if err := p.ReadInto(t.Context(), &rec); err != nil {
				t.Fatal(err)
			}
			perfSequence(t, next, &rec)
			if rec.Lost != 0 || (rec.Remaining == 0) != (i == n-1) {
				t.Fatalf("round %d record %d: %+v", round, i, rec)
			}
		}
	}
	s, err := p.Stats()
	if err != nil || s.Read != e.total(t, 0) || s.Lost != 0 || s.Fill != 0 {
		t.Fatalf("%+v %v", s, err)
	}
}

func TestPerfBufferFloodIsExact(t *testing.T) {
	for _, opts := range []PerfBufferOptions{
		{PerCPU: 4096},
		{PerCPU: 1 << 16, WakeupBytes: 1 << 15, Poll: 5 * time.Millisecond},
		{PerCPU: 1 << 20, Order: time.Millisecond},
		{PerCPU: 4096, Lost: &ebpf.Map{}},
	} {
		e := newPerfEmitter(t)
		if opts.Lost != nil {
			opts.Lost, opts.LostSlot = e.counts, 1
		}
		p := openPerf(t, e, &opts)
		total := uint64(floodOf(opts.WakeupBytes > 0))
		if total < 1e6 {
			total /= 4 // an output takes ten times as long as a ring's, in an emulated guest
		}
		ctx, cancel := context.WithCancel(t.Context())
		wg := runOnAll(t, e.prog, 2, int(total/2))
		go func() { wg.Wait(); cancel() }()
		next := make([]uint64, 1024)
		var rec Record
		read, lost, unordered, newest := uint64(0), uint64(0), 0, uint64(0)
		drain := func() {
			for {
				err := p.ReadInto(ctx, &rec)
				if errors.Is(err, context.Canceled) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				perfSequence(t, next, &rec)
				read++
				lost += rec.Lost
				if now := u64(rec.Data, 16); now < newest {
					unordered++
				} else {
					newest = now
				}
			}
		}
		drain()
		// Before Linux 6.0 a loss is told by the next record that fits.
		runOnAll(t, e.prog, 2, 1).Wait()
		drain()
		s, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v; records out of order %d, losses told %d", s, unordered, lost)
		if s.Read != read || s.Read+s.Lost != e.total(t, 0) || e.total(t, 0) < total || lost > s.Lost {
			t.Errorf("produced %d, read %d, %+v, records told of %d lost", total, read, s, lost)
		}
		if e.total(t, 1) != s.Lost {
			t.Errorf("the program counted %d lost, the buffer %d", e.total(t, 1), s.Lost)
		}
		// The program's own clock is read a moment before the kernel's: a few
		// pairs may be crossed by that, not by the reader.
		if opts.Order > 0 && unordered > int(total/100) {
			t.Errorf("%d of %d records out of order", unordered, read)
		}
	}
}

func TestPerfBufferWaitsAndCloses(t *testing.T) {
	e := newPerfEmitter(t)
	p := openPerf(t, e, &PerfBufferOptions{PerCPU: 5000})
	var rec Record
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.ReadInto(ctx, &rec); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for range 200 {
		var wg sync.WaitGroup
		wg.Go(func() { run(t, e.prog, 1) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := p.ReadInto(ctx, &rec); err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
	}
	done := make(chan error)
	go func() { done <- p.ReadInto(context.Background(), &rec) }()
	time.Sleep(5 * time.Millisecond)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := p.Stats(); err != nil || s.Read != 200 {
		t.Fatal(s, err)
	}
	// The array is empty again: output fails instead of going nowhere.
	run(t, e.prog, 1)
	if e.total(t, 1) == 0 {
		t.Fatal("the program still finds a buffer")
	}
}

func TestPerfBufferReadAllocatesNothing(t *testing.T) {
	e := newPerfEmitter(t)
	p := openPerf(t, e, &PerfBufferOptions{PerCPU: 1 << 20})
	run(t, e.prog, 12000)
	rec := Record{Data: make([]byte, 0, 64)}
	if n := testing.AllocsPerRun(10000, func() {
		if err := p.ReadInto(t.Context(), &rec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatal(n, "allocations per record")
	}
}

func TestPerfBufferRefuses(t *testing.T) {
	ring := maptest.New(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096})
	if _, err := OpenPerfBuffer(ring, nil); err == nil {
		t.Error("opened a ring")
	}
	array := maptest.New(t, &ebpf.MapSpec{Type: ebpf.PerfEventArray})
	if _, err := OpenPerfBuffer(array, &PerfBufferOptions{WakeupBytes: 1, WakeupEvents: 1}); err == nil {
		t.Error("took both kinds of wake-up")
	}
	if _, err := OpenPerfBuffer(array, &PerfBufferOptions{Lost: ring}); err == nil {
		t.Error("took a ring as lost counter")
	}
	if online, err := cpus.Online(nil); err == nil && len(online) > 1 {
		// Smaller than the machine: the CPUs that have a place are read.
		one := maptest.New(t, &ebpf.MapSpec{Type: ebpf.PerfEventArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		p, err := OpenPerfBuffer(one, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
}
