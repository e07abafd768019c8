package action_test

import (
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// This program measures how long threads wait on a run queue before they get a CPU. Two
// tracepoints share a map; the result is a histogram in microseconds.
func Example() {
	start := action.NewHash[uint32, uint64]("start", 10240)
	usecs := action.NewHist[action.None]("usecs", 1)

	p := action.NewProgram("runqlat")
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_wakeup"}, func(c *action.Ctx) {
		start.Set(c, c.Field("pid"), c.Nsecs())
	})
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) {
		next := c.Field("next_pid")
		start.Take(c, next, func(t0 action.Int) { usecs.Observe(c, c.Nsecs().Sub(t0).Div(1000)) })
	})
	fmt.Print(p)
	// action.Attach(p, nil) resolves, compiles, loads and attaches it.

	// Output:
	// program runqlat license "Dual MIT/GPL"
	// map start hash[u32] u64 entries 10240
	// map usecs percpu_hash hist(0) entries 1
	// tracepoint:sched:sched_wakeup {
	// 	$t1 = args.pid
	// 	$t2 = nsecs
	// 	@start[$t1] = $t2
	// }
	// tracepoint:sched:sched_switch {
	// 	$t1 = args.next_pid
	// 	take $f2 = @start[$t1] {
	// 		$t3 = nsecs
	// 		@usecs = hist((($t3 - $f2) / 1000))
	// 	}
	// }
}

// This program counts system calls by process and thread name. The key is a struct, and Inc
// takes a value for each of its fields.
func ExampleCounter() {
	type who struct {
		PID  uint32
		Comm action.Comm
	}
	calls := action.NewCounter[who]("calls", 4096)
	p := action.NewProgram("syscount")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		calls.Inc(c, c.PID(), c.Comm())
	})
	fmt.Println(calls.Map())
	// Output: calls percpu_hash[(PID u32, Comm buf[16])] count entries 4096
}

// This program emits an event for every file that is opened under /etc.
func ExampleEvents() {
	type open struct {
		PID  uint32
		Comm action.Comm
		Path [128]byte
	}
	opens := action.NewEvents[open]("opens", 0)
	p := action.NewProgram("opensnoop")
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_openat"}, func(c *action.Ctx) {
		path := c.Field("filename").Str(128)
		c.ReturnUnless(path.HasPrefix("/etc/"))
		opens.Emit(c, func(e *open, b *action.Bind) {
			b.Set(&e.PID, c.PID())
			b.Set(&e.Comm, c.Comm())
			b.Set(&e.Path, path)
		})
	})
	fmt.Print(p.Actions[0].Body[0])
	// Output: $t1 = args.filename
}
