// Killsnoop prints every signal that is sent: the sender, the target, the way and the result.
//
//	# killsnoop
//	Tracing signals... Hit Ctrl-C to end.
//	TIME      PID     COMM             SIG  TPID    WAY               RESULT
//	17:07:06  3360    bash             9    3361    kill              0
//	17:07:06  3361    sleep            17   3360    kernel            0
//	17:07:06  3360    bash             15   99999   kill              -3
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("killsnoop", run)) }

// sent is a signal that was sent, or a system call that sent none.
type sent struct {
	Nsecs       uint64
	PID         uint32 // of the sender, 0 for timers
	Target, Sig int32
	Ret         int32
	Way         uint32
	Comm        action.Comm
}

// call is a system call that sends signals, until it returns.
type call struct {
	Target, Sig int32
	Way         uint32
	Sent        uint32 // 1 after a signal that it has sent
}

// ways are the ways to send a signal. The first are system calls, with their arguments for the
// process or thread and for the signal, by name and by position.
var ways = []struct {
	name        string
	to, sig     string
	toAt, sigAt int
}{
	{"kill", "pid", "sig", 0, 1},
	{"tkill", "pid", "sig", 0, 1},
	{"tgkill", "tgid", "sig", 0, 2},
	{"pidfd_send_signal", "", "sig", -1, 1}, // by a descriptor
	{"rt_sigqueueinfo", "pid", "sig", 0, 1},
	{"rt_tgsigqueueinfo", "tgid", "sig", 0, 2},
	{name: "timer"},
	{name: "kernel"},
}

// Indexes into ways.
const (
	pidfdSendSignal = 3
	timer           = 6 // and the number of system calls
	kernel          = 7
)

// Values of include/uapi/asm-generic/siginfo.h and include/trace/events/signal.h.
const (
	codeUser     = 0    // SI_USER
	codeKernel   = 0x80 // SI_KERNEL
	codeTimer    = -2   // SI_TIMER
	overflowFail = 3    // TRACE_SIGNAL_OVERFLOW_FAIL: there was no room for another one

	again = 11 // EAGAIN
)

// alarms are the signals of setitimer and alarm: SIGALRM, SIGVTALRM, SIGPROF.
var alarms = []int{14, 26, 27}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, target, signal *int
	failed              *bool
	ways                []int // that are to be shown; nil for all
}

// snoop joins signals with the system calls that send them.
type snoop struct {
	*options
	calls  *action.Hash[uint32, call] // by thread
	events *action.Events[sent]
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	sn := &snoop{o, action.NewLRU[uint32, call]("calls", 0), action.NewEvents[sent]("kills", 0)}
	return o.Run(ctx, stdout, "Tracing signals", sn.show, sn.program(typed), sn.program(untyped))
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("killsnoop", "Trace signals: who sends which one, to whom, and how.",
		"killsnoop -x", "only those that failed",
		"killsnoop -s 9", "only SIGKILL",
		"killsnoop -w kill -w tgkill", "only those sent by these system calls")
	o := &options{
		Tool:   t,
		pid:    t.PID(),
		failed: t.Bool("x,failed", "only what failed"),
		target: t.Int("T,tpid", "PID", 0, "only signals to this process"),
		signal: t.Int("s,signal", "SIGNAL", 0, "only this signal, by number"),
	}
	t.Func("w,way", "WAY", "only those sent this way: kill, tgkill, timer, kernel",
		func(name string) error {
			var names []string
			for i, w := range ways {
				if names = append(names, w.name); w.name == name {
					o.ways = append(o.ways, i)
					return nil
				}
			}
			return fmt.Errorf("%q is not one of %s", name, strings.Join(names, ", "))
		})
	t.Duration()
	return o, t.Parse(args, stdout)
}

// generated is a signal that the kernel sends.
type generated struct{ sig, code, target, thread, result action.Int }

// source is a tracepoint of signals, and how to read it.
type source struct {
	target probe.Target
	read   func(c *action.Ctx) generated
}

// typed has the task that gets the signal, and so its ids in this tool's pid namespace.
var typed = source{
	probe.RawTracepoint{Name: "signal_generate"},
	func(c *action.Ctx) generated {
		// Instead of an address, 0 and 1 are what kill and the kernel send.
		info, code := c.Arg(1).PtrTo("struct kernel_siginfo", false), c.NewVar(codeUser)
		c.If(info.Int().Eq(1), func() { code.Set(codeKernel) }, func() {
			c.If(info.Int().Ne(0), func() { code.Set(info.Member("si_code")) })
		})
		task := c.Arg(2).PtrTo("struct task_struct", false)
		return generated{c.Arg(0), code.Int(), task.TaskPID(), task.TaskTID(), c.Arg(4)}
	},
}

// untyped is for kernels without BTF. It has the id of the thread, which is that of the process
// if the signal is for no thread, in the initial pid namespace.
var untyped = source{
	probe.Tracepoint{Group: "signal", Name: "signal_generate"},
	func(c *action.Ctx) generated {
		pid := c.Field("pid")
		return generated{c.Field("sig"), c.Field("code"), pid, pid, c.Field("result")}
	},
}

