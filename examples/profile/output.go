package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/profile"
)

// result is everything that the outputs are made from.
type result struct {
	profile *profile.Profile
	lost    uint64
	stopped []int  // CPUs that went offline
	title   string // what was sampled, for people
}

// write makes all the outputs that were asked for. What it prints goes to w,
// the last line to note where w holds data for other programs.
func (r *result) write(c *config, w, note io.Writer) error {
	folded := r.profile.Folded(nil)
	out := bufio.NewWriter(w)
	var err error
	switch {
	case c.folded:
		_, err = folded.WriteTo(out)
	case c.json:
		err = r.writeJSON(out)
	default:
		note = out
		err = r.writeTable(out)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return err
	}
	if c.svg != "" {
		o := &profile.SVGOptions{Title: "CPU flame graph", Subtitle: r.title, CountName: "samples"}
		if err := writeFile(c.svg, func(w io.Writer) error { return profile.WriteSVG(w, folded, o) }); err != nil {
			return err
		}
	}
	if c.pprof != "" {
		if err := writeFile(c.pprof, r.profile.WritePprof); err != nil {
			return err
		}
	}
	if !c.json {
		escape.Fprintln(note, r.summary())
		return out.Flush()
	}
	return nil
}

// writeFile writes a whole file or says why it could not.
func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		info, _ := f.Stat()
		err = cmp.Or(err, f.Close())
		if err != nil && info != nil && info.Mode().IsRegular() {
			os.Remove(name) // half a file only misleads
		}
	}()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// writeTable prints the busiest functions by themselves and with what they call.
func (r *result) writeTable(w io.Writer) error {
	for _, byTotal := range []bool{false, true} {
		t := r.profile.Top(&profile.TopOptions{ByTotal: byTotal})
		if _, err := t.WriteTo(w); err != nil {
			return err
		}
		escape.Fprintln(w)
	}
	return nil
}

// counts are the numbers of the last line.
type counts struct {
	Samples    int64  `json:"samples"`
	Lost       uint64 `json:"lost"`
	Unresolved int64  `json:"unresolved"`        // samples with a frame that has no name
	User       int64  `json:"user"`              // samples with a user stack
	Truncated  int64  `json:"truncated"`         // of those, the ones that look cut off
	Stopped    []int  `json:"stopped,omitempty"` // CPUs that went offline: not sampled from then on
}

func (r *result) counts() counts {
	c := counts{Lost: r.lost, Stopped: r.stopped}
	for i := range r.profile.Samples {
		s := &r.profile.Samples[i]
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
			if !s.End.Whole() {
				c.Truncated += n
			}
		}
	}
	return c
}

func (r *result) summary() string {
	c := r.counts()
	s := fmt.Sprintf("samples %d, lost %d, unresolved %d", c.Samples, c.Lost, c.Unresolved)
	if c.User > 0 {
		s += fmt.Sprintf(", user stacks that look truncated %d of %d (%.0f%%)",
			c.Truncated, c.User, 100*float64(c.Truncated)/float64(c.User))
	}
	if len(c.Stopped) > 0 {
		s += fmt.Sprintf(", not sampled since they went offline: CPUs %v", c.Stopped)
	}
	return s
}

// stackLine is a stack in -json; root first, like a folded line.
type stackLine struct {
	Type   string    `json:"type"`
	PID    int       `json:"pid"`
	Comm   string    `json:"comm"`
	Count  int64     `json:"count"`
	End    stack.End `json:"end"`
	Frames []string  `json:"frames"`
}

func (r *result) writeJSON(w io.Writer) error {
	enc := escape.NewEncoder(w)
	for i := range r.profile.Samples {
		one := profile.Profile{Samples: r.profile.Samples[i : i+1]}
		for f := range one.Folded(&profile.FoldOptions{NoComm: true, Annotate: true}).All() {
			s := &one.Samples[0]
			line := stackLine{"stack", s.PID, s.Comm, f.Count, s.End, f.Frames}
			if err := enc.Encode(line); err != nil {
				return err
			}
		}
	}
	return enc.Encode(struct {
		Type string `json:"type"`
		counts
	}{"summary", r.counts()})
}
