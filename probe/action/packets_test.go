package action

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/borescope/borescope/mapx"
)

// records is a stream of records that are there, over and over.
type records struct {
	list [][]byte
	at   int
}

func (r *records) ReadInto(_ context.Context, rec *mapx.Record) error {
	rec.Data = append(rec.Data[:0], r.list[r.at%len(r.list)]...)
	rec.CPU, rec.Lost = 3, 0
	r.at++
	return nil
}

func (r *records) Stats() (mapx.Stats, error) { return mapx.Stats{}, nil }

func (r *records) Close() error { return nil }

func TestPacketReaderAllocates(t *testing.T) {
	rec := append(make([]byte, packetHeadSize), "packet"...)
	rec[packetCaptured] = 6
	r := &EventReader[Packet]{in: &records{list: [][]byte{rec}}, decode: decodePacket}
	var p Packet
	ctx := context.Background()
	if _, err := r.Read(ctx, &p); err != nil || string(p.Data) != "packet" {
		t.Fatalf("%q, %v", p.Data, err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = r.Read(ctx, &p) }); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
	for _, bad := range [][]byte{rec[:15], rec[:20]} {
		r.in = &records{list: [][]byte{bad}}
		if _, err := r.Read(ctx, &p); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a record of %d bytes: %v", len(bad), err)
		}
	}
}

func TestSkip(t *testing.T) {
	p := &Packet{Len: 60, Data: []byte("ethernetETHERNETX-ip")}
	if p.Skip(16); p.Len != 44 || string(p.Data) != "X-ip" {
		t.Errorf("%d bytes, %q", p.Len, p.Data)
	}
	if p.Skip(100); p.Len != 0 || len(p.Data) != 0 {
		t.Errorf("%d and %d bytes left", p.Len, len(p.Data))
	}
}
