package recording

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/compress"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/layout"
)

// container is a file of chunks; nil is one without contents.
func container(t *testing.T, kind string, header any, payloads ...[]byte) []byte {
	t.Helper()
	enc, err := compress.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := newChunkWriter("bomb", kind, &b, enc, header)
	for _, p := range payloads {
		if p == nil { // the writer makes none of these: a zstd frame of no bytes
			frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}
			head := binary.LittleEndian.AppendUint32(nil, 0)
			head = binary.LittleEndian.AppendUint32(head, uint32(len(frame)))
			b.Write(append(binary.LittleEndian.AppendUint32(head, crc32.Checksum(frame, castagnoli)), frame...))
		} else if err == nil {
			err = w.write(p)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tableOf(t *testing.T, payloads ...[]byte) *Recording {
	t.Helper()
	word, _ := layout.Of(reflect.TypeFor[uint32]())
	r, err := Open(fstest.MapFS{
		manifestName: {Data: []byte("borescope recording 1\n{}")},
		"t.table":    {Data: container(t, "table", tableHeader{Order: "little", Key: *word, Value: *word}, payloads...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEmptyChunks: a chunk without contents is damage.
func TestEmptyChunks(t *testing.T) {
	p, err := NewReplay(bytes.NewReader(container(t, "stream", streamHeader{}, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ReadInto(context.Background(), &mapx.Record{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("stream: %v", err)
	}
	table, err := ReplayTable[uint32, uint32](tableOf(t, nil), "t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Snapshot(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("table: %v", err)
	}
	dump, err := tableOf(t, nil).DumpTable("t")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := dump.Next(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("dump: %v", err)
	}
}

// TestBombs: chunks of zeros, which compress to a kilobyte each, as records without
// contents and as one snapshot without an end.
func TestBombs(t *testing.T) {
	many := binary.AppendUvarint([]byte{chunkRecords}, 1<<62) // of which there are none
	p, err := NewReplay(bytes.NewReader(container(t, "stream", streamHeader{}, many)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ReadInto(context.Background(), &mapx.Record{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a chunk of no records that are many: %v", err)
	}

	const n = 7 << 20
	records := append([]byte{chunkRecords}, binary.AppendUvarint(nil, n)...)
	records = append(records, make([]byte, 4*n)...)
	image := container(t, "stream", streamHeader{}, records)
	meter.Bounded(t, len(image), func() {
		p, err := NewReplay(bytes.NewReader(image), nil)
		if err != nil {
			t.Fatal(err)
		}
		var rec mapx.Record
		got := 0
		for ; err == nil; got++ {
			err = p.ReadInto(context.Background(), &rec)
		}
		if got != n+1 || err != io.EOF {
			t.Errorf("%d records of %d: %v", got-1, n, err)
		}
	})

	rows := append([]byte{opSnapshot | opMore, 0}, binary.AppendUvarint(nil, 3<<20)...)
	rows = append(rows, make([]byte, 8*3<<20)...)
	var chunks [][]byte
	for range 7 {
		chunks = append(chunks, rows)
	}
	table, err := ReplayTable[uint32, uint32](tableOf(t, chunks...), "t")
	if err != nil {
		t.Fatal(err)
	}
	meter.Bounded(t, 0, func() {
		if _, err := table.Snapshot(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a snapshot of %d bytes: %v", 7*len(rows), err)
		}
	})
}
