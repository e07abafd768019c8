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
	"github.com/cilium/ebpf/ringbuf"

	"github.com/borescope/borescope/mapx/internal/maptest"
)

func openRing(t testing.TB, e *emitter, opts *RingOptions) *Ring {
	t.Helper()
	if opts == nil {
		opts = &RingOptions{Lost: e.counts, LostSlot: 1}
	}
	r, err := OpenRing(e.out, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// checkSequence checks that each CPU's records come in order, once.
type checkSequence struct {
	next map[uint64]uint64
	read uint64
}

func (c *checkSequence) add(t testing.TB, data []byte) {
	if len(data) != 32 || u64(data, 16) != 0x1122 || u64(data, 24) != 0x3344 {
		t.Fatalf("record %x", data)
	}
	seq, cpu := u64(data, 0), u64(data, 8)
	if seq < c.next[cpu] {
		t.Fatalf("cpu %d: sequence %d after %d", cpu, seq, c.next[cpu]-1)
	}
	c.next[cpu] = seq + 1
	c.read++
}

func newSequence() *checkSequence { return &checkSequence{next: map[uint64]uint64{}} }

func TestRingReadsInOrder(t *testing.T) {
	e := newRingEmitter(t, 1<<16, 0)
	r := openRing(t, e, nil)
	seq := newSequence()
	var rec Record
	for round := range 50 { // far around the ring
		const n = 1000
		run(t, e.prog, n)
		for i := range n {
			if err := r.ReadInto(t.Context(), &rec); err != nil {
				t.Fatal(err)
			}
			seq.add(t, rec.Data)
			if want := (n - 1 - i) * 40; rec.Remaining != want || rec.CPU != -1 || rec.Lost != 0 {
				t.Fatalf("round %d record %d: %+v, want remaining %d", round, i, rec, want)
			}
		}
	}
	s, err := r.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if s.Read != 50*1000 || s.Read != e.total(t, 0) || s.Bytes != s.Read*32 || s.Lost != 0 || s.Fill != 0 || s.Size != 1<<16 {
		t.Fatalf("%+v", s)
	}
}

func TestRingCountsLoss(t *testing.T) {
	e := newRingEmitter(t, 1<<12, 0)
	r := openRing(t, e, nil)
	run(t, e.prog, 1000) // 102 records of 40 bytes fit
	n, drained, err := r.Drain(0, func(rec *Record) error { return nil })
	if err != nil || !drained || n != 102 {
		t.Fatal(n, drained, err)
	}
	s, err := r.Stats()
	if err != nil || s.Lost != 1000-102 || s.Read != 102 {
		t.Fatalf("%+v %v", s, err)
	}
	cpus := uint64(0)
	for _, n := range s.LostByCPU {
		cpus += n
	}
	if cpus != s.Lost {
		t.Fatalf("by CPU %v", s.LostByCPU)
	}
}

// flood runs n events on two threads while read consumes, and returns once all
// is read.
func flood(t testing.TB, e *emitter, r *Ring, n int, read func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	wg := runOnAll(t, e.prog, 2, n/2)
	done := make(chan error, 1)
	go func() { done <- read(ctx) }()
	wg.Wait()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestRingFloodIsExact(t *testing.T) {
	for _, size := range []uint32{1 << 12, 1 << 16, 1 << 20} {
		e := newRingEmitter(t, size, 0)
		r := openRing(t, e, nil)
		seq := newSequence()
		total := floodOf(size == 1<<16)
		lost := uint64(0)
		flood(t, e, r, total, func(ctx context.Context) error {
			var rec Record
			for {
				if err := r.ReadInto(ctx, &rec); err != nil {
					return err
				}
				lost += rec.Lost
				seq.add(t, rec.Data)
			}
		})
		s, err := r.Stats()
		if err != nil {
			t.Fatal(err)
		}
		produced := e.total(t, 0)
		if produced < uint64(total) || s.Read+s.Lost != produced || s.Read != seq.read || lost > s.Lost {
			t.Fatalf("size %d: produced %d, %+v, records said %d", size, produced, s, lost)
		}
		t.Logf("size %d: read %d, lost %d, waits %d", size, s.Read, s.Lost, s.Waits)
	}
}

func TestRingDrainIsExact(t *testing.T) {
	e := newRingEmitter(t, 1<<15, 0)
	r := openRing(t, e, nil)
	seq := newSequence()
	flood(t, e, r, floodOf(false), func(ctx context.Context) error {
		for {
			_, drained, err := r.Drain(100, func(rec *Record) error {
				seq.add(t, rec.Data)
				return nil
			})
			if err != nil {
				return err
			}
			if drained {
				if err := r.Wait(ctx); err != nil {
					return err
				}
			}
		}
	})
	// What came between the last drain and the end of the context.
	if _, _, err := r.Drain(0, func(rec *Record) error { seq.add(t, rec.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	s, err := r.Stats()
	if produced := e.total(t, 0); err != nil || s.Read+s.Lost != produced || seq.read != s.Read {
		t.Fatalf("%+v %v, seen %d", s, err, seq.read)
	}
}

func TestRingWaits(t *testing.T) {
	e := newRingEmitter(t, 1<<16, 0)
	r := openRing(t, e, nil)
	var rec Record

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.ReadInto(ctx, &rec); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// A context that has ended doesn't hide a record, nor hurt the next read.
	run(t, e.prog, 1)
	if err := r.ReadInto(ctx, &rec); err != nil {
		t.Fatal(err)
	}
	if err := r.ReadInto(ctx, &rec); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for range 200 { // wake-ups, with cancellations racing in between
		var wg sync.WaitGroup
		wg.Go(func() { run(t, e.prog, 1) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		wg.Go(func() { time.Sleep(100 * time.Microsecond); cancel() })
		err := r.ReadInto(ctx, &rec)
		if errors.Is(err, context.Canceled) {
			err = r.ReadInto(t.Context(), &rec)
		}
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}

	done := make(chan error)
	go func() { done <- r.ReadInto(context.Background(), &rec) }()
	time.Sleep(5 * time.Millisecond)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if err := r.ReadInto(t.Context(), &rec); !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal("second close:", err)
	}
	if s, err := r.Stats(); err != nil || s.Read != 201 {
		t.Fatal(s, err)
	}
}

func TestRingPollsWithoutWakeups(t *testing.T) {
	const noWakeup = 1
	e := newRingEmitter(t, 1<<16, noWakeup)
	r := openRing(t, e, &RingOptions{Poll: 2 * time.Millisecond})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		time.Sleep(10 * time.Millisecond)
		run(t, e.prog, 3)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var rec Record
	for range 3 {
		if err := r.ReadInto(ctx, &rec); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRingReadAllocatesNothing(t *testing.T) {
	e := newRingEmitter(t, 1<<20, 0)
	r := openRing(t, e, nil)
	run(t, e.prog, 20000)
	rec := Record{Data: make([]byte, 0, 64)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n := testing.AllocsPerRun(10000, func() {
		if err := r.ReadInto(ctx, &rec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatal(n, "allocations per record")
	}
	fn := func(*Record) error { return nil }
	if n := testing.AllocsPerRun(50, func() { r.Drain(100, fn) }); n > 1 {
		t.Fatal(n, "allocations per drain of 100")
	}
}

func TestRingRefusesOtherMaps(t *testing.T) {
	hash := maptest.New(t, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 8})
	if _, err := OpenRing(hash, nil); err == nil {
		t.Error("opened a hash")
	}
	ring := maptest.New(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096})
	if _, err := OpenRing(ring, &RingOptions{Lost: hash}); err == nil {
		t.Error("took a hash as the lost counter")
	}
	array := newCounts(t, 2)
	if _, err := OpenRing(ring, &RingOptions{Lost: array, LostSlot: 2}); err == nil {
		t.Error("took slot 2 of 2")
	}
}

// fill puts as many 32-byte records into the ring as it holds.
func fill(b *testing.B, e *emitter, n int) {
	b.StopTimer()
	run(b, e.prog, n)
	b.StartTimer()
}

const benchRecords = 1 << 18 // of 40 bytes, in a ring of 16 MiB

func BenchmarkRing(b *testing.B) {
	perRecord := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("ReadInto", func(b *testing.B) {
		e := newRingEmitter(b, 1<<24, 0)
		r := openRing(b, e, nil)
		var rec Record
		for range b.N {
			fill(b, e, benchRecords)
			for range benchRecords {
				if err := r.ReadInto(context.Background(), &rec); err != nil {
					b.Fatal(err)
				}
			}
		}
		perRecord(b)
	})
	b.Run("Drain", func(b *testing.B) {
		e := newRingEmitter(b, 1<<24, 0)
		r := openRing(b, e, nil)
		for range b.N {
			fill(b, e, benchRecords)
			n, _, err := r.Drain(0, func(rec *Record) error { return nil })
			if n != benchRecords || err != nil {
				b.Fatal(n, err)
			}
		}
		perRecord(b)
	})
	b.Run("cilium", func(b *testing.B) {
		e := newRingEmitter(b, 1<<24, 0)
		r, err := ringbuf.NewReader(e.out)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		var rec ringbuf.Record
		for range b.N {
			fill(b, e, benchRecords)
			for range benchRecords {
				if err := r.ReadInto(&rec); err != nil {
					b.Fatal(err)
				}
			}
		}
		perRecord(b)
	})
	runtime.KeepAlive(b)
}

// TestRingOutlivesItsLostCounter: a counter that was closed too early costs no
// record; Stats says that the loss is not known.
func TestRingOutlivesItsLostCounter(t *testing.T) {
	e := newRingEmitter(t, 1<<12, 0)
	lost, err := e.counts.Clone()
	if err != nil {
		t.Fatal(err)
	}
	r := openRing(t, e, &RingOptions{Lost: lost, LostSlot: 1})
	run(t, e.prog, 100)
	lost.Close()
	var rec Record
	for range 100 {
		if err := r.ReadInto(t.Context(), &rec); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := r.Stats(); err == nil || s.Read != 100 {
		t.Fatal(s, err)
	}
}
