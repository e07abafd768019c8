package mapx_test

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

type event struct {
	Time uint64
	CPU  uint32
	N    uint32
}

func eventRecord(at uint64, cpu, n int, remaining int) mapx.Record {
	b := binary.NativeEndian.AppendUint64(nil, at)
	b = binary.NativeEndian.AppendUint32(b, uint32(cpu))
	b = binary.NativeEndian.AppendUint32(b, uint32(n))
	return mapx.Record{Data: b, CPU: cpu, Remaining: remaining}
}

func TestEvents(t *testing.T) {
	long := eventRecord(3, 1, 9, 0)
	long.Data = append(long.Data, "text"...)
	src := &sourcetest.List{Records: []mapx.Record{eventRecord(1, 0, 7, 1), {Data: []byte("short")}, long}}
	e, err := mapx.NewEvents[event](src)
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
	if _, err := mapx.NewEvents[*int](src); err == nil {
		t.Fatal("events with pointers")
	}
	src.At = 0
	all, errf := e.All(t.Context())
	n := 0
	for range all {
		n++
	}
	if n != 1 || errf() == nil {
		t.Fatal("a short record ends the loop with an error:", n, errf())
	}
	src.Records = append(src.Records[:1], src.Records[2])
	src.At = 0
	all, errf = e.All(t.Context())
	for range all {
		n++
	}
	if n != 3 || errf() != nil {
		t.Fatal(n, errf())
	}
	src.Records, src.At = []mapx.Record{eventRecord(1, 0, 7, 1)}, 0
	if n := testing.AllocsPerRun(100, func() { src.At = 0; e.Next(context.Background(), &v) }); n != 0 {
		t.Fatal(n, "allocations")
	}
}

func eventTime(r *mapx.Record) uint64 { return binary.NativeEndian.Uint64(r.Data) }

func TestSort(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 1000
	var records []mapx.Record
	for i := range n { // each at most 20 places off
		records = append(records, eventRecord(uint64(10*i)+r.Uint64N(200), i%2, i, n-1-i))
	}
	for _, window := range []int{1, 21, 5000} {
		s := mapx.Sort(&sourcetest.List{Records: records}, window, eventTime)
		got, err := sourcetest.ReadAll(t, s)
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
