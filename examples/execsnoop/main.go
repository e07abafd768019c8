// Execsnoop prints every program that is started, with its arguments, including short-lived
// ones that top and ps never show.
//
//	# execsnoop
//	Tracing exec calls... Hit Ctrl-C to end.
//	PCOMM            PID     PPID    RET ARGS
//	bash             3206    2966      0 /usr/bin/bash -c sh -c 'git --version; ls /nowhere; true | wc -l'
//	sh               3206    2966      0 /usr/bin/sh -c git --version; ls /nowhere; true | wc -l
//	git              3207    3206      0 /usr/bin/git --version
//	ls               3208    3206      0 /usr/bin/ls /nowhere
//	wc               3210    3206      0 /usr/bin/wc -l
//
// See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("execsnoop", run)) }

// part is the file or an argument of an exec call, or its end.
type part struct {
	Nsecs          uint64 // of the end
	Call           uint64 // the call, by the time of its beginning
	PID, PPID, UID uint32
	Dir            int32 // the descriptor at which the file's path begins: of the first part
	End            bool  // the call has ended with Ret
	More           bool  // there are more arguments than are shown
	Ret            int64
	Comm           action.Comm
	Arg            [128]byte // at the end of a call that worked, the file
}

// workingDir is the descriptor of paths that begin at the working directory, AT_FDCWD.
const workingDir = -100

// options holds the parsed command line.
type options struct {
	*tool.Tool
	clock, times, users, failed, quote *bool
	uid, parent, most                  *int
	match, line                        *regexp.Regexp
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	sn := &snoop{
		options: o,
		calls:   action.NewLRU[uint64, uint64]("calls", 0),
		events:  action.NewEvents[part]("execs", 1<<20),
	}
	return o.Run(ctx, stdout, "Tracing exec calls", sn.show, sn.program())
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("execsnoop", "Trace exec calls: every program that is started, with its arguments.",
		"execsnoop -T", "with the time of day",
		"execsnoop -x -n mount", "commands with mount in their name, also failed ones")
	o := &options{
		Tool:   t,
		clock:  t.Bool("T,time", "with the time of day"),
		times:  t.Bool("t,timestamp", "with seconds since the first event"),
		users:  t.Bool("U,print-uid", "with the user's id"),
		failed: t.Bool("x,fails", "also calls that failed"),
		quote:  t.Bool("q,quote", "arguments in quotes"),
		uid:    t.UID("u,uid"),
		parent: t.Int("P,ppid", "PID", 0, "only children of this process"),
		match:  t.Regexp("n,name", "REGEX", "only commands whose name or file matches"),
		line:   t.Regexp("l,line", "REGEX", "only commands whose line matches"),
		most:   t.Int("max-args", "N", 20, "show up to N arguments"),
	}
	t.Duration()
	return o, t.Parse(args, stdout)
}

// snoop joins the beginnings of calls with their ends. The end of an exec is not its return,
// which is one of the new program: it may have the number of another ABI, and the thread has
// the id of its process. The task stays the same.
type snoop struct {
	*options
	calls  *action.Hash[uint64, uint64] // the call that a task is in, by its address
	events *action.Events[part]
}

// program emits the arguments of a call one by one when it begins, and then its end.
func (sn *snoop) program() *action.Program {
	p := action.NewProgram("execsnoop")
	native := func(name string, dir func(c *action.Ctx) action.Int) {
		p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_" + name}, func(c *action.Ctx) {
			sn.enter(c, dir(c), c.Field("filename"), c.Field("argv"), ir.Uint64Type())
		})
	}
	native("execve", func(c *action.Ctx) action.Int { return c.Const(workingDir) })
	native("execveat", func(c *action.Ctx) action.Int { return c.Field("fd") })
	failed := func(c *action.Ctx, ret action.Int) {
		c.ReturnUnless(ret.Lt(0))
		sn.end(c, ret, action.Str{})
	}
	p.On(tool.Tracepoints("syscalls", "sys_exit_execve", "sys_exit_execveat"),
		func(c *action.Ctx) { failed(c, c.Field("ret")) })
	p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_exec"}, func(c *action.Ctx) {
		sn.end(c, c.Const(0), c.Field("filename").Str(128))
	})
	sn.OnCompat(p, []string{"execve", "execveat"}, func(c *action.Ctx, call tool.CompatCall) {
		pointer := ir.IntType(4, false)
		if call.Name == "execve" {
			sn.enter(c, c.Const(workingDir), call.Arg(0), call.Arg(1), pointer)
		} else {
			sn.enter(c, call.Arg(0), call.Arg(1), call.Arg(2), pointer)
		}
	}, failed)
	return p
}

