// Funclatency prints the latency of a function as a histogram.
//
//	# funclatency -u uprobe:libc:getaddrinfo
//	Timing uprobe:libc:getaddrinfo... Hit Ctrl-C to end.
//
//	     usecs               : count     distribution
//	         0 -> 1          : 0        |                                        |
//	         2 -> 3          : 0        |                                        |
//	         4 -> 7          : 0        |                                        |
//	         8 -> 15         : 0        |                                        |
//	        16 -> 31         : 0        |                                        |
//	        32 -> 63         : 0        |                                        |
//	        64 -> 127        : 0        |                                        |
//	       128 -> 255        : 0        |                                        |
//	       256 -> 511        : 3        |************                            |
//	       512 -> 1023       : 10       |****************************************|
//	      1024 -> 2047       : 1        |****                                    |
//	      2048 -> 4095       : 0        |                                        |
//	      4096 -> 8191       : 2        |********                                |
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("funclatency", run)) }

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid         *int
	each, times *bool
	entry, back probe.Target
	unit        string
	per         int64 // nanoseconds
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	p, lats := o.program()
	return o.Run(ctx, stdout, fmt.Sprintf("Timing %v", o.entry), func(r *tool.Run) error {
		return o.show(r, lats)
	}, p)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("funclatency",
		"Measure how long calls of kernel and user functions take, as a histogram.\n"+
			"A target is one of bpftrace's, with wildcards: vfs_*, uprobe:libc:malloc",
		"funclatency -u vfs_read 1", "in microseconds, every second",
		"funclatency -F -p 181 'uprobe:libc:*alloc'", "for each function")
	t.Operands("TARGET", 1, 1)
	o := &options{Tool: t, pid: t.PID(), unit: "nsecs", per: 1}
	micros := t.Bool("u,microseconds", "in microseconds instead of nanoseconds")
	millis := t.Bool("m,milliseconds", "in milliseconds")
	o.each = t.Bool("F,function", "a histogram for each function")
	o.times = t.Bool("T,timestamp", "with the time of day")
	regexps := t.Bool("r,regexp", "the target's last part is a regular expression")
	t.Duration()
	t.Interval(0)
	err := t.Parse(args, stdout)
	if err != nil {
		return nil, err
	}
	switch {
	case *micros:
		o.unit, o.per = "usecs", 1000
	case *millis:
		o.unit, o.per = "msecs", 1_000_000
	}
	t.Options.Resolve = &probe.Options{NoTypes: true}
	if o.entry, err = t.Target(t.Args()[0], *regexps, *o.pid); err != nil {
		return nil, err
	}
	if o.back, err = returns(o.entry); err != nil {
		return nil, t.Usagef("%w", err)
	}
	return o, nil
}

// program measures the time from calls to their returns.
func (o *options) program() (*action.Program, *action.Hist[uint32]) {
	calls := action.NewPair[uint64]("calls", 0)
	lats := action.NewHist[uint32]("lats", 0)
	p := action.NewProgram("funclatency")
	p.On(o.entry, func(c *action.Ctx) {
		tool.FilterPID(c, *o.pid)
		calls.Enter(c, c.Nsecs())
	})
	p.On(o.back, func(c *action.Ctx) {
		tool.FilterPID(c, *o.pid)
		calls.Leave(c, func(t0 action.Int) {
			key := c.Const(0)
			if *o.each {
				key = c.Probe()
			}
			lats.Observe(c, c.Nsecs().Sub(t0).Div(o.per), key)
		})
	})
	return p, lats
}

// show prints histograms every interval.
func (o *options) show(r *tool.Run, lats *action.Hist[uint32]) error {
	label := map[bool]string{true: "function"}[*o.each]
	return tool.EachHist(r, lats, *o.times, func(key uint32, d *hist.Log2) {
		name, _, _ := strings.Cut(r.Probe(uint64(key)), " pid=")
		r.Hist(d, o.unit, label, name[strings.LastIndexByte(name, ':')+1:])
	})
}

// returns returns the target that fires at the return of the calls at which entry fires.
func returns(entry probe.Target) (probe.Target, error) {
	switch t := entry.(type) {
	case probe.Kprobe:
		if t.Offset == 0 && t.Address == 0 {
			return probe.Kretprobe{Module: t.Module, Symbol: t.Symbol}, nil
		}
	case probe.Set:
		set := make(probe.Set, len(t))
		for i := range t {
			var err error
			if set[i], err = returns(t[i]); err != nil {
				return nil, err
			}
		}
		return set, nil
	case probe.Fentry:
		return probe.Fexit(t), nil
	case probe.Uprobe:
		if cmp.Or(t.Offset, t.Address, uint64(t.Line)) == 0 {
			return probe.Uretprobe{Path: t.Path, Symbol: t.Symbol, Lang: t.Lang, PID: t.PID}, nil
		}
	}
	return nil, fmt.Errorf("%v is not the entry of a function", entry)
}
