package probe

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// columnsOf reads the line table by itself: for a line, by column, the
// addresses that are recommended for breakpoints.
func columnsOf(t *testing.T, path string, line int) map[int][]uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	cu, err := d.Reader().Next()
	if err != nil {
		t.Fatal(err)
	}
	lr, err := d.LineReader(cu)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int][]uint64{}
	for e := (dwarf.LineEntry{}); lr.Next(&e) == nil; {
		if e.Line == line && e.IsStmt && !e.EndSequence && strings.HasSuffix(e.File.Name, "target.c") {
			out[e.Column] = append(out[e.Column], e.Address)
		}
	}
	return out
}

// TestUprobeColumn: of a line with code for several columns, the places of one.
func TestUprobeColumn(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	line := lineOf(t, "watched = i;")
	columns := columnsOf(t, probetest.TargetPath(), line)
	if len(columns) == 0 {
		t.Fatal("the line has no code")
	}
	w := probetest.Start(t)
	for _, c := range slices.Sorted(maps.Keys(columns)) {
		plan := mustResolve(t, nil, fmt.Sprintf("uprobe:%s:target.c:%d:%d", probetest.TargetPath(), line, c))
		var got []uint64
		for _, s := range plan.Programs[0].Sites {
			if !slices.Contains(columns[c], s.Address) {
				t.Errorf("column %d: %#x is none of its addresses %#x", c, s.Address, columns[c])
			}
			got = append(got, s.Address)
		}
		if len(got) == 0 {
			t.Errorf("column %d: no site", c)
		}
		n, _ := attachCounter(t, plan, probetest.Counting{Value: -1})
		w.Run()
		probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times * uint64(len(got))})
	}
	_, err := Resolve(nil, []Target{mustParse(t, fmt.Sprintf("uprobe:%s:target.c:%d:999", probetest.TargetPath(), line))}, nil)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "column 999") {
		t.Errorf("a column that has no code: %v", err)
	}
}
