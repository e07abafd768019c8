package dwarf

import (
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
)

// DWARF that asks for much: a row, a call or a unit takes ten times and more of what
// it is read from.
func TestBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	const n = 8 << 20 // bytes, about
	for _, tt := range []struct {
		name string
		d    elfbuild.DWARF
	}{
		{"line rows", elfbuild.LineRows(n)},
		{"one line program of many units", elfbuild.Units(n/32, elfbuild.LineRows(n/4).Line)},
		{"line sequences", elfbuild.LineSequences(n / 17)},
		{"files and directories", elfbuild.LineFiles(n / 9)},
		{"placed calls", elfbuild.PlacedCalls(n / 10)},
		{"inlined calls", elfbuild.InlinedCalls(n)},
		{"functions", elfbuild.Functions(n / 10)},
		{"deep", elfbuild.DeepEntries(n)},
		{"units", elfbuild.Units(n/32, nil)},
		{"long names", elfbuild.LongNames(n/64, 8000)},
		{"one endless name", elfbuild.LongNames(n/64, n)},
		{"abbreviations", elfbuild.Abbrevs(n / 7)},
		{"attributes", elfbuild.Attributes(n / 206)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			image := elfbuild.Program(tt.d.Sections()...).Bytes()
			f, err := elffile.NewBytes(image)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var d *Data
			var calls []Call
			mem, cpu := meter.Bounded(t, len(image), func() {
				if d, err = New(f, nil, 32<<20); err != nil {
					return
				}
				for pc := uint64(0); pc < 1000; pc++ {
					calls = d.Calls(calls[:0], elfbuild.ProgramText+pc)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes of file: %d of memory, %d kept, %v, %+v", len(image), mem, d.Bytes(), cpu.Round(time.Millisecond), calls)
		})
	}
}
