package mapx

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/borescope/borescope/hist"
)

func snap[K comparable, V any](kv ...any) (s Snapshot[K, V]) {
	for i := 0; i < len(kv); i += 2 {
		s.Entries = append(s.Entries, Entry[K, V]{kv[i].(K), kv[i+1].(V)})
	}
	return s
}

func TestTop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Snapshot[int, int]
		for i := range r.IntN(40) {
			s.Entries = append(s.Entries, Entry[int, int]{i, r.IntN(10)})
		}
		sorted := slices.Clone(s.Entries)
		slices.SortStableFunc(sorted, func(a, b Entry[int, int]) int { return cmp.Compare(b.Value, a.Value) })
		for _, n := range []int{-1, 0, 1, 2, 7, 39, 100} {
			want := sorted[:max(min(n, len(sorted)), 0)]
			if got := Top(s, n).Entries; !slices.Equal(got, want) {
				t.Fatalf("top %d of %v:\n%v, want\n%v", n, s.Entries, got, want)
			}
		}
	}
}

func TestDelta(t *testing.T) {
	before := snap[string, uint64]("a", uint64(5), "same", uint64(9), "reset", uint64(100), "gone", uint64(3))
	now := snap[string, uint64]("a", uint64(7), "same", uint64(9), "reset", uint64(4), "new", uint64(1))
	if got, want := Delta(before, now), snap[string, uint64]("a", uint64(2), "reset", uint64(4), "new", uint64(1)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

type staticTable[K comparable, V any] struct{ s Snapshot[K, V] }

func (s *staticTable[K, V]) Snapshot() (Snapshot[K, V], error)     { return s.s, nil }
func (s *staticTable[K, V]) ReadAndClear() (Snapshot[K, V], error) { return s.s, nil }

func TestReducers(t *testing.T) {
	table := &staticTable[int, []int64]{snap[int, []int64](1, []int64{5, -2, 9})}
	if got := snapshotMap(t, Reduce[int](table, slices.Min[[]int64])); got[1] != -2 {
		t.Error(got)
	}
	if got := snapshotMap(t, Reduce[int](table, slices.Max[[]int64])); got[1] != 9 {
		t.Error(got)
	}
	ex := &staticTable[int, []Extreme]{snap[int, []Extreme](1, []Extreme{{}, {7, 1}, {-3, 1}, {}}, 2, []Extreme{{}, {}})}
	if got := snapshotMap(t, SumOf(ex, (*Extreme).KeepMin)); got[1] != (Extreme{-3, 1}) || got[2].Set != 0 {
		t.Error(got)
	}
	if got := snapshotMap(t, SumOf(ex, (*Extreme).KeepMax)); got[1] != (Extreme{7, 1}) {
		t.Error(got)
	}
	avg := &staticTable[int, []Average]{snap[int, []Average](1, []Average{{10, 3}, {-3, 1}}, 2, []Average{{}})}
	if got := snapshotMap(t, SumOf(avg, (*Average).Add)); got[1].Mean() != 1 || got[2].Mean() != 0 {
		t.Error(got)
	}
}

type tuple struct {
	A uint64
	_ uint32
	B [8]byte
}

func str8(s string) (b [8]byte) {
	copy(b[:], s)
	return b
}

// bpftrace's own output for these maps, by Debian's 0.17, except where the
// comment says otherwise.
func TestPrint(t *testing.T) {
	log2 := func(values ...int64) *hist.Log2 {
		h, _ := hist.NewLog2(0)
		for _, v := range values {
			h.Add(v)
		}
		return h
	}
	const full = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"
	type none struct{}
	for _, c := range []struct {
		text, json string
		print      func(b *bytes.Buffer, json bool) error
	}{
		{
			"@c[1]: 1\n@c[3]: 2\n", `{"type": "map", "data": {"@c": {"1": 1, "3": 2}}}` + "\n",
			printOf("@c", snap[uint64, uint64](uint64(3), uint64(2), uint64(1), uint64(1)), nil),
		},
		{
			"@i[4]: 7\n@i[3]: 9\n", `{"type": "map", "data": {"@i": {"4": 7, "3": 9}}}` + "\n",
			printOf("@i", snap[int64, int64](int64(3), int64(9), int64(4), int64(7)), nil),
		},
		{
			"@i[3]: 9\n", `{"type": "map", "data": {"@i": {"3": 9}}}` + "\n",
			printOf("@i", snap[int64, int64](int64(3), int64(9), int64(4), int64(7)), &PrintOptions[int64]{Top: 1}),
		},
		{
			"@i[3]: 3\n", `{"type": "map", "data": {"@i": {"3": 3}}}` + "\n",
			printOf("@i", snap[int64, int64](int64(3), int64(9)), &PrintOptions[int64]{Div: 3}),
		},
		{
			"@: 5\n", `{"type": "map", "data": {"@": 5}}` + "\n",
			printOf("@", snap[none, uint64](none{}, uint64(5)), nil),
		},
		{
			"@str[abc]: 1\n", `{"type": "map", "data": {"@str": {"abc": 1}}}` + "\n",
			printOf("@str", snap[[8]byte, uint64](str8("abc"), uint64(1)), nil),
		},
		{
			"@t[1, x]: 4\n", `{"type": "map", "data": {"@t": {"1,x": 4}}}` + "\n",
			printOf("@t", snap[tuple, uint64](tuple{A: 1, B: str8("x")}, uint64(4)), nil),
		},
		// The blank of a string stays, which ours once took out with those of the
		// tuple.
		{
			"@t[1, tmux: ab]: 4\n", `{"type": "map", "data": {"@t": {"1,tmux: ab": 4}}}` + "\n",
			printOf("@t", snap[tuple, uint64](tuple{A: 1, B: str8("tmux: ab")}, uint64(4)), nil),
		},
		{
			"@t: (1, x)\n", `{"type": "map", "data": {"@t": [1,"x"]}}` + "\n",
			printOf("@t", snap[none, tuple](none{}, tuple{A: 1, B: str8("x")}), nil),
		},
		{
			"@a: 5\n", `{"type": "stats", "data": {"@a": 5}}` + "\n",
			printOf("@a", snap[none, Average](none{}, Average{10, 2}), nil),
		},
		// 0.26: 0.17 has "count 2, average 6, total 13".
		{
			"@s: { .count = 2, .average = 6, .total = 13 }\n", `{"type": "stats", "data": {"@s": {"count": 2, "average": 6, "total": 13}}}` + "\n",
			printOf("@s", snap[none, Totals](none{}, Totals{13, 2}), nil),
		},
		{
			"@m[2]: 1\n@m[1]: 7\n", `{"type": "map", "data": {"@m": {"2": 1, "1": 7}}}` + "\n",
			printOf("@m", snap[uint32, Extreme](uint32(1), Extreme{7, 1}, uint32(2), Extreme{1, 1}), nil),
		},
		// 0.26: no blank behind the name, none between the objects.
		{
			"@k[1, a]:\n[4, 8)                 1 |" + full + "|\n\n@k[2, b]:\n[4, 8)                 2 |" + full + "|\n\n",
			`{"type": "hist", "data": {"@k": {"1,a": [{"min": 4, "max": 7, "count": 1}], "2,b": [{"min": 4, "max": 7, "count": 2}]}}}` + "\n",
			printOf("@k", snap[tuple, *hist.Log2](tuple{A: 2, B: str8("b")}, log2(5, 7), tuple{A: 1, B: str8("a")}, log2(5)), nil),
		},
		{
			"@v[1]: [3,4]\n@v[2]: [1,2]\n", `{"type": "map", "data": {"@v": {"1": [3,4], "2": [1,2]}}}` + "\n",
			printOf("@v", snap[int16, [2]uint16](int16(2), [2]uint16{1, 2}, int16(1), [2]uint16{3, 4}), nil),
		},
		{
			"@n[x]: 18446744073709551615\n", `{"type": "map", "data": {"@n": {"x": "18446744073709551615"}}}` + "\n",
			printOf("@n", snap[int, uint64](1, uint64(math.MaxUint64)), &PrintOptions[int]{Key: func(int) string { return "x" }}),
		},
		{"", "", printOf("@e", Snapshot[int, int]{}, nil)},
	} {
		var text, js bytes.Buffer
		if err := c.print(&text, false); err != nil {
			t.Fatal(err)
		}
		if err := c.print(&js, true); err != nil {
			t.Fatal(err)
		}
		if text.String() != c.text || js.String() != c.json {
			t.Errorf("got  %s     %s\nwant %s     %s", text.String(), js.String(), c.text, c.json)
		}
	}
}

func printOf[K comparable, V any](name string, s Snapshot[K, V], opts *PrintOptions[K]) func(*bytes.Buffer, bool) error {
	return func(b *bytes.Buffer, json bool) error {
		if json {
			return PrintJSON(b, name, s, opts)
		}
		return Print(b, name, s, opts)
	}
}

func TestHistograms(t *testing.T) {
	type bucket struct {
		Disk uint32
		Slot uint32
	}
	s := snap[bucket, uint64](bucket{1, 3}, uint64(5), bucket{2, 4}, uint64(1), bucket{1, 4}, uint64(2))
	split := func(b bucket) (uint32, int) { return b.Disk, int(b.Slot) }
	got, err := Histograms(s, 0, split)
	if err != nil || len(got.Entries) != 2 || got.Entries[0].Key != 1 || got.Entries[0].Value.Count() != 7 {
		t.Fatal(got, err)
	}
	if fmt.Sprint(got.Entries[0].Value.Buckets()) != "[{2 4 5} {4 8 2}]" {
		t.Error(got.Entries[0].Value.Buckets())
	}
	lin, err := LinearHistograms(s, 0, 100, 10, split)
	if err != nil || fmt.Sprint(lin.Entries[1].Value.Buckets()) != "[{30 40 1}]" {
		t.Error(lin, err)
	}
	if _, err := Histograms(s, 9, split); err == nil {
		t.Error("k 9")
	}
}

func snapshotMap[K comparable, V any](t testing.TB, table Table[K, V]) map[K]V {
	t.Helper()
	s, err := table.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return entryMap(t, s)
}

func entryMap[K comparable, V any](t testing.TB, s Snapshot[K, V]) map[K]V {
	t.Helper()
	m := make(map[K]V, len(s.Entries))
	for _, e := range s.Entries {
		if _, ok := m[e.Key]; ok {
			t.Fatalf("key %v twice", e.Key)
		}
		m[e.Key] = e.Value
	}
	return m
}
