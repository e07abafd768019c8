package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
)

// show writes all requested outputs at the end.
func (o *options) show(r *tool.Run, st *tool.Stacks) error {
	return r.Every(func() error {
		p, err := st.Profile()
		if err != nil {
			return err
		}
		title := describe(p, r.Probes())
		c := count(p)
		stats, err := st.Stats()
		if err != nil {
			return err
		}
		c.Lost = stats.Lost()
		if c.Stopped, err = st.Stopped(); err != nil {
			return err
		}
		var folded *profile.Folded
		if *o.folded || *o.svg != "" || *o.html != "" {
			folded = p.Folded(nil)
		}
		if err := o.print(r, p, folded, c); err != nil {
			return err
		}
		return o.write(p, folded, title)
	})
}

// describe sets the types and the period of a profile from its probes, one for each CPU, and
// returns a title with them.
func describe(p *profile.Profile, probes []string) (title string) {
	var t probe.Target
	if len(probes) > 0 {
		t, _ = probe.ParseTarget(probes[0]) // a recording of another tool has other kinds
	}
	title = fmt.Sprintf("%s on %d CPUs for %v", collect.Describe(p, t), len(probes),
		p.Duration.Round(100*time.Millisecond))
	p.Comments = []string{title}
	return title
}

// counts are the numbers of the last line.
type counts struct {
	Samples    int64  `json:"samples"`
	Lost       uint64 `json:"lost"`
	Unresolved int64  `json:"unresolved"` // samples with a frame that has no name
	User       int64  `json:"user"`       // samples with a user stack
	Truncated  int64  `json:"truncated"`  // of those, the ones that seem to be cut off
	// Cut says where these end, and why; without -json it is part of -v.
	Cut []profile.Cut `json:"cut,omitempty"`
	// LeftOut are samples whose stacks end at rules that the walker leaves out, by file.
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Uncertain are samples with a frame that has no name because the process mapped something else
	// there in their time, or may have.
	Uncertain int64 `json:"uncertain,omitempty"`
	Stopped   []int `json:"stopped,omitempty"` // CPUs that went offline: not sampled from then on
}

func count(p *profile.Profile) (c counts) {
	c.Cut, c.LeftOut, c.Uncertain = p.Cut(), p.LeftOut(), p.Uncertain()
	for i := range p.Samples {
		s := &p.Samples[i]
		n := s.Values[0]
		c.Samples += n
		for _, f := range s.Frames {
			if len(f.Functions) == 0 {
				c.Unresolved += n
				break
			}
		}
		if len(s.Frames) > 0 && s.Frames[len(s.Frames)-1].Kind != profile.FrameKernel {
			c.User += n
			if !s.Stopped.Whole() {
				c.Truncated += n
			}
		}
	}
	return c
}

// stackLine is a stack as -json prints it, root first like a folded line.
type stackLine struct {
	Type   string           `json:"type"`
	PID    int              `json:"pid"`
	Comm   string           `json:"comm"`
	Count  int64            `json:"count"`
	End    stack.StopReason `json:"end"`
	Frames []string         `json:"frames"`
}

// print writes the stacks, or the busiest functions with their own samples and those of the
// functions that they call, and a last line with the counts.
func (o *options) print(r *tool.Run, p *profile.Profile, folded *profile.Folded,
	c counts,
) error {
	if o.JSON() {
		for i := range p.Samples {
			one := profile.Profile{Samples: p.Samples[i : i+1]}
			for f := range one.Folded(&profile.FoldOptions{NoComm: true, Annotate: true}).All() {
				r.JSON(stackLine{
					"stack", p.Samples[i].PID, p.Samples[i].Comm, f.Count, p.Samples[i].Stopped,
					f.Frames,
				})
			}
		}
		r.JSON(struct {
			Type string `json:"type"`
			counts
		}{"summary", c})
		return nil
	}
	if *o.folded {
		if _, err := folded.WriteTo(r.Raw()); err != nil {
			return err
		}
	} else {
		for _, byTotal := range []bool{false, true} {
			if _, err := p.Top(&profile.TopOptions{ByTotal: byTotal}).WriteTo(r.Raw()); err != nil {
				return err
			}
			r.Printf("\n")
		}
	}
	line := fmt.Sprintf("samples %d, lost %d, unresolved %d", c.Samples, c.Lost, c.Unresolved)
	if c.User > 0 {
		line += fmt.Sprintf(", user stacks that look truncated %d of %d (%.0f%%)",
			c.Truncated, c.User, 100*float64(c.Truncated)/float64(c.User))
	}
	for _, file := range slices.Sorted(maps.Keys(c.LeftOut)) {
		line += fmt.Sprintf(", %d at rules of %s that are left out", c.LeftOut[file],
			cmp.Or(file, "unknown files"))
	}
	if c.Uncertain > 0 {
		line += fmt.Sprintf(", %d at addresses that were other code in their time", c.Uncertain)
	}
	if len(c.Stopped) > 0 {
		line += fmt.Sprintf(", not sampled since they went offline: CPUs %v", c.Stopped)
	}
	r.Note("%s\n", line)
	if o.Verbose() {
		for _, cut := range c.Cut {
			r.Note("user stacks cut: %6d in %s: %v\n", cut.Samples, cmp.Or(cut.File, "unknown files"), cut.Stopped)
		}
	}
	return nil
}

// write writes the files of -svg, -html and -pprof.
func (o *options) write(p *profile.Profile, folded *profile.Folded, title string) error {
	if *o.svg != "" {
		svg := &profile.SVGOptions{Title: "CPU flame graph", Subtitle: title, CountName: "samples"}
		if err := cli.WriteFile(*o.svg, 0o666, func(w io.Writer) error {
			return profile.WriteSVG(w, folded, svg)
		}); err != nil {
			return err
		}
	}
	if *o.html != "" {
		html := &profile.HTMLOptions{Title: "CPU flame graph", Subtitle: title}
		if err := cli.WriteFile(*o.html, 0o666, func(w io.Writer) error {
			return profile.WriteHTML(w, folded, html)
		}); err != nil {
			return err
		}
	}
	if *o.pprof != "" {
		return cli.WriteFile(*o.pprof, 0o666, p.WritePprof)
	}
	return nil
}
