package stack

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack/internal/rules"
)

// unpack returns the rows as two lists.
func unpack(r *rules.Rows) (pcs []uint32, index []uint16) {
	for pc, rule := range r.All() {
		pcs, index = append(pcs, pc), append(index, rule)
	}
	return pcs, index
}

// Rows come out as they went in, and are found as in a plain list.
func TestCFIRows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, span := range []uint32{0, 1, 100, 1 << 16, 1<<16 + 1, 5 << 16, 1<<32 - 1} {
		set := map[uint32]uint16{span: 7}
		for range 300 {
			set[rnd.Uint32N(max(span, 1))] = uint16(rnd.Uint32())
		}
		want := slices.Sorted(maps.Keys(set))
		r := rules.PackRows(func(yield func(uint32, uint16) bool) {
			for _, pc := range want {
				if !yield(pc, set[pc]) {
					return
				}
			}
		})
		got, index := unpack(&r)
		if !slices.Equal(got, want) || len(index) != len(want) || index[len(index)-1] != set[span] {
			t.Fatalf("span %#x: %d rows came out of %d", span, len(got), len(want))
		}
		probe := slices.Clone(want)
		for range 1000 {
			probe = append(probe, rnd.Uint32(), rnd.Uint32N(max(span, 1)))
		}
		for _, pc := range probe {
			i, found := slices.BinarySearch(want, pc)
			if !found {
				i--
			}
			if n := r.Find(pc); n != i {
				t.Fatalf("span %#x: %#x is in row %d, want %d", span, pc, n, i)
			}
		}
	}
	var none rules.Rows
	if n := none.Find(5); n != -1 {
		t.Errorf("no rows, but row %d", n)
	}
}

// A file of some size takes no more than six bytes a row, rules included.
func TestCFISize(t *testing.T) {
	testenv.Need(t, testenv.File("/usr/bin/bash"))
	table, err := OpenCFI("/usr/bin/bash")
	if err != nil {
		t.Fatal(err)
	}
	s := table.Stats()
	t.Logf("%d rows, %d rules, %.2f bytes a row", s.Rows, s.Rules, float64(s.Size)/float64(s.Rows))
	if s.Rows > 10_000 && s.Size > 6*s.Rows {
		t.Errorf("%d bytes for %d rows", s.Size, s.Rows)
	}
}