// enter emits the file and the arguments of a call. Those are an array of pointers of that
// type.
func (sn *snoop) enter(c *action.Ctx, dir, file, argv action.Int, pointer ir.Type) {
	tool.FilterUID(c, *sn.uid)
	if *sn.parent != 0 {
		c.ReturnUnless(c.PPID().Eq(*sn.parent))
	}
	call := c.Let(c.Nsecs())
	sn.calls.Set(c, task(c), call)
	emit := func(dir action.Int, arg action.Str, more bool) {
		sn.events.Emit(c, func(e *part, b *action.Bind) {
			b.Set(&e.Call, call)
			b.Set(&e.PID, c.PID())
			b.Set(&e.Dir, dir)
			b.Set(&e.Arg, arg)
			b.Set(&e.More, more)
		})
	}
	none := c.Const(workingDir)
	emit(dir, file.UserStr(128), false)
	words := c.Let(argv.As(ir.Uint64Type()))
	c.Loop(*sn.most, 64, func(i action.Int) {
		at := words.Add(i.Add(1).Mul(pointer.Size)).Ptr().User()
		arg := c.Let(at.Load(0, pointer))
		c.If(arg.Eq(0), func() { c.Break() })
		c.If(i.Eq(*sn.most-1), func() {
			emit(none, arg.UserStr(1), true)
		}, func() { emit(none, arg.UserStr(128), false) })
	})
}

// end emits the end of the call that the task is in, if enter has seen it. file is the file
// that was executed, if the kernel tells.
func (sn *snoop) end(c *action.Ctx, ret action.Int, file action.Str) {
	sn.calls.Take(c, task(c), func(call action.Int) {
		sn.events.Emit(c, func(e *part, b *action.Bind) {
			b.Set(&e.Nsecs, c.Nsecs())
			b.Set(&e.Call, call)
			b.Set(&e.PID, c.PID())
			b.Set(&e.PPID, c.PPID())
			b.Set(&e.UID, c.UID())
			b.Set(&e.End, true)
			b.Set(&e.Ret, ret)
			b.Set(&e.Comm, c.Comm())
			if file != (action.Str{}) {
				b.Set(&e.Arg, file)
			}
		})
	})
}

// task returns the current task's address.
func task(c *action.Ctx) action.Int { return c.CurTask().Int().As(ir.Uint64Type()) }

// id is a call: two threads may begin one at the same time, on two CPUs.
type id struct {
	pid  uint32
	call uint64
}

// show prints calls when they end.
func (sn *snoop) show(r *tool.Run) error {
	tab := r.Table("TIME %-8s", "TIME(s) %-10.3f", "UID %-6d", "PCOMM %-16s", "PID %-7d", "PPID %-7d",
		"RET %3d", "ARGS %s")
	tab.Show("TIME", *sn.clock).Show("TIME(s)", *sn.times).Show("UID", *sn.users).Header()
	begun := map[id][]string{}
	return tool.Each(r, sn.events, func(e *part) error {
		call := id{e.PID, e.Call}
		if !e.End {
			begun[call] = append(begun[call], word(e, begun[call] == nil, *sn.quote))
			return nil
		}
		words := begun[call]
		delete(begun, call)
		if words != nil && e.Ret == 0 { // the caller's text may not have been in memory
			words[0] = word(e, false, *sn.quote)
		}
		if words == nil || e.Ret < 0 && !*sn.failed || !sn.line.MatchString(strings.Join(words, " ")) ||
			!sn.match.MatchString(e.Comm.String()) && !sn.match.MatchString(words[0]) {
			return nil
		}
		row := tab.Row
		if e.Ret < 0 {
			row = tab.Alert
		}
		return row(r.Time(e.Nsecs).Format("15:04:05"), r.Seconds(e.Nsecs), e.UID, e.Comm, e.PID, e.PPID,
			e.Ret, strings.Join(words, " "))
	})
}

// word formats one word of the command, of which the first is the file.
func word(e *part, file, quote bool) string {
	arg := action.Text(e.Arg[:])
	if file && e.Dir != workingDir && !strings.HasPrefix(arg, "/") { // as the kernel names it
		arg = strings.TrimSuffix(fmt.Sprintf("/dev/fd/%d/%s", e.Dir, arg), "/")
	}
	switch {
	case e.More:
		return "..."
	case quote:
		return strconv.Quote(arg)
	default:
		return arg
	}
}
