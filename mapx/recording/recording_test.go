package recording

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

// sampleRecords are like a tool's: a time, ids, a few counters.
func sampleRecords(n int) []mapx.Record {
	var records []mapx.Record
	now := uint64(1e15)
	for i := range n {
		now += 1000 + uint64(i*7919%5000)
		data := binary.LittleEndian.AppendUint64(nil, now)
		data = binary.LittleEndian.AppendUint32(data, uint32(1000+i*31%40))
		data = binary.LittleEndian.AppendUint32(data, uint32(1000+i*31%8))
		data = binary.LittleEndian.AppendUint64(data, uint64(i*104729%1000000))
		data = append(data, fmt.Sprintf("%-16s", []string{"bash", "postgres", "nginx"}[i%3])...)
		data = binary.LittleEndian.AppendUint64(data, uint64(i%5))
		records = append(records, mapx.Record{Data: data, CPU: i % 4, Lost: uint64(i / 1000 % 2), Remaining: i % 7})
	}
	return records
}

// mixedRecords differ in size, down to nothing.
func mixedRecords(n int) []mapx.Record {
	var records []mapx.Record
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, i*37%300)
		records = append(records, mapx.Record{Data: data, CPU: i%3 - 1, Lost: uint64(i) << 40 >> 40, Remaining: i % 2})
	}
	return records
}

// sameRecord compares what a replay keeps.
func sameRecord(a, b *mapx.Record) bool {
	return bytes.Equal(a.Data, b.Data) && a.CPU == b.CPU && a.Lost == b.Lost &&
		(a.Remaining == 0) == (b.Remaining == 0)
}

