// Syscount counts system calls by name or by process, and with -L also prints the time that
// they took.
//
//	# syscount -L
//	Counting system calls, printing the top 10... Hit Ctrl-C to end.
//	[17:07:32]
//	SYSCALL                   COUNT       TIME(us)
//	futex                     17427   19537130.179
//	nanosleep                  2443    6360222.107
//	epoll_pwait                 289    5869451.395
//	ppoll                      4933    3158807.287
//	clock_nanosleep               8    1960536.716
//	wait4                        53    1936710.970
//	sched_yield                 269     348988.949
//	bpf                       98180     176311.067
//	mmap                        900      29943.882
//	madvise                    1228      11708.378
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/sysnames"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("syscount", run)) }

// options holds the flags.
type options struct {
	pid, tid, parent, top   *int
	errno                   int
	call                    string // "" for all
	failed, latency, millis *bool
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("syscount", "Count system calls by name or process, with their time.",
		"syscount -d 10 -L", "of ten seconds, with times, the longest first",
		"syscount -P -e EPERM", "calls that lacked a permission, by process")
	o := options{pid: t.PID()}
	o.tid = t.TID("t,tid")
	o.parent = t.Int("c,ppid", "PID", 0, "only children of this process")
	o.top = t.Int("T,top", "TOP", 10, "print the TOP first")
	o.failed = t.Bool("x,failures", "only calls that failed")
	t.Func("e,errno", "ERRNO", "only calls that failed with this error: EPERM, or 1", func(s string) (err error) {
		var ok bool
		if o.errno, ok = sysnames.ErrnoNumber(s); !ok {
			err = fmt.Errorf("%q is not an error", s)
		}
		return err
	})
	o.latency = t.Bool("L,latency", "with the time that the calls took")
	o.millis = t.Bool("m,milliseconds", "times in milliseconds instead of microseconds")
	byPID := t.Bool("P,process", "by process instead of call")
	t.Func("syscall", "NAME", "only this system call; -l lists them", func(s string) error {
		if !slices.Contains(names(), s) {
			return fmt.Errorf("%q is not a system call", s)
		}
		o.call = s
		return nil
	})
	list := t.Bool("l,list", "print the names of all system calls, and end")
	t.Duration()
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if *list {
		return stdout.Text(strings.Join(names(), "\n") + "\n")
	}
	if *byPID {
		return count(ctx, stdout, t, o, byProcess)
	}
	return count(ctx, stdout, t, o, byCall)
}

// names returns the names of this machine's system calls, those of 32-bit programs included.
func names() (all []string) {
	for _, abi := range sysnames.ABIs(runtime.GOARCH) {
		all = append(all, sysnames.Syscalls(runtime.GOARCH, abi)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// by is a way to count: the key in the program for a call, and the columns of a key in the
// table.
type by[K comparable] struct {
	call    bool // key uses the call
	key     func(c *action.Ctx, call action.Int) []any
	columns []string
	cells   func(*tool.Run, K) []any
}

var byCall = by[uint32]{
	true,
	func(_ *action.Ctx, call action.Int) []any { return []any{call} },
	[]string{"SYSCALL %-22s"},
	func(r *tool.Run, call uint32) []any { return []any{r.CallName(call)} },
}

type process struct {
	PID  uint32
	Comm action.Comm
}

var byProcess = by[process]{
	false,
	func(c *action.Ctx, _ action.Int) []any { return []any{c.PID(), c.Comm()} },
	[]string{"PID %-7d", "COMM %-16s"},
	func(_ *tool.Run, p process) []any { return []any{p.PID, p.Comm} },
}

// maxErrno is the largest error: other values below 0 are results, such as addresses.
const maxErrno = 4095

func count[K comparable](ctx context.Context, stdout *tool.Output, t *tool.Tool, o options,
	by by[K],
) error {
	counts := action.NewCounter[K]("counts", 0)
	times := action.NewSum[K]("times", 0)
	starts := action.NewLRU[uint32, uint64]("starts", 0)
	p := action.NewProgram("syscount")
	calls := t.Calls(p)
	filter := func(c *action.Ctx) {
		tool.FilterPID(c, *o.pid)
		tool.FilterTID(c, *o.tid)
		if *o.parent != 0 {
			c.ReturnUnless(c.PPID().Eq(*o.parent))
		}
	}
	if *o.latency {
		p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) {
			filter(c)
			if o.call != "" {
				calls.Entered(c, o.call)
			}
			starts.Set(c, c.TID(), c.Nsecs())
		})
	}
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}, func(c *action.Ctx) {
		filter(c)
		var call action.Int
		if by.call || o.call != "" {
			call = calls.Returned(c, o.call)
		}
		switch {
		case o.errno != 0:
			c.ReturnUnless(calls.Result(c).Eq(-o.errno))
		case *o.failed:
			ret := calls.Result(c)
			c.ReturnUnless(ret.Lt(0).And(ret.Ge(-maxErrno)))
		}
		if !*o.latency {
			counts.Inc(c, by.key(c, call)...)
			return
		}
		starts.Take(c, c.TID(), func(t0 action.Int) {
			counts.Inc(c, by.key(c, call)...)
			times.Observe(c, c.Nsecs().Sub(t0), by.key(c, call)...)
		})
	})
	return t.Run(ctx, stdout, fmt.Sprintf("Counting system calls, printing the top %d", *o.top),
		func(r *tool.Run) error {
			return show(r, o, by, counts, times)
		}, p)
}

func show[K comparable](r *tool.Run, o options, by by[K], counts *action.Counter[K],
	times *action.Aggregate[K],
) error {
	unit, per := "TIME(us) %14.3f", 1e3
	if *o.millis {
		unit, per = "TIME(ms) %14.3f", 1e6
	}
	tab := r.Table(slices.Concat(by.columns, []string{"COUNT %8d", unit})...).Show(unit[:8],
		*o.latency)
	readCounts, err := tool.Counts(r, counts)
	if err != nil {
		return err
	}
	readTimes := func() (map[K]int64, error) { return nil, nil }
	if *o.latency {
		if readTimes, err = tool.Sums(r, times); err != nil {
			return err
		}
	}
	return r.Every(func() error {
		entries, err := readCounts()
		if err != nil {
			return err
		}
		nsecs, err := readTimes()
		if err != nil {
			return err
		}
		lines := merge(r, by, entries, nsecs)
		r.Printf("[%s]\n", r.Now().Format("15:04:05"))
		tab.Header()
		for _, l := range lines[:min(*o.top, len(lines))] {
			tab.Row(append(l.cells, l.count, float64(l.nsecs)/per)...)
		}
		r.Printf("\n")
		return nil
	})
}

// line is a line of the table: what the keys with the same columns have together, such as the
// numbers of one call in 64-bit and 32-bit programs.
type line struct {
	cells []any
	count uint64
	nsecs int64
}

// merge returns the lines of counts, those with the longest times first, else the largest.
func merge[K comparable](r *tool.Run, by by[K], counts []mapx.Entry[K, uint64],
	nsecs map[K]int64,
) (lines []*line) {
	at := map[string]*line{}
	for _, e := range counts {
		cells := by.cells(r, e.Key)
		key := fmt.Sprint(cells...)
		l := at[key]
		if l == nil {
			l = &line{cells: cells}
			at[key], lines = l, append(lines, l)
		}
		l.count += e.Value
		l.nsecs += nsecs[e.Key]
	}
	slices.SortStableFunc(lines, func(a, b *line) int {
		return cmp.Or(cmp.Compare(b.nsecs, a.nsecs), cmp.Compare(b.count, a.count))
	})
	return lines
}
