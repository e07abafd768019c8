// Argdist counts the values that an argument, or any expression, takes when a
// probe fires: as a frequency count (-C) or a histogram (-H).
//
//	# argdist -H 'kretprobe:vfs_read retval'
//	Tracing... Hit Ctrl-C to end.
//	[16:02:11]
//	kretprobe:vfs_read retval
//	     retval              : count     distribution
//	         0 -> 1          : 0        |                                        |
//	         2 -> 3          : 23       |****************************************|
//
// See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/expr"
)

func main() { os.Exit(tool.Main("argdist", run)) }

// key is a combination of values; those of a kind that are not used are zero.
type key struct {
	N0, N1, N2, N3 uint64
	S0, S1         [expr.DefaultText]byte
}

// dist is one -C or -H.
type dist struct {
	text   string
	values []*ir.Expr
	counts *action.Counter[key] // of -C
	hist   *action.Hist[action.None]
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("argdist", "Count the values that expressions take when a probe fires. A PROBE is\n"+
		"TARGET [/FILTER/] VALUE[, VALUE ...]: a target of bpftrace's, C's expressions.",
		"argdist -H 'kr:vfs_read /retval > 0/ retval'", "sizes of reads",
		"argdist -C 't:syscalls:sys_enter_openat comm, args.flags' 5", "")
	pid := t.PID()
	tid := t.TID("t,tid")
	top := t.Int("T,top", "N", 0, "show only so many values, the most frequent")
	var probes, kinds []string
	for _, kind := range [][2]string{{"C,count", "count the values"}, {"H,histogram", "a histogram of the value"}} {
		t.Func(kind[0], "PROBE", kind[1], func(s string) error {
			probes, kinds = append(probes, s), append(kinds, kind[0][:1])
			return nil
		})
	}
	cumulative := t.Bool("c,cumulative", "count on from interval to interval")
	t.CountFlag("n,number")
	t.Duration()
	t.Interval(time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if len(probes) == 0 {
		return t.Usagef("-C or -H is missing")
	}

	p := action.NewProgram("argdist")
	var dists []*dist
	for i, text := range probes {
		spec, err := expr.ParseSpec(text, *pid)
		if err != nil {
			return t.Usagef("%w", err)
		}
		d, err := newDist(text, spec, kinds[i] == "H", i)
		if err != nil {
			return t.Usagef("%s: %w", text, err)
		}
		dists = append(dists, d)
		p.On(spec.Target, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			tool.FilterTID(c, *tid)
			expr.Filter(c, spec.Filter)
			d.observe(c)
		})
	}
	return t.Run(ctx, stdout, "Tracing", func(s *tool.Session) error {
		shows := make([]func() error, len(dists))
		for i, d := range dists {
			var err error
			if shows[i], err = d.open(s, *top, *cumulative); err != nil {
				return err
			}
		}
		return s.Every(func() error {
			s.Printf("[%s]\n", s.Now().Format("15:04:05"))
			for i, show := range shows {
				s.Printf("%s\n", dists[i].text)
				if err := show(); err != nil {
					return err
				}
			}
			return nil
		})
	}, p)
}

func newDist(text string, spec expr.Spec, histogram bool, i int) (*dist, error) {
	values, err := expr.ParseList(spec.Rest, spec.Target)
	if err != nil {
		return nil, err
	}
	d := &dist{text: text, values: values}
	texts := 0
	for _, v := range values {
		if expr.Text(v) {
			texts++
		}
	}
	switch {
	case histogram && (len(values) != 1 || texts > 0):
		return nil, fmt.Errorf("-H takes one number")
	case len(values) == 0 || texts > 2 || len(values)-texts > 4:
		return nil, fmt.Errorf("-C takes from one to four numbers and two texts")
	case histogram:
		d.hist = action.NewHist(fmt.Sprintf("hist%d", i))
	default:
		d.counts = action.NewCounter[key](fmt.Sprintf("counts%d", i), 0)
	}
	return d, nil
}

// observe counts the values of an event.
func (d *dist) observe(c *action.Ctx) {
	if d.hist != nil {
		d.hist.Observe(c, d.values[0])
		return
	}
	parts := []any{0, 0, 0, 0, "", ""}
	number, text := 0, 4
	for _, v := range d.values {
		if expr.Text(v) {
			parts[text] = v
			text++
		} else {
			parts[number] = v
			number++
		}
	}
	d.counts.Inc(c, parts...)
}

// open returns what shows the values of an interval.
func (d *dist) open(s *tool.Session, top int, cumulative bool) (func() error, error) {
	if d.hist != nil {
		read, err := tool.Hists(s, d.hist)
		sum := new(hist.Log2)
		return func() error {
			hists, err := read()
			for _, h := range hists {
				shown := h.Value
				if cumulative {
					err = errors.Join(err, sum.Merge(shown))
					shown = sum
				}
				s.Hist(shown, d.values[0].String(), "", nil)
			}
			return err
		}, err
	}
	read, err := tool.Counts(s, d.counts)
	sums := map[key]uint64{}
	return func() error {
		entries, err := read()
		if cumulative {
			for _, e := range entries {
				sums[e.Key] += e.Value
			}
			entries = entries[:0]
			for _, k := range tool.Largest(sums, func(n uint64) int64 { return int64(n) }) {
				entries = append(entries, mapx.Entry[key, uint64]{Key: k, Value: sums[k]})
			}
		}
		if top > 0 {
			entries = entries[:min(top, len(entries))]
		}
		tab := s.Table("COUNT %-10d", "EVENT %s")
		tab.Header()
		for i := len(entries) - 1; i >= 0; i-- { // the most frequent last, as BCC prints them
			tab.Row(entries[i].Value, d.event(entries[i].Key))
		}
		return err
	}, err
}

// event is a combination of values as text.
func (d *dist) event(k key) string {
	numbers := []uint64{k.N0, k.N1, k.N2, k.N3}
	texts := []string{action.Text(k.S0[:]), action.Text(k.S1[:])}
	var parts []string
	for _, v := range d.values {
		if expr.Text(v) {
			parts = append(parts, fmt.Sprintf("%v = %q", v, texts[0]))
			texts = texts[1:]
		} else {
			parts = append(parts, fmt.Sprintf("%v = %d", v, int64(numbers[0])))
			numbers = numbers[1:]
		}
	}
	return strings.Join(parts, ", ")
}
