// Syscount counts system calls by name, or by process, and with -L says how long
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
	"io"
	"os"
	"slices"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("syscount", run)) }

// key is a system call, or a process with its name.
type key struct {
	ID   uint32
	Comm action.Comm
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("syscount", "Count system calls by name or process, with their time.",
		"syscount -d 10 -L", "of ten seconds, with times, the longest first",
		"syscount -P -e EPERM", "who may not do what it tries")
	pid := t.PID()
	top := t.Int("T", "TOP", 10, "print so many")
	failed := t.Bool("x", "only calls that failed")
	errno := 0
	t.Func("e", "ERRNO", "only calls that failed so: EPERM, or 1", func(s string) (err error) {
		var ok bool
		if errno, ok = tool.ParseErrno(s); !ok {
			err = fmt.Errorf("%q is not an error", s)
		}
		return err
	})
	latency := t.Bool("L", "with the time that the calls took")
	millis := t.Bool("m", "times in milliseconds instead of microseconds")
	byPID := t.Bool("P", "by process instead of call")
	t.Duration()
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	counts := action.NewCounter[key]("counts", 0)
	times := action.NewSum[key]("times", 0)
	starts := action.NewLRU[uint32, uint64]("starts", 0)
	p := action.NewProgram("syscount")
	if *latency {
		p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			starts.Set(c, c.TID(), c.Nsecs())
		})
	}
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		switch ret := c.Field("ret"); {
		case errno != 0:
			c.ReturnUnless(ret.Eq(-errno))
		case *failed:
			c.ReturnUnless(ret.Lt(0))
		}
		k := []any{c.Field("id"), ""}
		if *byPID {
			k = []any{c.PID(), c.Comm()}
		}
		if !*latency {
			counts.Inc(c, k...)
			return
		}
		starts.Take(c, c.TID(), func(t0 action.Int) {
			counts.Inc(c, k...)
			times.Observe(c, c.Nsecs().Sub(t0), k...)
		})
	})

	return t.Run(ctx, stdout, fmt.Sprintf("Counting system calls, printing the top %d", *top), func(s *tool.Session) error {
		unit, per := "TIME(us) %14.3f", 1e3
		if *millis {
			unit, per = "TIME(ms) %14.3f", 1e6
		}
		tab := s.Table("SYSCALL %-22s", "PID %-7d", "COMM %-16s", "COUNT %8d", unit)
		tab.Show("SYSCALL", !*byPID).Show("PID", *byPID).Show("COMM", *byPID).Show(unit[:8], *latency)
		readCounts, err := tool.Counts(s, counts)
		if err != nil {
			return err
		}
		readTimes := func() (map[key]int64, error) { return nil, nil }
		if *latency {
			if readTimes, err = tool.Sums(s, times); err != nil {
				return err
			}
		}
		return s.Every(func() error {
			entries, err := readCounts()
			if err != nil {
				return err
			}
			nsecs, err := readTimes()
			if err != nil {
				return err
			}
			slices.SortStableFunc(entries, func(a, b mapx.Entry[key, uint64]) int {
				return cmp.Compare(nsecs[b.Key], nsecs[a.Key])
			})
			s.Printf("[%s]\n", s.Now().Format("15:04:05"))
			tab.Header()
			for _, e := range entries[:min(*top, len(entries))] {
				name := tool.SyscallName(s.Arch(), int(int32(e.Key.ID)))
				tab.Row(name, e.Key.ID, e.Key.Comm, e.Value, float64(nsecs[e.Key])/per)
			}
			s.Printf("\n")
			return nil
		})
	}, p)
}
