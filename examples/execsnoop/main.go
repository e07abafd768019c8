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
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("execsnoop", run)) }

// part is an argument of an exec call, or its end.
type part struct {
	Nsecs          uint64
	PID, PPID, UID uint32
	End            bool // the call has returned Ret
	More           bool // there are more arguments than are shown
	Ret            int64
	Comm           action.Comm
	Arg            [128]byte
}

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
	p, events := o.program()
	return o.Run(ctx, stdout, "Tracing exec calls", func(s *tool.Session) error {
		return o.show(s, events)
	}, p)
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

// program emits the arguments of a call one by one when it begins, and then its end.
func (o *options) program() (*action.Program, *action.Events[part]) {
	events := action.NewEvents[part]("execs", 1<<20)
	p := action.NewProgram("execsnoop")
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_execve"}, func(c *action.Ctx) {
		o.filter(c)
		emit := func(arg action.Str, more bool) {
			events.Emit(c, func(e *part, b *action.Bind) {
				b.Set(&e.PID, c.PID())
				b.Set(&e.Arg, arg)
				b.Set(&e.More, more)
			})
		}
		emit(c.Field("filename").UserStr(128), false)
		argv := c.Field("argv").Ptr()
		c.Loop(*o.most, 64, func(i action.Int) {
			arg := c.Let(argv.Index(i.Add(1)))
			c.If(arg.Eq(0), func() { c.Break() })
			c.If(i.Eq(*o.most-1), func() {
				emit(arg.UserStr(1), true)
			}, func() { emit(arg.UserStr(128), false) })
		})
	})
	p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_exit_execve"}, func(c *action.Ctx) {
		o.filter(c)
		events.Emit(c, func(e *part, b *action.Bind) {
			b.Set(&e.Nsecs, c.Nsecs())
			b.Set(&e.PID, c.PID())
			b.Set(&e.PPID, c.PPID())
			b.Set(&e.UID, c.UID())
			b.Set(&e.End, true)
			b.Set(&e.Ret, c.Field("ret"))
			b.Set(&e.Comm, c.Comm())
		})
	})
	return p, events
}

func (o *options) filter(c *action.Ctx) {
	tool.FilterUID(c, *o.uid)
	if *o.parent != 0 {
		c.ReturnUnless(c.PPID().Eq(*o.parent))
	}
}

// show prints calls when they end.
func (o *options) show(s *tool.Session, events *action.Events[part]) error {
	tab := s.Table("TIME %-8s", "TIME(s) %-10.3f", "UID %-6d", "PCOMM %-16s", "PID %-7d", "PPID %-7d",
		"RET %3d", "ARGS %s")
	tab.Show("TIME", *o.clock).Show("TIME(s)", *o.times).Show("UID", *o.users).Header()
	begun := map[uint32][]string{}
	return tool.Each(s, events, func(e *part) error {
		if !e.End {
			begun[e.PID] = append(begun[e.PID], argument(e, *o.quote))
			return nil
		}
		words := begun[e.PID]
		delete(begun, e.PID)
		if words == nil || e.Ret < 0 && !*o.failed || !o.line.MatchString(strings.Join(words, " ")) ||
			!o.match.MatchString(e.Comm.String()) && !o.match.MatchString(words[0]) {
			return nil
		}
		row := tab.Row
		if e.Ret < 0 {
			row = tab.Alert
		}
		return row(s.Time(e.Nsecs).Format("15:04:05"), s.Seconds(e.Nsecs), e.UID, e.Comm, e.PID, e.PPID,
			e.Ret, strings.Join(words, " "))
	})
}

// argument formats one word of the command.
func argument(e *part, quote bool) string {
	switch arg := action.Text(e.Arg[:]); {
	case e.More:
		return "..."
	case quote:
		return strconv.Quote(arg)
	default:
		return arg
	}
}
