// Killsnoop prints every signal that is sent with kill: the sender, the target and the
// result.
//
//	# killsnoop
//	Tracing kill calls... Hit Ctrl-C to end.
//	TIME      PID     COMM             SIG  TPID    RESULT
//	17:07:06  3360    bash             9    3361    0
//	17:07:06  3360    bash             15   99999   -3
//
// See README.md.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("killsnoop", run)) }

// sent is a kill call that has returned.
type sent struct {
	Nsecs       uint64
	PID         uint32
	Target, Sig int32
	Ret         int32
	Comm        action.Comm
}

// call is the state that is kept from a call to its return.
type call struct{ Target, Sig int32 }

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("killsnoop", "Trace signals that are sent with kill: by whom, and to whom.",
		"killsnoop -x", "only those that failed",
		"killsnoop -s 9", "only SIGKILL")
	pid := t.PID()
	failed := t.Bool("x,failed", "only calls that failed")
	target := t.Int("T,tpid", "PID", 0, "only signals to this process")
	signal := t.Int("s,signal", "SIGNAL", 0, "only this signal, by number")
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	calls := action.NewPair[call]("calls", 0)
	events := action.NewEvents[sent]("kills", 0)
	p := action.NewProgram("killsnoop")
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_kill"}, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		// The record has a system call's arguments in the width of a register.
		to, sig := c.Field("pid").As(ir.IntType(4, true)), c.Field("sig").As(ir.IntType(4, true))
		if *target != 0 {
			c.ReturnUnless(to.Eq(*target))
		}
		if *signal != 0 {
			c.ReturnUnless(sig.Eq(*signal))
		}
		calls.Enter(c, action.Key(to, sig))
	})
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_exit_kill"}, func(c *action.Ctx) {
		calls.Leave(c, func(v action.Int) {
			if *failed {
				c.ReturnUnless(c.Field("ret").Lt(0))
			}
			events.Emit(c, func(e *sent, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.PID, c.PID())
				b.Set(&e.Target, v.Elem("Target"))
				b.Set(&e.Sig, v.Elem("Sig"))
				b.Set(&e.Ret, c.Field("ret"))
				b.Set(&e.Comm, c.Comm())
			})
		})
	})

	return t.Run(ctx, stdout, "Tracing kill calls", func(s *tool.Session) error {
		tab := s.Table("TIME %-9s", "PID %-7d", "COMM %-16s", "SIG %-4d", "TPID %-7d", "RESULT %d")
		tab.Header()
		return tool.Each(s, events, func(e *sent) error {
			row := tab.Row
			if e.Ret < 0 {
				row = tab.Alert
			}
			return row(s.Time(e.Nsecs).Format("15:04:05"), e.PID, e.Comm, e.Sig, e.Target, e.Ret)
		})
	}, p)
}
