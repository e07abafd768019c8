package recording_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
)

// fixedTable is a table that never changes.
type fixedTable[K, V any] struct {
	entries    []mapx.Entry[K, V]
	key, value int
}

func (t fixedTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	return mapx.Snapshot[K, V]{Entries: t.entries}, nil
}

func (t fixedTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) { return t.Snapshot() }

func (t fixedTable[K, V]) Sizes() (key, value int) { return t.key, t.value }

// replayed records a table once and replays it as other types.
func replayed[K1, V1, K2, V2 any](t *testing.T, in mapx.Table[K1, V1]) ([]mapx.Entry[K2, V2], error) {
	t.Helper()
	dir := t.TempDir()
	rec, err := recording.Create(dir, &recording.Meta{Tool: "test"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = recording.RecordTable(rec, "t", in).Snapshot()
	if closed := rec.Close(); err != nil || closed != nil {
		return nil, err
	}
	r, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := recording.ReplayTable[K2, V2](r, "t")
	if err != nil {
		return nil, err
	}
	s, err := out.Snapshot()
	return s.Entries, err
}

// TestOpaqueTables: who does not know a table's types reads bytes, and what was recorded
// as bytes is read by who knows them.
func TestOpaqueTables(t *testing.T) {
	type key struct{ A, B uint16 }
	typed := fixedTable[key, []uint32]{entries: []mapx.Entry[key, []uint32]{
		{Key: key{1, 2}, Value: []uint32{3, 4}}, {Key: key{5, 6}, Value: []uint32{7, 1 << 24}},
	}}
	opaque := fixedTable[string, []string]{key: 4, value: 4, entries: []mapx.Entry[string, []string]{
		{Key: "\x01\x00\x02\x00", Value: []string{"\x03\x00\x00\x00", "\x04\x00\x00\x00"}},
		{Key: "\x05\x00\x06\x00", Value: []string{"\x07\x00\x00\x00", "\x00\x00\x00\x01"}},
	}}
	if got, err := replayed[key, []uint32, string, []string](t, typed); err != nil || !reflect.DeepEqual(got, opaque.entries) {
		t.Errorf("%q, %v; want %q", got, err, opaque.entries)
	}
	if got, err := replayed[string, []string, key, []uint32](t, opaque); err != nil || !reflect.DeepEqual(got, typed.entries) {
		t.Errorf("%v, %v; want %v", got, err, typed.entries)
	}
	if got, err := replayed[string, []string, string, []string](t, opaque); err != nil || !reflect.DeepEqual(got, opaque.entries) {
		t.Errorf("%q, %v; want %q", got, err, opaque.entries)
	}
	// Of another size, or of none that anybody says.
	if _, err := replayed[string, []string, uint64, []uint32](t, opaque); err == nil || !strings.Contains(err.Error(), "field value (u64") {
		t.Errorf("a key of 8 bytes: %v", err)
	}
	opaque.key = 3
	if _, err := replayed[string, []string, string, []string](t, opaque); err == nil || !strings.Contains(err.Error(), "as long as") {
		t.Errorf("a key of 3 bytes: %v", err)
	}
	opaque.key = 0
	if _, err := replayed[string, []string, string, []string](t, opaque); err == nil || !strings.Contains(err.Error(), "how long") {
		t.Errorf("a key of no size: %v", err)
	}
}