// program emits signals when they are sent, and calls that send none when they return.
func (sn *snoop) program(from source) *action.Program {
	p := action.NewProgram("killsnoop")
	p.IncludeSelf = true // a timer may fire while this tool runs
	var names, exits []string
	for i, w := range ways[:timer] {
		names, exits = append(names, w.name), append(exits, "sys_exit_"+w.name)
		p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_" + w.name}, func(c *action.Ctx) {
			to := c.Const(0)
			if w.to != "" {
				to = c.Field(w.to)
			}
			sn.enter(c, i, to, c.Field(w.sig))
		})
	}
	p.On(tool.Tracepoints("syscalls", exits...), func(c *action.Ctx) { sn.leave(c, c.Field("ret")) })
	sn.OnCompat(p, names, func(c *action.Ctx, call tool.CompatCall) {
		way := slices.Index(names, call.Name)
		to := c.Const(0)
		if at := ways[way].toAt; at >= 0 {
			to = call.Arg(at)
		}
		sn.enter(c, way, to, call.Arg(ways[way].sigAt))
	}, sn.leave)
	p.On(from.target, func(c *action.Ctx) { sn.generate(c, from.read(c)) })
	return p
}

// enter keeps a call, except for this tool's own.
func (sn *snoop) enter(c *action.Ctx, way int, to, sig action.Int) {
	tool.FilterPID(c, *sn.pid)
	c.ReturnUnless(c.PID().Ne(os.Getpid()))
	int32s := ir.IntType(4, true) // the record has a register's width
	if *sn.signal != 0 {
		c.ReturnUnless(sig.As(int32s).Eq(*sn.signal))
	}
	sn.calls.Set(c, c.TID(), action.Key(to.As(int32s), sig.As(int32s), way, 0))
}

// generate emits a signal that is sent.
func (sn *snoop) generate(c *action.Ctx, s generated) {
	if *sn.signal != 0 {
		c.ReturnUnless(s.sig.Eq(*sn.signal))
	}
	lost := c.Let(s.result.Eq(overflowFail).Int())
	way := c.NewVar(kernel)
	isTimer := s.code.Eq(codeTimer)
	for _, sig := range alarms {
		isTimer = isTimer.Or(s.code.Eq(codeKernel).And(s.sig.Eq(sig)))
	}
	c.If(isTimer, func() { way.Set(timer) })
	// An interrupt may send a signal while the thread is in a call of its own.
	sn.calls.Find(c, c.TID(), func(v action.Int) {
		queued := v.Elem("Way").Ge(pidfdSendSignal) // with a code of the caller's
		c.If(v.Elem("Sig").Eq(s.sig).And(s.code.Ne(codeKernel)).And(isTimer.Not().Or(queued)), func() {
			c.ReturnUnless(lost.Eq(0)) // the call fails
			way.Set(v.Elem("Way"))
			sn.calls.Set(c, c.TID(), action.Key(v.Elem("Target"), v.Elem("Sig"), v.Elem("Way"), 1))
		})
	})
	if *sn.failed {
		c.ReturnUnless(lost.Ne(0))
	}
	if *sn.target != 0 {
		c.ReturnUnless(s.target.Eq(*sn.target).Or(s.thread.Eq(*sn.target)))
	}
	c.If(way.Int().Eq(timer), func() { // whatever runs on the CPU is not the sender
		if *sn.pid == 0 {
			sn.emit(c, c.Const(0), s.target, s.sig, lost.Mul(-again), way.Int())
		}
	}, func() {
		tool.FilterPID(c, *sn.pid)
		c.ReturnUnless(c.PID().Ne(os.Getpid()))
		sn.emit(c, c.PID(), s.target, s.sig, lost.Mul(-again), way.Int())
	})
}

// leave emits a call that has failed or, as with signal 0, has sent nothing.
func (sn *snoop) leave(c *action.Ctx, ret action.Int) {
	sn.calls.Take(c, c.TID(), func(v action.Int) {
		none := ret.Lt(0)
		if !*sn.failed {
			none = none.Or(v.Elem("Sent").Eq(0))
		}
		c.ReturnUnless(none)
		if *sn.target != 0 {
			c.ReturnUnless(v.Elem("Target").Eq(*sn.target))
		}
		sn.emit(c, c.PID(), v.Elem("Target"), v.Elem("Sig"), ret, v.Elem("Way"))
	})
}

func (sn *snoop) emit(c *action.Ctx, pid, target, sig, ret, way action.Int) {
	if sn.ways != nil {
		var is action.Bool
		for _, w := range sn.ways {
			is = is.Or(way.Eq(w))
		}
		c.ReturnUnless(is)
	}
	sn.events.Emit(c, func(e *sent, b *action.Bind) {
		b.Set(&e.Nsecs, c.Nsecs())
		b.Set(&e.PID, pid)
		b.Set(&e.Target, target)
		b.Set(&e.Sig, sig)
		b.Set(&e.Ret, ret)
		b.Set(&e.Way, way)
		b.Set(&e.Comm, c.Comm())
	})
}

// show prints signals as they are sent.
func (sn *snoop) show(r *tool.Run) error {
	tab := r.Table("TIME %-9s", "PID %-7d", "COMM %-16s", "SIG %-4d", "TPID %-7d", "WAY %-17s",
		"RESULT %d")
	tab.Header()
	return tool.Each(r, sn.events, func(e *sent) error {
		row, comm := tab.Row, e.Comm.String()
		if e.Ret < 0 {
			row = tab.Alert
		}
		if e.PID == 0 {
			comm = "-"
		}
		return row(r.Time(e.Nsecs).Format("15:04:05"), e.PID, comm, e.Sig, e.Target,
			ways[min(int(e.Way), kernel)].name, e.Ret)
	})
}
