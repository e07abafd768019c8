package recording

import (
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/sourcetest"
)

// The fixtures are recordings of every released format version. They must
// replay for ever: -fixture writes the one of the present version, and is for
// the release of a new one only.
var writeFixture = flag.Bool("fixture", false, "write testdata/recording-1 anew")

type fixtureKey struct {
	PID  uint32
	Comm [16]byte
}

func fixtureName(pid uint32, comm string) (k fixtureKey) {
	k.PID = pid
	copy(k.Comm[:], comm)
	return k
}

var fixtureRecords = []mapx.Record{
	{Data: []byte("first"), CPU: 0, Remaining: 20},
	{Data: []byte("second"), CPU: 1},
	{Data: []byte("third, after a loss"), CPU: 0, Lost: 5},
}

func createFixture(t *testing.T, dir string) {
	rec, err := Create(dir, &Meta{
		Tool: "fixture", Args: []string{"-fixture"}, Kernel: "6.1.0", Arch: "amd64",
		Online: []int{0, 1}, Possible: []int{0, 1}, Data: json.RawMessage(`{"answer":42}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	src := rec.Stream("events", &sourcetest.List{
		Records: fixtureRecords, Counts: mapx.Stats{Read: 3, Bytes: 30, Lost: 5, LostByCPU: []uint64{5, 0}},
	})
	if _, err := sourcetest.ReadAll(t, src); err != io.EOF {
		t.Fatal(err)
	}
	s := mapx.Snapshot[fixtureKey, []uint64]{Entries: []mapx.Entry[fixtureKey, []uint64]{
		{Key: fixtureName(1, "init"), Value: []uint64{10, 20}}, {Key: fixtureName(42, "bash"), Value: []uint64{100, 200}},
	}}
	table := RecordTable(rec, "counts", mapx.Table[fixtureKey, []uint64](&staticTable[fixtureKey, []uint64]{s}))
	if _, err := table.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if _, err := table.ReadAndClear(); err != nil {
		t.Fatal(err)
	}
	host, err := rec.Create("host.tree") // which package hostfs reads
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(host, "file \"proc/version\" 6\nLinux\n\n"); err != nil {
		t.Fatal(err)
	}
	w, err := rec.Create("notes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "a note\n"); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFixtureVersion1(t *testing.T) {
	dir := filepath.Join("testdata", "recording-1")
	if *writeFixture {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		createFixture(t, dir)
	}
	checkFixture(t, dir)
	again := t.TempDir()
	createFixture(t, again)
	checkFixture(t, again)
}

func checkFixture(t *testing.T, dir string) {
	r, err := Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := r.Meta()
	if m.Kernel != "6.1.0" || len(m.Possible) != 2 || !r.Complete() {
		t.Errorf("%+v", m)
	}
	p, err := r.Stream("events", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sourcetest.ReadAll(t, p)
	if err != io.EOF {
		t.Fatal(err)
	}
	checkRecords(t, got, fixtureRecords)
	table, err := ReplayTable[fixtureKey, []uint64](r, "counts")
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot()
	if err != nil || len(s.Entries) != 2 || s.Entries[1].Key != fixtureName(42, "bash") || s.Entries[1].Value[1] != 200 {
		t.Error(s, err)
	}
	if s, err = table.ReadAndClear(); err != nil || len(s.Entries) != 2 {
		t.Error(s, err)
	}
	f, err := r.Open("notes")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "a note\n" {
		t.Error(string(b), err)
	}
}
