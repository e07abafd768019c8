package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// Spent shows the time that is spent on each thing of a kind, as tools like softirqs do at
// the end of every interval: the total of each, histograms (-d), or the number of times (-C),
// in microseconds, with -N in nanoseconds, and with -T under the time of day.
type Spent[K comparable] struct {
	tool                       *Tool
	label                      string
	clock, nanos, counts, dist *bool
	totals                     *action.Aggregate[K]
	hists                      *action.Hist[K]
}

// NewSpent declares the flags. label is the heading for the things: "softirq". entries is the
// number of things that there is room for.
func NewSpent[K comparable](t *Tool, label string, entries int) *Spent[K] {
	t.Interval(0)
	return &Spent[K]{
		tool: t, label: label,
		clock:  t.Bool("T,timestamp", "with the time of day"),
		nanos:  t.Bool("N,nanoseconds", "in nanoseconds instead of microseconds"),
		counts: t.Bool("C,count", "how many there were instead of their time"),
		dist:   t.Bool("d,dist", "the distribution of the times, as histograms"),
		totals: action.NewSum[K]("totals", entries),
		hists:  action.NewHist[K]("times", entries*32),
	}
}

// Check returns an error if the flags contradict each other. Call it after Parse.
func (sp *Spent[K]) Check() error {
	if *sp.counts && (*sp.dist || *sp.nanos) {
		return sp.tool.Usagef("-C counts, and has no times: not with -d and -N")
	}
	return nil
}

// Program returns a program that has the maps that Show reads.
func (sp *Spent[K]) Program() *action.Program {
	p := action.NewProgram(sp.tool.name)
	p.Maps = []*ir.Map{sp.totals.Map(), sp.hists.Map()}
	return p
}

// Add records, in a program, that something took nsecs nanoseconds. If the key is a struct,
// pass its fields in order.
func (sp *Spent[K]) Add(c *action.Ctx, nsecs action.Int, key ...any) {
	unit, per := sp.unit()
	switch {
	case *sp.dist:
		sp.hists.Observe(c, nsecs.Div(per), key...)
	case unit == "count":
		sp.totals.Observe(c, 1, key...)
	default:
		sp.totals.Observe(c, nsecs, key...)
	}
}

func (sp *Spent[K]) unit() (name string, per int64) {
	switch {
	case *sp.counts:
		return "count", 1
	case *sp.nanos:
		return "nsecs", 1
	}
	return "usecs", 1000
}

// Show prints the totals, the largest last, or the histograms, at the end of every interval.
// It is the body of a run. name returns the text for a key.
func (sp *Spent[K]) Show(run *Run, width int, name func(K) string) error {
	totals, err := Sums(run, sp.totals)
	if err != nil {
		return err
	}
	hists, err := Hists(run, sp.hists)
	if err != nil {
		return err
	}
	unit, per := sp.unit()
	tab := run.Table(fmt.Sprintf("%s %%-%ds", strings.ToUpper(sp.label), width), "TOTAL_"+unit+" %11d")
	return run.Every(func() error {
		run.Printf("\n")
		if *sp.clock {
			run.Clock()
		}
		if *sp.dist {
			rows, err := hists()
			for _, r := range rows {
				run.Hist(r.Value, unit, sp.label, name(r.Key))
			}
			return err
		}
		rows, err := totals()
		tab.Header()
		for _, r := range Ascending(rows) {
			tab.Row(name(r.Key), r.Value/per)
		}
		return err
	})
}

// Ascending returns the entries of a map with values other than 0, the largest last.
func Ascending[K comparable](m map[K]int64) []mapx.Entry[K, int64] {
	var out []mapx.Entry[K, int64]
	for k, v := range m {
		if v != 0 {
			out = append(out, mapx.Entry[K, int64]{Key: k, Value: v})
		}
	}
	slices.SortFunc(out, func(a, b mapx.Entry[K, int64]) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(fmt.Sprint(a.Key), fmt.Sprint(b.Key)))
	})
	return out
}
