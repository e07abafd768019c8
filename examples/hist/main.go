// Hist draws a histogram of the numbers on its standard input, as bpftrace or BCC print it
// or as JSON, CSV or Prometheus metrics, with quantiles, or a heat map of them over time.
//
//	hist [-k 2] [-q 0.5,0.99] < numbers
//	hist -linear 0,1000,50 < numbers
//	hist -heat 1s -svg heat.svg < times-and-values
//
// A line is a number, a duration such as 1.5ms (converted to -unit), or a key and one of
// these, which gives a histogram for each key. With -heat it is a time in seconds and a
// value.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	os.Exit(cli.Main(func() int {
		return cli.Status("hist", run(os.Args[1:], os.Stdin, cli.NewOutput(os.Stdout)), os.Stderr)
	}))
}

// options holds the flags.
type options struct {
	page      hist.PrometheusPage // of -style prometheus
	k         int
	linear    string
	unit      string
	style     string
	quantiles string
	heat      time.Duration
	offset    int
	svg       string
	title     string
	unicode   bool
	width     int
}

func parse(args []string, help *cli.Output) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("hist", flag.ContinueOnError)
	f.IntVar(&o.k, "k", 0, "divide each power of two into 2^`k` buckets, 0 to 5")
	f.StringVar(&o.linear, "linear", "", "linear buckets: `min,max,step`")
	f.StringVar(&o.unit, "unit", "", "unit of the values: ns, us, ms, s; durations are counted in it")
	f.StringVar(&o.style, "style", "bpftrace", "bpftrace, bcc, json, csv or prometheus")
	f.StringVar(&o.quantiles, "q", "", "quantiles to print below, such as `0.5,0.99`")
	f.DurationVar(&o.heat, "heat", 0, "draw a heat map with columns of that `width`")
	f.IntVar(&o.offset, "offset", 0,
		"draw a sub-second offset heat map with that many `rows`; lines are times")
	f.StringVar(&o.svg, "svg", "", "write the heat map to this `file` instead of the terminal")
	f.StringVar(&o.title, "title", "", "title of the heat map")
	f.BoolVar(&o.unicode, "unicode", false, "draw bars with blocks")
	f.IntVar(&o.width, "width", 0, "columns of the bars or the terminal")
	if err := cli.Parse(f, args, help); err != nil {
		return nil, err
	}
	o.unit, o.title = cli.Escape(o.unit), cli.Escape(o.title) // which package hist prints as they are
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: the numbers come on standard input", f.Arg(0))
	}
	return o, nil
}

func run(args []string, in io.Reader, out *cli.Output) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	w := out.Buffered()
	if o.heat > 0 || o.offset > 0 {
		err = o.runHeat(in, w)
	} else {
		err = o.runHist(in, w)
	}
	return errors.Join(err, w.Flush())
}

// adder is a logarithmic or a linear histogram.
type adder interface {
	hist.Distribution
	Add(v int64)
	Quantile(q float64) (hist.Quantile, error)
}

func (o *options) newHist() (adder, error) {
	if o.linear == "" {
		h, err := hist.NewLog2(o.k)
		if err != nil {
			return nil, err
		}
		return h.Track(), nil
	}
	var lo, hi, step int64
	if n, err := fmt.Sscanf(o.linear, "%d,%d,%d", &lo, &hi, &step); n != 3 || err != nil {
		return nil, fmt.Errorf("-linear %q: want min,max,step", o.linear)
	}
	h, err := hist.NewLinear(lo, hi, step)
	if err != nil {
		return nil, err
	}
	return h.Track(), nil
}

// value reads a number or a duration.
func (o *options) value(text string) (int64, error) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		if math.Abs(v) < 1<<62 {
			return int64(math.Round(v)), nil
		}
		return 0, fmt.Errorf("%q is out of range", text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a number nor a duration", text)
	}
	unit, ok := map[string]time.Duration{
		"": 1, "ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	}[o.unit]
	if !ok {
		return 0, fmt.Errorf("duration %s in unit %q", text, o.unit)
	}
	return int64(d / unit), nil
}

// lines calls fn with the fields of each line that is not blank.
func lines(in io.Reader, fn func(fields []string) error) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		fields := strings.Fields(sc.Text())
		if len(fields) == 0 {
			continue
		}
		if err := fn(fields); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return sc.Err()
}

