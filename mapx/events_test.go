package mapx

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

type event struct {
	Time uint64
	CPU  uint32
	N    uint32
}

func eventRecord(at uint64, cpu, n int, remaining int) Record {
	b := binary.NativeEndian.AppendUint64(nil, at)
	b = binary.NativeEndian.AppendUint32(b, uint32(cpu))
	b = binary.NativeEndian.AppendUint32(b, uint32(n))
	return Record{Data: b, CPU: cpu, Remaining: remaining}
}

func TestEvents(t *testing.T) {
	long := eventRecord(3, 1, 9, 0)
	long.Data = append(long.Data, "text"...)
	src := &listSource{records: []Record{eventRecord(1, 0, 7, 1), {Data: []byte("short")}, long}}
	e, err := NewEvents[event](src)
	if err != nil {
		t.Fatal(err)
	}
	var v event
	if err := e.Next(t.Context(), &v); err != nil || v != (event{1, 0, 7}) {
		t.Fatal(v, err)
	}
	if err := e.Next(t.Context(), &v); err == nil || !strings.Contains(err.Error(), "event of 5 bytes") {
		t.Fatal(err)
	}
	if err := e.Next(t.Context(), &v); err != nil || v != (event{3, 1, 9}) || string(e.Record().Data[16:]) != "text" {
		t.Fatal(v, err)
	}
	if err := e.Next(t.Context(), &v); err != io.EOF {
		t.Fatal(err)
	}
	if _, err := NewEvents[*int](src); err == nil {
		t.Fatal("events with pointers")
	}
	src.at = 0
	all, errf := e.All(t.Context())
	n := 0
	for range all {
		n++
	}
	if n != 1 || errf() == nil {
		t.Fatal("a short record ends the loop with an error:", n, errf())
	}
	src.records = append(src.records[:1], src.records[2])
	src.at = 0
	all, errf = e.All(t.Context())
	for range all {
		n++
	}
	if n != 3 || errf() != nil {
		t.Fatal(n, errf())
	}
	src.records, src.at = []Record{eventRecord(1, 0, 7, 1)}, 0
	if n := testing.AllocsPerRun(100, func() { src.at = 0; e.Next(context.Background(), &v) }); n != 0 {
		t.Fatal(n, "allocations")
	}
}

func eventTime(r *Record) uint64 { return u64(r.Data, 0) }

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }

func TestSort(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 1000
	var records []Record
	for i := range n { // each at most 20 places off
		records = append(records, eventRecord(uint64(10*i)+r.Uint64N(200), i%2, i, n-1-i))
	}
	for _, window := range []int{1, 21, 5000} {
		s := Sort(&listSource{records: records}, window, eventTime)
		got, err := readAll(t, s)
		if err != io.EOF || len(got) != n {
			t.Fatal(window, err, len(got))
		}
		late, newest := uint64(0), uint64(0)
		seen := map[uint32]bool{}
		for i := range got {
			at := eventTime(&got[i])
			if at < newest {
				late++
			}
			newest = max(newest, at)
			seen[binary.NativeEndian.Uint32(got[i].Data[12:])] = true
			if (got[i].Remaining == 0) != (i == n-1) {
				t.Fatal(i, got[i].Remaining)
			}
		}
		if late != s.Late() || len(seen) != n || (late == 0) != (window > 1) {
			t.Errorf("window %d: %d late, says %d; %d of %d records", window, late, s.Late(), len(seen), n)
		}
	}
}

// blockingSource gives records until it is closed.
type blockingSource struct {
	records chan Record
}

func (s *blockingSource) ReadInto(ctx context.Context, rec *Record) error {
	select {
	case r, ok := <-s.records:
		if !ok {
			return io.EOF
		}
		rec.Data = append(rec.Data[:0], r.Data...)
		rec.CPU, rec.Lost, rec.Remaining = r.CPU, r.Lost, r.Remaining
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
