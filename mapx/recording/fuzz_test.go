package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/compress"
	"github.com/borescope/borescope/mapx/internal/layout"
	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

func fixtureFile(f *testing.F, name string) []byte {
	b, err := os.ReadFile("testdata/recording-1/" + name)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzReplay: what replays from any bytes, recorded again, replays the same.
func FuzzReplay(f *testing.F) {
	f.Add(fixtureFile(f, "events.stream"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := NewReplay(bytes.NewReader(b), nil)
		if err != nil {
			return
		}
		records, err := sourcetest.ReadAll(t, p)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		p, err = NewReplay(bytes.NewReader(record(t, records)), nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := sourcetest.ReadAll(t, p)
		if err != io.EOF {
			t.Fatal(err)
		}
		checkRecords(t, again, records)
	})
}

// FuzzChunk feeds payloads behind the checksum and the compression, which
// random bytes don't get through: records, then a table's snapshots.
func FuzzChunk(f *testing.F) {
	f.Add([]byte{chunkRecords, 1, 2, 1, 0, 2, 'x'})
	f.Add([]byte{chunkTransposed, 2, 2, 2, 1, 1, 0, 0, 4, 5, 'a', 'b', 'c', 'd'})
	f.Add([]byte{chunkStats, '{', '}'})
	f.Add([]byte{opSnapshot, 2, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	enc, err := compress.NewEncoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		wrap := func(kind string, header any) []byte {
			var buf bytes.Buffer
			w, err := newChunkWriter("fuzz", kind, &buf, enc, header)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.write(payload); err != nil {
				t.Fatal(err)
			}
			return buf.Bytes()
		}
		p, err := NewReplay(bytes.NewReader(wrap("stream", streamHeader{})), nil)
		if err != nil {
			t.Fatal(err)
		}
		records, err := sourcetest.ReadAll(t, p)
		if err != io.EOF && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		total := 0
		for i := range records {
			total += len(records[i].Data)
		}
		if total > len(payload) {
			t.Fatalf("%d bytes from a payload of %d", total, len(payload))
		}

		key, _ := layout.Of(reflect.TypeFor[uint32]())
		value, _ := layout.OfSlice(reflect.TypeFor[[]uint64]())
		fsys := fstest.MapFS{
			manifestName: {Data: []byte("borescope recording 1\n{}")},
			"t.table":    {Data: wrap("table", tableHeader{Order: "little", Key: *key, Value: *value})},
		}
		r, err := Open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		table, err := ReplayTable[uint32, []uint64](r, "t")
		if err != nil {
			t.Fatal(err)
		}
		s, err := table.Snapshot()
		if err == nil && len(s.Entries)*4 > len(payload) {
			t.Fatal(len(s.Entries), "entries")
		}
		for i := range s.Entries {
			_ = append([]uint64(nil), s.Entries[i].Value...) // all of it is there
		}
	})
}

// FuzzDump: a table of any header and payload is printed or refused, and what
// is printed is not much longer than what was there.
func FuzzDump(f *testing.F) {
	f.Add([]byte(`{"order":"little","key":{"size":4,"fields":[{"offset":0,"size":4,"kind":"u"}]},`+
		`"value":{"size":8,"slice":true,"fields":[{"name":"x","offset":0,"size":8,"kind":"i"}]}}`),
		[]byte{opSnapshot, 2, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	enc, err := compress.NewEncoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, payload []byte) {
		var h tableHeader
		if json.Unmarshal(header, &h) != nil {
			return
		}
		var buf bytes.Buffer
		w, err := newChunkWriter("fuzz", "table", &buf, enc, h)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.write(payload); err != nil {
			t.Fatal(err)
		}
		r, err := Open(fstest.MapFS{
			manifestName: {Data: []byte("borescope recording 1\n{}")}, "t.table": {Data: buf.Bytes()},
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.DumpTable("t")
		if err != nil {
			return
		}
		_, _, entries, err := d.Next()
		if err == nil && len(entries) > len(payload) {
			t.Fatalf("%d entries of %d bytes", len(entries), len(payload))
		}
	})
}
