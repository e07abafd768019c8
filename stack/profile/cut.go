package profile

import (
	"cmp"
	"slices"

	"github.com/borescope/borescope/stack"
)

// Cut says how many samples have user stacks that end too early in the same way.
type Cut struct {
	// File is that of the outermost frame that was found, whose caller was not; "" if it is not known.
	File string `json:"file"`
	// Stopped is why the stack ends there.
	Stopped stack.StopReason `json:"end"`
	// Samples is the number of samples, by their first value.
	Samples int64 `json:"samples"`
}

// Cut returns where user stacks end too early, the most frequent place first. Samples that have no frame
// of a user are not among them.
func (p *Profile) Cut() []Cut {
	type place struct {
		file    string
		stopped stack.StopReason
	}
	places := make(map[place]int64)
	for i := range p.Samples {
		s := &p.Samples[i]
		if len(s.Frames) == 0 || s.Stopped.Whole() {
			continue
		}
		outermost := s.Frames[len(s.Frames)-1]
		if outermost.Kind == FrameKernel {
			continue
		}
		file, n := "", int64(1)
		if m := outermost.Mapping; m != nil {
			file = m.File
		}
		if len(s.Values) > 0 {
			n = s.Values[0]
		}
		places[place{file, s.Stopped}] += n
	}
	var cuts []Cut
	for at, n := range places {
		cuts = append(cuts, Cut{at.file, at.stopped, n})
	}
	slices.SortFunc(cuts, func(a, b Cut) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.File, b.File), cmp.Compare(a.Stopped, b.Stopped))
	})
	return cuts
}
