// Tsa prints the time that a process's threads spend in each state: on a CPU, waiting for
// one, or waiting for something else, and in which system call. Start an analysis with it:
// for each state there is a tool that shows more.
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
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("tsa", run)) }

// The states of a thread. Those of waiting are in the order of the columns.
const (
	onCPU = iota
	runQueue
	sleeping
	disk // uninterruptible: mostly storage, or a lock of the kernel
	other
	numStates
)

// span is the state of a thread, and the time since which it is in it.
type span struct {
	Since       uint64
	State, Call uint32
}

// spent is the key of the time that a thread spends in a state and, if it waits, in a system
// call. Call is its key in tool.Calls plus one, 0 outside of one (a page fault).
type spent struct{ TID, State, Call uint32 }

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid *int
}

// follower follows threads by their numbers in the tool's pid namespace, in which -p is too.
// own maps the numbers in the records, which are the initial namespace's, to these.
type follower struct {
	*options
	own, calls *action.Hash[uint32, uint32]
	spans      *action.Hash[uint32, span]
	times      *action.Aggregate[spent]
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	f := &follower{
		options: o,
		own:     action.NewHash[uint32, uint32]("own", 0),
		calls:   action.NewLRU[uint32, uint32]("calls", 0),
		spans:   action.NewHash[uint32, span]("spans", 0),
		times:   action.NewSum[spent]("times", 0),
	}
	return o.Run(ctx, stdout, "Tracing the states of threads", f.show, f.program())
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("tsa", "Show in which states a process's threads spend their time.",
		"tsa -p 4711", "of process 4711, until Ctrl-C",
		"tsa -p 4711 1 10", "every second, ten times")
	o := &options{t, t.PID()}
	t.Interval(0)
	err := t.Parse(args, stdout)
	if err == nil && *o.pid == 0 {
		err = t.Usagef("-p PID is missing")
	}
	return o, err
}

func (f *follower) program() *action.Program {
	p := action.NewProgram("tsa")
	p.IncludeSelf = true // this tool may run before a thread on its CPU
	calls := f.Calls(p)
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_enter"}, func(c *action.Ctx) {
		tool.FilterPID(c, *f.pid)
		f.calls.Set(c, c.TID(), calls.Entered(c, "").Add(1).As(ir.IntType(4, false)))
	})
	p.On(probe.Tracepoint{Group: "raw_syscalls", Name: "sys_exit"}, func(c *action.Ctx) {
		tool.FilterPID(c, *f.pid)
		f.calls.Delete(c, c.TID())
	})
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, f.switched)
	p.On(tool.Tracepoints("sched", "sched_wakeup", "sched_wakeup_new"), f.woken)
	return p
}

// switched handles the switch of a CPU from one thread to another.
func (f *follower) switched(c *action.Ctx) {
	now := c.Let(c.Nsecs())
	f.own.Find(c, c.Field("next_pid"), func(next action.Int) {
		f.spans.Find(c, next, func(v action.Int) {
			f.leave(c, next, now, v)
			f.spans.Set(c, next, action.Key(now, onCPU, 0))
		})
	})
	tool.FilterPID(c, *f.pid)
	prev := c.TID() // the previous thread is still the current one
	f.spans.Find(c, prev, func(v action.Int) { f.leave(c, prev, now, v) })
	bits := c.Let(c.Field("prev_state"))
	is := func(mask int) action.Bool { return bits.And(mask).Ne(0) }
	state := action.Select(is(0xff), c.Const(other), runQueue) // 0, or 0x100 if preempted: runnable
	state = action.Select(is(2), c.Const(disk), state)
	state = action.Select(is(1), c.Const(sleeping), state)
	c.If(is(0x30), // it has ended
		func() {
			f.own.Delete(c, c.Field("prev_pid"))
			f.spans.Delete(c, prev)
		},
		func() {
			f.own.Set(c, c.Field("prev_pid"), prev)
			f.spans.Set(c, prev, action.Key(now, state, f.calls.Get(c, prev)))
		})
}

// woken handles a thread that begins to wait for a CPU.
func (f *follower) woken(c *action.Ctx) {
	now := c.Let(c.Nsecs())
	f.own.Find(c, c.Field("pid"), func(tid action.Int) {
		f.spans.Find(c, tid, func(v action.Int) {
			c.ReturnUnless(v.Elem("State").Gt(runQueue))
			f.leave(c, tid, now, v)
			f.spans.Set(c, tid, action.Key(now, runQueue, 0))
		})
	})
}

// leave adds the time that a thread spent in its state until now.
func (f *follower) leave(c *action.Ctx, tid, now, v action.Int) {
	f.times.Observe(c, now.Sub(v.Elem("Since")), tid, v.Elem("State"), v.Elem("Call"))
}

// show prints the threads of every interval.
func (f *follower) show(r *tool.Run) error {
	ended, err := f.times.Table(r)
	current, err2 := f.spans.Table(r)
	host, err3 := r.Host()
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	before := map[spent]int64{}
	tab := r.Table("TID %-7d", "COMM %-13.13s", "ONCPU(ms) %9.1f", "RUNQ(ms) %9.1f", "SLEEP(ms) %9.1f",
		"DISK(ms) %9.1f", "OTHER(ms) %9.1f", "IN %s")
	return r.Every(func() error {
		open, err := current.Snapshot()
		sums, err2 := ended.Snapshot()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		total := mapx.Values(sums)
		for _, e := range open.Entries { // the spans that are not over
			since := max(0, r.Now().Sub(r.Time(e.Value.Since)))
			total[spent{e.Key, e.Value.State, e.Value.Call}] += int64(since)
		}
		tab.Header()
		for _, th := range threads(total, before) {
			comm, err := fs.ReadFile(host, fmt.Sprintf("proc/%d/task/%d/comm", *f.pid, th.tid))
			if err != nil {
				comm = []byte("-") // it has ended
			}
			tab.Row(th.tid, strings.TrimSpace(string(comm)), th.ms[onCPU], th.ms[runQueue], th.ms[sleeping],
				th.ms[disk], th.ms[other], th.where(r))
		}
		before = total
		return nil
	})
}

// thread is a thread's time in an interval.
type thread struct {
	tid   uint32
	ms    [numStates]float64
	calls map[uint32]int64 // nanoseconds of waiting, by Call
}

// threads returns the differences by thread, the one that ran longest first.
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

// where returns the system call in which the thread waited longest.
func (t *thread) where(r *tool.Run) string {
	most := tool.Ascending(t.calls)
	if len(most) == 0 {
		return "-"
	}
	if call := most[len(most)-1].Key; call > 0 {
		return r.CallName(call - 1)
	}
	return "fault"
}
