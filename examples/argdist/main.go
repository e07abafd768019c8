// Argdist counts the values that an argument, or any other expression, has when a probe
// fires. It prints the number of occurrences of each value (-C) or a histogram (-H).
//
//	# argdist -H 'kretprobe:vfs_read (int64)retval'
//	Tracing... Hit Ctrl-C to end.
//	[16:02:11]
//	kretprobe:vfs_read (int64)retval
//	     (int64)retval       : count     distribution
//	         0 -> 1          : 0        |                                        |
//	         2 -> 3          : 23       |****************************************|
//
// See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/spec"
)

func main() { os.Exit(tool.Main("argdist", run)) }

// key is a combination of values. Numbers and texts that are not used are zero.
type key struct {
	N0, N1, N2, N3 uint64
	S0, S1         [spec.DefaultText]byte
}

// dist is one -C or -H.
type dist struct {
	text      string
	histogram bool
	probe     *spec.Probe
	counts    *action.Counter[key] // of -C
	hist      *action.Hist[action.None]
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, tid, top *int
	cumulative    *bool
	dists         []*dist
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	p, err := o.program()
	if err != nil {
		return err
	}
	return o.Run(ctx, stdout, "Tracing", o.show, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("argdist", "Count the values that expressions take when a probe fires. A PROBE is\n"+
		"TARGET [/FILTER/] VALUE[, VALUE ...]: a target and expressions of bpftrace's.",
		"argdist -H 'kr:vfs_read (int64)retval'", "sizes of reads",
		"argdist -C 't:syscalls:sys_enter_openat comm, args.flags' 5", "")
	o := &options{Tool: t, pid: t.PID(), tid: t.TID("t,tid")}
	o.top = t.Int("T,top", "N", 0, "show only the N most frequent values")
	add := func(histogram bool) func(string) error {
		return func(s string) error {
			o.dists = append(o.dists, &dist{text: s, histogram: histogram})
			return nil
		}
	}
	t.Func("C,count", "PROBE", "count the values", add(false))
	t.Func("H,histogram", "PROBE", "a histogram of the value", add(true))
	o.cumulative = t.Bool("c,cumulative", "count on from interval to interval")
	t.CountFlag("n,number")
	t.Duration()
	t.Interval(time.Second)
	err := t.Parse(args, stdout)
	if err == nil && o.dists == nil {
		err = t.Usagef("-C or -H is missing")
	}
	return o, err
}

// program counts the values of all probes.
func (o *options) program() (*action.Program, error) {
	var texts []string
	for _, d := range o.dists {
		texts = append(texts, d.text)
	}
	probes, err := spec.Parse(o.Tool, texts, &spec.Options{PID: *o.pid})
	if err != nil {
		return nil, err
	}
	o.Options.Resolve = spec.Resolve(probes)
	p := action.NewProgram("argdist")
	for i, d := range o.dists {
		d.probe = probes[i]
		if err := d.count(i); err != nil {
			return nil, o.Usagef("%s: %w", d.text, err)
		}
		for _, a := range d.probe.Actions {
			p.On(a.Target, func(c *action.Ctx) {
				tool.FilterPID(c, *o.pid)
				tool.FilterTID(c, *o.tid)
				a.Run(c)
				d.observe(c, a.Values)
			})
		}
	}
	return p, nil
}

// show prints the values of every interval.
func (o *options) show(r *tool.Run) error {
	shows := make([]func() error, len(o.dists))
	for i, d := range o.dists {
		open, err := d.openCounts, error(nil)
		if d.histogram {
			open = d.openHist
		}
		if shows[i], err = open(r, o); err != nil {
			return err
		}
	}
	return r.Every(func() error {
		r.Printf("[%s]\n", r.Now().Format("15:04:05"))
		for i, show := range shows {
			r.Printf("%s\n", o.dists[i].text)
			if err := show(); err != nil {
				return err
			}
		}
		return nil
	})
}

// count creates the map that counts the values.
func (d *dist) count(i int) error {
	texts := 0
	for _, v := range d.probe.Values {
		if v.IsText() {
			texts++
		}
	}
	switch n := len(d.probe.Values); {
	case d.histogram && (n != 1 || texts > 0):
		return fmt.Errorf("-H takes one number")
	case n == 0 || texts > 2 || n-texts > 4:
		return fmt.Errorf("-C takes from one to four numbers and two texts")
	case d.histogram:
		d.hist = action.NewHist[action.None](fmt.Sprintf("hist%d", i), 1)
	default:
		d.counts = action.NewCounter[key](fmt.Sprintf("counts%d", i), 0)
	}
	return nil
}

// observe counts the values of an event.
func (d *dist) observe(c *action.Ctx, values []*ir.Expr) {
	if d.histogram {
		d.hist.Observe(c, values[0])
		return
	}
	parts := []any{0, 0, 0, 0, "", ""}
	number, text := 0, 4
	for i, v := range d.probe.Values {
		if v.IsText() {
			parts[text] = values[i]
			text++
		} else {
			parts[number] = values[i]
			number++
		}
	}
	d.counts.Inc(c, parts...)
}

// openHist returns a function that prints the histogram of an interval.
func (d *dist) openHist(r *tool.Run, o *options) (func() error, error) {
	read, err := tool.Hists(r, d.hist)
	sum := new(hist.Log2)
	return func() error {
		hists, err := read()
		for _, h := range hists {
			shown := h.Value
			if *o.cumulative {
				err = errors.Join(err, sum.Merge(shown))
				shown = sum
			}
			r.Hist(shown, d.probe.Values[0].Text, "", nil)
		}
		return err
	}, err
}

// openCounts returns a function that prints the counts of an interval.
func (d *dist) openCounts(r *tool.Run, o *options) (func() error, error) {
	read, err := tool.Counts(r, d.counts)
	sums := map[key]uint64{}
	return func() error {
		entries, err := read()
		if *o.cumulative {
			for _, e := range entries {
				sums[e.Key] += e.Value
			}
			entries = entries[:0]
			for _, k := range tool.Largest(sums, func(n uint64) int64 { return int64(n) }) {
				entries = append(entries, mapx.Entry[key, uint64]{Key: k, Value: sums[k]})
			}
		}
		if *o.top > 0 {
			entries = entries[:min(*o.top, len(entries))]
		}
		tab := r.Table("COUNT %-10d", "EVENT %s")
		tab.Header()
		for _, e := range slices.Backward(entries) { // the most frequent last, as BCC prints them
			tab.Row(e.Value, d.event(e.Key))
		}
		return err
	}, err
}

// event formats a combination of values.
func (d *dist) event(k key) string {
	numbers := []uint64{k.N0, k.N1, k.N2, k.N3}
	texts := [][]byte{k.S0[:], k.S1[:]}
	var parts []string
	for _, v := range d.probe.Values {
		if v.IsText() {
			parts = append(parts, fmt.Sprintf("%s = %q", v.Text, v.String(texts[0])))
			texts = texts[1:]
		} else {
			parts = append(parts, fmt.Sprintf("%s = %v", v.Text, v.Number(numbers[0])))
			numbers = numbers[1:]
		}
	}
	return strings.Join(parts, ", ")
}
