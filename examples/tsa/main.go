// Tsa says in which states a process's threads spend their time: on a CPU, waiting
// for one, or waiting for something else, and in which system call. It is where
// to begin: each state has a tool that goes on from there.
//
//	# tsa -p 4149
//	Tracing the states of threads... Hit Ctrl-C to end.
//	TID     COMM          ONCPU(ms)  RUNQ(ms) SLEEP(ms)  DISK(ms) OTHER(ms) IN
//	4149    python3           704.8     416.5    2950.8       0.0       0.0 clock_nanosleep
//	4198    python3           634.5     443.1    2365.0       0.0       0.0 clock_nanosleep
//	Lost: 501 probe firings (left out by the kernel)
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/sysnames"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("tsa", run)) }

// states of a thread; waiting ones are in the order of the columns.
const (
	onCPU = iota
	runQueue
	sleeping
	disk // uninterruptible: mostly storage, or a lock of the kernel
	other
	numStates
)

// span is what a thread is doing, since when.
type span struct {
	Since       uint64
	State, Call uint32
}

// spent is a key of the time spent: by a thread in a state and, if it waits, in a
// system call: its number plus one, 0 outside of one (a page fault).
type spent struct{ TID, State, Call uint32 }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("tsa", "Say in which states a process's threads spend their time.",
		"tsa -p 4711", "of process 4711, until Ctrl-C",
		"tsa -p 4711 1 10", "every second, ten times")
	pid := t.PID()
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if *pid == 0 {
		return t.Usagef("-p PID is missing")
	}

	// What follows a thread is by numbers of the pid namespace that the tool is in,
	// as -p is; own has them by those of the records, which are the initial one's.
	own := action.NewHash[uint32, uint32]("own", 0)
	calls := action.NewLRU[uint32, uint32]("calls", 0)
	spans := action.NewHash[uint32, span]("spans", 0)
	times := action.NewSum[spent]("times", 0)
	p := action.NewProgram("tsa")
	p.IncludeSelf = true // what comes before a thread on its CPU may be this tool
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		calls.Set(c, c.TID(), c.Field("id").Add(1).As(ir.IntType(4, false)))
	})
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		calls.Delete(c, c.TID())
	})
	// leave counts what a thread did until now.
	leave := func(c *action.Ctx, tid, now, v action.Int) {
		times.Observe(c, now.Sub(v.Elem("Since")), tid, v.Elem("State"), v.Elem("Call"))
	}
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) {
		now := c.Let(c.Nsecs())
		own.Find(c, c.Field("next_pid"), func(next action.Int) {
			spans.Find(c, next, func(v action.Int) {
				leave(c, next, now, v)
				spans.Set(c, next, action.Key(now, onCPU, 0))
			})
		})
		tool.FilterPID(c, *pid)
		prev := c.TID() // it is the current one
		spans.Find(c, prev, func(v action.Int) { leave(c, prev, now, v) })
		bits := c.Let(c.Field("prev_state"))
		is := func(mask int) action.Bool { return bits.And(mask).Ne(0) }
		state := c.Const(other).If(is(0xff), runQueue) // 0, or 0x100: it would run on
		state = c.Const(disk).If(is(2), state)
		state = c.Const(sleeping).If(is(1), state)
		c.If(is(0x30), // it has ended
			func() {
				own.Delete(c, c.Field("prev_pid"))
				spans.Delete(c, prev)
			},
			func() {
				own.Set(c, c.Field("prev_pid"), prev)
				spans.Set(c, prev, action.Key(now, state, calls.Get(c, prev)))
			})
	})
	p.On(tool.Tracepoints("sched", "sched_wakeup", "sched_wakeup_new"), func(c *action.Ctx) {
		now := c.Let(c.Nsecs())
		own.Find(c, c.Field("pid"), func(tid action.Int) {
			spans.Find(c, tid, func(v action.Int) {
				c.ReturnUnless(v.Elem("State").Gt(runQueue))
				leave(c, tid, now, v)
				spans.Set(c, tid, action.Key(now, runQueue, 0))
			})
		})
	})

	return t.Run(ctx, stdout, "Tracing the states of threads", func(s *tool.Session) error {
		ended, err := times.Table(s)
		if err != nil {
			return err
		}
		current, err := spans.Table(s)
		if err != nil {
			return err
		}
		host, err := s.Host()
		if err != nil {
			return err
		}
		before := map[spent]int64{}
		tab := s.Table("TID %-7d", "COMM %-13.13s", "ONCPU(ms) %9.1f", "RUNQ(ms) %9.1f", "SLEEP(ms) %9.1f", "DISK(ms) %9.1f", "OTHER(ms) %9.1f", "IN %s")
		return s.Every(func() error {
			open, err := current.Snapshot()
			if err != nil {
				return err
			}
			sums, err := ended.Snapshot()
			if err != nil {
				return err
			}
			total := map[spent]int64{}
			for _, e := range sums.Entries {
				total[e.Key] = e.Value
			}
			for _, e := range open.Entries { // as of now
				since := max(0, s.Now().Sub(s.Time(e.Value.Since)))
				total[spent{e.Key, e.Value.State, e.Value.Call}] += int64(since)
			}
			tab.Header()
			for _, th := range threads(total, before) {
				comm, err := fs.ReadFile(host, fmt.Sprintf("proc/%d/task/%d/comm", *pid, th.tid))
				if err != nil {
					comm = []byte("-") // it has ended
				}
				tab.Row(th.tid, strings.TrimSpace(string(comm)), th.ms[onCPU], th.ms[runQueue], th.ms[sleeping], th.ms[disk], th.ms[other], th.where(s.Arch()))
			}
			before = total
			return nil
		})
	}, p)
}

// thread is a thread's time in an interval.
type thread struct {
	tid   uint32
	ms    [numStates]float64
	calls map[uint32]int64 // nanoseconds of waiting, by Call
}

// threads are the differences by thread, the one that ran longest first.
func threads(now, before map[spent]int64) (out []*thread) {
	at := map[uint32]*thread{}
	for k, n := range now {
		if n -= before[k]; n <= 0 || k.State >= numStates {
			continue
		}
		th := at[k.TID]
		if th == nil {
			th = &thread{tid: k.TID, calls: map[uint32]int64{}}
			at[k.TID], out = th, append(out, th)
		}
		th.ms[k.State] += float64(n) / 1e6
		if k.State > runQueue {
			th.calls[k.Call] += n
		}
	}
	slices.SortFunc(out, func(a, b *thread) int {
		return cmp.Or(cmp.Compare(b.ms[onCPU], a.ms[onCPU]), cmp.Compare(a.tid, b.tid))
	})
	return out
}

// where is the system call in which most of the waiting was done.
func (t *thread) where(arch string) string {
	most := tool.Ascending(t.calls)
	if len(most) == 0 {
		return "-"
	}
	if call := most[len(most)-1].Key; call > 0 {
		return sysnames.Syscall(arch, int(call)-1)
	}
	return "fault"
}