func (o *options) runHist(in io.Reader, w *cli.Output) error {
	hists := map[string]adder{}
	err := lines(in, func(fields []string) error {
		key := strings.Join(fields[:len(fields)-1], " ")
		v, err := o.value(fields[len(fields)-1])
		if err != nil {
			return err
		}
		h := hists[key]
		if h == nil {
			if h, err = o.newHist(); err != nil {
				return err
			}
			hists[key] = h
		}
		h.Add(v)
		return nil
	})
	if err != nil {
		return err
	}
	keys := make([]string, 0, len(hists))
	for key := range hists {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { // the largest last, as in bpftrace
		return cmp.Or(cmp.Compare(hists[a].Count(), hists[b].Count()), cmp.Compare(a, b))
	})
	for _, key := range keys {
		if err := o.print(w, key, hists[key]); err != nil {
			return err
		}
	}
	_, err = o.page.WriteTo(w.Raw())
	return err
}

func (o *options) print(w *cli.Output, key string, h adder) error {
	if err := o.draw(w, key, h); err != nil {
		return err
	}
	if o.quantiles == "" {
		return nil
	}
	for text := range strings.SplitSeq(o.quantiles, ",") {
		q, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("-q %q: not a number", text)
		}
		r, err := h.Quantile(q)
		if err != nil {
			return err
		}
		w.Printf("p%s %.0f (%d to %d)\n", strconv.FormatFloat(100*q, 'g', 6, 64), r.Value, r.Min,
			r.Max)
	}
	return nil
}

func (o *options) draw(w *cli.Output, key string, h adder) error {
	name := "@"
	if key != "" {
		name = "@[" + cli.Escape(key) + "]"
	}
	switch o.style {
	case "bpftrace":
		return hist.Print(w.Raw(), name, h, &hist.TextOptions{Unicode: o.unicode, Width: o.width})
	case "json":
		return hist.PrintJSON(w.Raw(), name, h)
	case "csv":
		return hist.WriteCSV(w.Raw(), h)
	case "prometheus":
		var labels []hist.PrometheusLabel
		if key != "" {
			labels = append(labels, hist.PrometheusLabel{Name: "key", Value: key})
		}
		return o.page.Histogram("values", "", labels, hist.ToPrometheus(h, 1))
	case "bcc":
		opts := &hist.BCCOptions{ValType: o.unit}
		if key != "" {
			opts.Section, opts.Name = "key", "'"+cli.Escape(key)+"'"
		}
		return hist.PrintBCC(w.Raw(), h, opts)
	}
	return fmt.Errorf("-style %q: want bpftrace, bcc, json, csv or prometheus", o.style)
}

func (o *options) runHeat(in io.Reader, w *cli.Output) error {
	h, err := o.newHeat()
	if err != nil {
		return err
	}
	dropped := 0
	err = lines(in, func(fields []string) error {
		seconds, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(math.Abs(seconds) < 1e9*9) {
			return fmt.Errorf("%q is not a time in seconds", fields[0])
		}
		at := time.Unix(0, int64(seconds*1e9))
		ok := false
		switch {
		case o.offset > 0:
			ok = h.AddTime(at)
		case len(fields) != 2:
			return fmt.Errorf("%d fields, want a time and a value", len(fields))
		default:
			v, err := o.value(fields[1])
			if err != nil {
				return err
			}
			ok = h.Add(at, v)
		}
		if !ok {
			dropped++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if dropped > 0 {
		return fmt.Errorf("%d values are too far away in time: use wider columns", dropped)
	}
	return o.drawHeat(w, h.Grid())
}

func (o *options) newHeat() (*hist.Heat, error) {
	if o.offset > 0 {
		return hist.NewOffsetHeat(o.offset)
	}
	like, err := o.newHist()
	if err != nil {
		return nil, err
	}
	return hist.NewHeat(o.heat, like)
}

func (o *options) drawHeat(w *cli.Output, g hist.Grid) error {
	opts := &hist.HeatOptions{Title: o.title, Unit: o.unit, NoColour: os.Getenv("NO_COLOR") != "" ||
		!w.Terminal() || o.unicode}
	if o.svg == "" {
		width := o.width
		if width <= 0 {
			width = 80
		}
		_, err := io.WriteString(w.Raw(), g.Text(width, opts))
		return err
	}
	return cli.WriteFile(o.svg, 0o666, func(w io.Writer) error { return g.WriteSVG(w, opts) })
}
