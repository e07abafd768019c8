package action

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

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
	pcap, err := NewPcap(io.Discard, LinkIP, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = r.Read(ctx, &p)
		_ = pcap.Write(&p)
	}); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
	for _, bad := range [][]byte{rec[:15], rec[:20]} {
		r.in = &records{list: [][]byte{bad}}
		if _, err := r.Read(ctx, &p); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a record of %d bytes: %v", len(bad), err)
		}
	}
}

// TestPcap compares a file with one by hand, by the format's description
// (draft-ietf-opsawg-pcap).
func TestPcap(t *testing.T) {
	var b bytes.Buffer
	f, err := NewPcap(&b, LinkIP, time.Unix(1000, 5))
	if err != nil {
		t.Fatal(err)
	}
	p := &Packet{Time: 2_999_999_999, Len: 60, Data: []byte("ethernetETHERNETX-ip")}
	p.Skip(16)
	if err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	want := "4d3cb2a1" + "02000400" + "00000000" + "00000000" + "00000400" + "65000000" + // header
		"eb030000" + "04000000" + "04000000" + "2c000000" + hex.EncodeToString([]byte("X-ip"))
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("file is %s, want %s", got, want)
	}
	if p.Skip(100); p.Len != 0 || len(p.Data) != 0 {
		t.Errorf("%d and %d bytes left", p.Len, len(p.Data))
	}
}