func checkRecords(t testing.TB, got, want []mapx.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		if !sameRecord(&got[i], &want[i]) {
			t.Fatalf("record %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// record writes records as a stream to memory.
func record(t testing.TB, records []mapx.Record) []byte {
	t.Helper()
	var buf bytes.Buffer
	src := &sourcetest.List{Records: records, Counts: mapx.Stats{Read: uint64(len(records)), Lost: 99}}
	rec, err := NewRecorder(src, &buf)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sourcetest.ReadAll(t, rec)
	if err != io.EOF {
		t.Fatal(err)
	}
	checkRecords(t, got, records)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestStreamRoundTrip(t *testing.T) {
	for name, records := range map[string][]mapx.Record{
		"none": nil, "one": sampleRecords(1), "sample": sampleRecords(20000), "mixed": mixedRecords(5000),
		"empty": {{Data: nil, CPU: -1}, {Data: nil, CPU: -1}}, "bytes": {{Data: []byte{1}}, {Data: []byte{2}}},
		"large": {{Data: bytes.Repeat([]byte("abc"), 1<<20)}, {Data: []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			b := record(t, records)
			p, err := NewReplay(bytes.NewReader(b), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sourcetest.ReadAll(t, p)
			if err != io.EOF {
				t.Fatal(err)
			}
			checkRecords(t, got, records)
			if s, err := p.Stats(); err != nil || s.Lost != 99 || s.Read != uint64(len(records)) {
				t.Fatal("the source's own counts were not replayed:", s, err)
			}
			if name == "sample" {
				perRecord := float64(len(b)) / float64(len(records))
				t.Logf("%.1f bytes for a record of 48", perRecord)
				if perRecord > 20 {
					t.Error("more than 20 bytes")
				}
			}
		})
	}
}

// TestStreamCut: a file that is cut anywhere replays the records before the cut
// and says that it was cut.
func TestStreamCut(t *testing.T) {
	records := sampleRecords(300)
	var buf bytes.Buffer
	rec, err := NewRecorder(&sourcetest.List{Records: records}, &buf)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int]int{buf.Len(): 0} // whole up to here: that many records
	for i := range records {
		var r mapx.Record
		if err := rec.ReadInto(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			if err := rec.Flush(); err != nil {
				t.Fatal(err)
			}
			ends[buf.Len()] = i + 1
		}
	}
	b := buf.Bytes()
	whole := 0
	for n := range len(b) + 1 {
		p, err := NewReplay(bytes.NewReader(b[:n]), nil)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(ends) == 6 {
				t.Fatal(n, err)
			}
			continue
		}
		got, err := sourcetest.ReadAll(t, p)
		if k, ok := ends[n]; ok {
			whole = k
			if err != io.EOF { // nothing says that more should follow
				t.Fatal(n, err)
			}
		} else if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(n, err)
		}
		checkRecords(t, got, records[:whole])
	}
	if whole != 300 {
		t.Fatal(whole)
	}
}

func TestStreamDamaged(t *testing.T) {
	b := record(t, sampleRecords(100))
	header := bytes.IndexByte(b, '{') + bytes.IndexByte(b[bytes.IndexByte(b, '{'):], '\n') + 1
	for i := header; i < len(b); i++ {
		d := slices.Clone(b)
		d[i] ^= 0x10
		p, err := NewReplay(bytes.NewReader(d), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sourcetest.ReadAll(t, p); err == io.EOF && len(got) == 100 {
			t.Fatalf("byte %d changed and nobody noticed", i)
		}
	}
	for _, text := range []string{
		"", "x", "borescope table 1\n{}\n", "borescope stream 2\n{}\n", "borescope stream 0\n{}\n",
		"borescope stream 1\n", "borescope stream 1\n[]\n", strings.Repeat("x", 2<<20),
	} {
		if p, err := NewReplay(strings.NewReader(text), nil); err == nil {
			t.Errorf("%.30q opened: %v", text, p)
		}
	}
}

func TestReplayPace(t *testing.T) {
	var buf bytes.Buffer
	rec, err := NewRecorder(&sourcetest.List{Records: sampleRecords(3)}, &buf)
	if err != nil {
		t.Fatal(err)
	}
	rec.start = time.Now().Add(-time.Second) // as if begun a second ago
	if _, err := sourcetest.ReadAll(t, rec); err != io.EOF {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	replay := func(opts ReplayOptions) time.Duration {
		p, err := NewReplay(bytes.NewReader(buf.Bytes()), &opts)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := sourcetest.ReadAll(t, p); err != io.EOF {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	replay(ReplayOptions{Begin: time.Now().Add(time.Hour)}) // without a speed there is no waiting
	if d := replay(ReplayOptions{Speed: 20}); d < 50*time.Millisecond {
		t.Error("twenty times as fast took", d)
	}
	p, err := NewReplay(bytes.NewReader(buf.Bytes()), &ReplayOptions{Speed: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var r mapx.Record
	if err := p.ReadInto(ctx, &r); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ended := make(chan error)
	go func() { ended <- p.ReadInto(context.Background(), &r) }()
	p.Close()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Error("closed while it waits:", err)
	}
}

// TestRecordingPace: a table's snapshots are there when they are due and not
// before, by the same clock as the streams, and Close ends the wait for them.
func TestRecordingPace(t *testing.T) {
	dir := t.TempDir() + "/rec"
	rec, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec.start = rec.start.Add(-10 * time.Second) // as if begun ten seconds ago
	table := RecordTable[uint32, []uint64](rec, "t", &perCPUTable{[]mapx.Snapshot[uint32, []uint64]{perCPUSnapshot(2, 2)}})
	if _, err := table.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	open := func(speed float64, begin time.Time) (*Recording, *ReplayedTable[uint32, []uint64], *Dump) {
		r, err := Open(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		r.Pace(ReplayOptions{Speed: speed, Begin: begin})
		table, err1 := ReplayTable[uint32, []uint64](r, "t")
		dump, err2 := r.DumpTable("t")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return r, table, dump
	}
	begin := time.Now()
	_, replayed, dump := open(200, time.Time{})
	if s, err := replayed.Snapshot(); err != nil || len(s.Entries) != 2 || time.Since(begin) < 50*time.Millisecond {
		t.Error(s, err, time.Since(begin))
	}
	if _, _, entries, err := dump.Next(); err != nil || len(entries) != 2 {
		t.Error(entries, err)
	}
	// A clock that began long ago has everything due.
	_, replayed, _ = open(1, begin.Add(-time.Hour))
	if _, err := replayed.Snapshot(); err != nil {
		t.Error(err)
	}
	r, replayed, dump := open(1, begin.Add(time.Hour))
	ended := make(chan error)
	go func() { _, err := replayed.Snapshot(); ended <- err }()
	go func() { _, _, _, err := dump.Next(); ended <- err }()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for range 2 { // the file may be closed before it was read
		if err := <-ended; !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
}

type perCPUTable struct {
	snapshots []mapx.Snapshot[uint32, []uint64]
}

func (p *perCPUTable) Snapshot() (mapx.Snapshot[uint32, []uint64], error) {
	if len(p.snapshots) == 0 {
		return mapx.Snapshot[uint32, []uint64]{}, io.EOF
	}
	s := p.snapshots[0]
	p.snapshots = p.snapshots[1:]
	return s, nil
}

func (p *perCPUTable) ReadAndClear() (mapx.Snapshot[uint32, []uint64], error) { return p.Snapshot() }

func perCPUSnapshot(n, cpus int) (s mapx.Snapshot[uint32, []uint64]) {
	for i := range n {
		v := make([]uint64, cpus)
		for c := range v {
			v[c] = uint64(i * (c + 1))
		}
		s.Entries = append(s.Entries, mapx.Entry[uint32, []uint64]{Key: uint32(i), Value: v})
	}
	return s
}

type staticTable[K, V any] struct{ s mapx.Snapshot[K, V] }

func (s *staticTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error)     { return s.s, nil }
func (s *staticTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) { return s.s, nil }

type stackKey struct {
	PID uint32
	_   uint32
	PCs [127]uint64
}

func stackSnapshot(n int) (s mapx.Snapshot[stackKey, uint64]) {
	for i := range n {
		k := stackKey{PID: uint32(i)}
		for j := range k.PCs[:i%127] {
			k.PCs[j] = 0xffffffff81000000 + uint64(i*j)
		}
		s.Entries = append(s.Entries, mapx.Entry[stackKey, uint64]{Key: k, Value: uint64(i)})
	}
	return s
}

func TestRecording(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "rec")
	rec, err := Create(dir, &Meta{Tool: "test", Args: []string{"-x", "a b"}, Data: json.RawMessage(`{"k":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	records := sampleRecords(1000)
	src := rec.Stream("events", &sourcetest.List{Records: records, Counts: mapx.Stats{Read: 1000, Lost: 7, LostByCPU: []uint64{3, 4}}})
	if _, err := sourcetest.ReadAll(t, src); err != io.EOF {
		t.Fatal(err)
	}
	big, small := perCPUSnapshot(20000, 4), perCPUSnapshot(3, 4)
	perCPU := RecordTable(rec, "percpu", mapx.Table[uint32, []uint64](&perCPUTable{[]mapx.Snapshot[uint32, []uint64]{big, {}, small}}))
	for range 2 {
		if _, err := perCPU.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := perCPU.ReadAndClear(); err != nil {
		t.Fatal(err)
	}
	if _, err := perCPU.Snapshot(); err != io.EOF {
		t.Fatal("the table's error was lost:", err)
	}
	stacks := stackSnapshot(500)
	if _, err := RecordTable(rec, "stacks", mapx.Table[stackKey, uint64](&staticTable[stackKey, uint64]{stacks})).Snapshot(); err != nil {
		t.Fatal(err)
	}
	w, err := rec.Create("symbols")
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 50000)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Create("symbols"); !errors.Is(err, fs.ErrExist) {
		t.Fatal("twice the same name:", err)
	}
	if _, err := rec.Create("../x"); err == nil {
		t.Fatal("a name with a slash")
	}
	if early, err := Open(os.DirFS(dir)); err != nil || early.Complete() {
		t.Fatal("before Close:", err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Create("late"); !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}

	// The other machine.
	r, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := r.Meta()
	if m.Tool != "test" || !slices.Equal(m.Args, []string{"-x", "a b"}) || m.Arch == "" || !r.Complete() {
		t.Fatalf("%+v", m)
	}
	var data struct{ K int }
	if err := json.Unmarshal(m.Data, &data); err != nil || data.K != 1 {
		t.Fatal(string(m.Data))
	}
	p, err := r.Stream("events", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sourcetest.ReadAll(t, p)
	if err != io.EOF {
		t.Fatal(err)
	}
	checkRecords(t, got, records)
	if s, _ := p.Stats(); !reflect.DeepEqual(s, mapx.Stats{Read: 1000, Lost: 7, LostByCPU: []uint64{3, 4}}) {
		t.Fatalf("%+v", s)
	}
	table, err := ReplayTable[uint32, []uint64](r, "percpu")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := table.Snapshot(); err != nil || !reflect.DeepEqual(s, big) {
		t.Fatal(err, len(s.Entries))
	}
	if s, err := table.Snapshot(); err != nil || len(s.Entries) != 0 {
		t.Fatal(err, s)
	}
	if s, err := mapx.Sum(table).ReadAndClear(); err != nil || s.Entries[2].Value != 2*(1+2+3+4) {
		t.Fatal(err, s)
	}
	if _, err := table.Snapshot(); err != io.EOF {
		t.Fatal(err)
	}
	st, err := ReplayTable[stackKey, uint64](r, "stacks")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := st.Snapshot(); err != nil || !reflect.DeepEqual(s, stacks) {
		t.Fatal(err)
	}
	f, err := r.Open("symbols")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, text) {
		t.Fatal(err, len(b))
	}
	if names, err := r.Streams(); err != nil || !slices.Equal(names, []string{"events"}) {
		t.Fatal(names, err)
	}
	if names, err := r.Tables(); err != nil || !slices.Equal(names, []string{"percpu", "stacks"}) {
		t.Fatal(names, err)
	}
	if names, err := r.Files(); err != nil || !slices.Equal(names, []string{"symbols"}) {
		t.Fatal(names, err)
	}
}

func TestRecordingRefusesAFullDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, nil); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
}

func TestNilRecorder(t *testing.T) {
	var rec *Recorder
	records := sampleRecords(3)
	src := rec.Stream("x", &sourcetest.List{Records: records})
	if got, err := sourcetest.ReadAll(t, src); err != io.EOF || len(got) != 3 {
		t.Fatal(err)
	}
	table := &perCPUTable{}
	if got := RecordTable(rec, "x", mapx.Table[uint32, []uint64](table)); got != mapx.Table[uint32, []uint64](table) {
		t.Fatal(got)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReplayTableChecksTheLayout(t *testing.T) {
	dir := t.TempDir()
	rec, err := Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	type k struct{ PID, TGID uint32 }
	table := RecordTable(rec, "t", mapx.Table[k, uint64](&staticTable[k, uint64]{}))
	if _, err := table.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if _, err := RecordTable(rec, "bad", mapx.Table[k, *int](&staticTable[k, *int]{})).Snapshot(); err == nil {
		t.Error("recorded pointers")
	}
	if err := rec.Close(); err == nil {
		t.Error("Close forgot that a table could not be created")
	}
	r, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	type k2 struct{ PID uint64 }
	_, err = ReplayTable[k2, uint64](r, "t")
	check(err, "key: field PID (u64 at offset 0), but the data has PID (u32 at offset 0)")
	_, err = ReplayTable[k, [2]uint64](r, "t")
	check(err, "value: field value (u64×2 at offset 0), but the data has value (u64 at offset 0)")
	_, err = ReplayTable[k, []uint64](r, "t")
	check(err, "one is a value by CPU")
	ok, err := ReplayTable[k, uint64](r, "t")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ok.ReadAndClear()
	check(err, "the recording has a Snapshot here")
	_, err = ReplayTable[k, uint64](r, "missing")
	check(err, `no table "missing"; it has t`)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// failingWriter is a disk that is full after n bytes.
type failingWriter struct{ n int }

var errFull = errors.New("no space left")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestRecorderSaysThatItCannotWrite(t *testing.T) {
	if _, err := NewRecorder(&sourcetest.List{}, &failingWriter{}); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	rec, err := NewRecorder(&sourcetest.List{Records: sampleRecords(50000)}, &failingWriter{n: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sourcetest.ReadAll(t, rec); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if err := rec.Close(); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
}
