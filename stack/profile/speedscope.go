package profile

import (
	"io"
	"slices"

	"github.com/borescope/borescope/internal/escape"
)

// The file format of https://www.speedscope.app/file-format-schema.json, the
// "sampled" kind.
type speedscopeFile struct {
	Schema   string              `json:"$schema"`
	Exporter string              `json:"exporter"`
	Name     string              `json:"name,omitempty"`
	Active   int                 `json:"activeProfileIndex"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

type speedscopeProfile struct {
	Type    string  `json:"type"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Start   int64   `json:"startValue"`
	End     int64   `json:"endValue"`
	Samples [][]int `json:"samples"`
	Weights []int64 `json:"weights"`
}

// WriteSpeedscope writes the profile as JSON for https://www.speedscope.app: one view for
// every sample type, with the stacks in the order of the samples (sort them by time for a
// time-ordered view). A stack begins with the command name. The title is name.
func (p *Profile) WriteSpeedscope(w io.Writer, name string) error {
	if err := p.check(); err != nil {
		return err
	}
	out := speedscopeFile{
		Schema:   "https://www.speedscope.app/file-format-schema.json",
		Exporter: "borescope",
		Name:     name,
		Shared:   speedscopeShared{Frames: []speedscopeFrame{}},
	}
	index := make(map[speedscopeFrame]int)
	number := func(f speedscopeFrame) int {
		n, ok := index[f]
		if !ok {
			n = len(out.Shared.Frames)
			index[f] = n
			out.Shared.Frames = append(out.Shared.Frames, f)
		}
		return n
	}
	stacks := make([][]int, len(p.Samples))
	for i := range p.Samples {
		stacks[i] = p.Samples[i].speedscope(number)
	}
	for v, t := range p.types() {
		prof := speedscopeProfile{
			Type: "sampled", Name: t.Type, Unit: speedscopeUnit(t.Unit),
			Samples: [][]int{}, Weights: []int64{},
		}
		for i := range p.Samples {
			prof.Samples = append(prof.Samples, stacks[i])
			prof.Weights = append(prof.Weights, p.Samples[i].Values[v])
			prof.End = addSaturated(prof.End, max(0, p.Samples[i].Values[v]))
		}
		out.Profiles = append(out.Profiles, prof)
	}
	b, err := escape.Marshal(out)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func (s *Sample) speedscope(number func(speedscopeFrame) int) []int {
	out := make([]int, 0, len(s.Frames)+1)
	out = append(out, number(speedscopeFrame{Name: s.title(&FoldOptions{})}))
	for _, fr := range slices.Backward(s.Frames) {
		if len(fr.Functions) == 0 {
			out = append(out, number(speedscopeFrame{Name: fr.unknown(false), File: fr.module()}))
		}
		for _, fn := range slices.Backward(fr.Functions) {
			f := speedscopeFrame{Name: fn.Name, File: fn.File, Line: fn.Line, Col: fn.Column}
			if f.Name == "" {
				f.Name = fr.unknown(false)
			}
			if f.File == "" {
				f.File = fr.module()
			}
			out = append(out, number(f))
		}
	}
	return out
}

// speedscopeUnit maps pprof's units to the ones that speedscope knows.
func speedscopeUnit(unit string) string {
	switch unit {
	case "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes":
		return unit
	}
	return "none"
}
