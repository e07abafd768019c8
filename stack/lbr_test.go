package stack

import (
	"slices"
	"testing"
)

func TestLBRFrames(t *testing.T) {
	calls := [][2]uint64{{0x1010, 0x2000}, {0x800, 0x1000}, {0, 0}}
	for name, c := range map[string]struct {
		ip       uint64
		branches [][2]uint64
		limit    int
		want     []uint64
		end      StopReason
	}{
		"calls":     {0x2004, calls[:2], 0, []uint64{0x2004, 0x1010, 0x800}, StopUnknown},
		"kernel":    {0, calls[:2], 32, []uint64{0x2000, 0x1010, 0x800}, StopUnknown},
		"full":      {0x2004, calls[:2], 2, []uint64{0x2004, 0x1010, 0x800}, StopLimit},
		"cut short": {0x2004, calls, 0, []uint64{0x2004, 0x1010, 0x800}, StopUnknown},
		"leaf only": {0x2004, nil, 32, []uint64{0x2004}, StopUnknown},
		"nothing":   {0, nil, 32, nil, StopNone},
	} {
		got, end := LBRFrames(nil, c.ip, c.branches, c.limit)
		if !slices.Equal(pcs(got), c.want) || end != c.end {
			t.Errorf("%s: %#x, %v; want %#x, %v", name, pcs(got), end, c.want, c.end)
		}
		for i, f := range got {
			if f.Return || (f.Source == SourceLBR) != (i > 0) {
				t.Errorf("%s: frame %d is %+v", name, i, f)
			}
		}
	}
}
