// Funclatency shows how long calls of a function take, as a histogram.
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
	"io"
	"os"
	"strings"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("funclatency", run)) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("funclatency", "Measure how long calls of kernel and user functions take, as a histogram.\n"+
		"A target is one of bpftrace's, with wildcards: vfs_*, uprobe:libc:malloc",
		"funclatency -u vfs_read 1", "in microseconds, every second",
		"funclatency -F -p 181 'uprobe:libc:*alloc'", "for each function")
	t.Operands("TARGET", 1, 1)
	pid := t.PID()
	micros := t.Bool("u,microseconds", "in microseconds instead of nanoseconds")
	millis := t.Bool("m,milliseconds", "in milliseconds")
	each := t.Bool("F,function", "a histogram for each function")
	times := t.Bool("T,timestamp", "with the time of day")
	regexps := t.Bool("r,regexp", "the target's last part is a regular expression")
	t.Duration()
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	entry, err := t.Target(t.Args()[0], *regexps, *pid)
	if err != nil {
		return err
	}
	back, err := returns(entry)
	if err != nil {
		return t.Usagef("%w", err)
	}
	unit, per := "nsecs", int64(1)
	switch {
	case *micros:
		unit, per = "usecs", 1000
	case *millis:
		unit, per = "msecs", 1_000_000
	}
	t.Options.Resolve = &probe.Options{NoTypes: true}

	calls := action.NewPair[uint64]("calls", 0)
	lats := action.NewHistBy[uint32]("lats", 0)
	p := action.NewProgram("funclatency")
	p.On(entry, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		calls.Enter(c, c.Nsecs())
	})
	p.On(back, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		calls.Leave(c, func(t0 action.Int) {
			key := c.Const(0)
			if *each {
				key = c.Probe()
			}
			lats.Observe(c, c.Nsecs().Sub(t0).Div(per), key)
		})
	})
	return t.Run(ctx, stdout, fmt.Sprintf("Timing %v", entry), func(s *tool.Session) error {
		return tool.EachHist(s, lats, *times, func(key uint32, d *hist.Log2) {
			label := ""
			name, _, _ := strings.Cut(s.Probe(uint64(key)), " pid=")
			if *each {
				label = "function"
			}
			s.Hist(d, unit, label, name[strings.LastIndexByte(name, ':')+1:])
		})
	}, p)
}

// returns is the target that fires where calls that entry fires at return.
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
