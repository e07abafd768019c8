// Opensnoop prints every file that is opened, with the process and the result.
//
//	# opensnoop -T -n cat
//	Tracing file opens... Hit Ctrl-C to end.
//	TIME(s)      PID    COMM               FD ERR PATH
//	0.000000     3266   cat                 3   0 /etc/ld.so.cache
//	0.000047     3266   cat                 3   0 /lib/x86_64-linux-gnu/libc.so.6
//	0.000258     3266   cat                -1   2 /usr/lib/locale/locale-archive
//
// FD is the descriptor, or -1 if the call failed; ERR is then the errno. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("opensnoop", run)) }

// opened is an open call that has returned.
type opened struct {
	Nsecs    uint64
	Ret      int64
	Flags    uint64
	PID, UID uint32
	TID      uint32
	Dir      bool // Path is a directory on the way to the file that TID opens, for -F
	Comm     action.Comm
	Path     [256]byte
}

// call is the state that is kept from a call to its return.
type call struct {
	Path, Flags uint64
	Dir         int64 // the descriptor that a relative path begins at
}

const workingDir = -100 // AT_FDCWD

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, tid, uid, pages              *int
	comm                              *string
	failed, times, users, flags, full *bool
	only                              []int // flags that have to be set
}

// snoop records calls until they return.
type snoop struct {
	*options
	calls  *action.Pair[call]
	events *action.Events[opened]
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	sn := &snoop{o, action.NewPair[call]("calls", 0), action.NewEvents[opened]("opens", *o.pages<<12)}
	return o.Run(ctx, stdout, "Tracing file opens", sn.show, sn.program())
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("opensnoop", "Trace file opens: who opens which file, and what comes of it.",
		"opensnoop -x", "only opens that failed",
		"opensnoop -T -n ssh", "those of threads with ssh in their name, with times",
		"opensnoop -F -f O_CREAT", "files that may be made, with their full paths")
	o := &options{
		Tool:   t,
		pid:    t.PID(),
		tid:    t.TID("t,tid"),
		uid:    t.UID("u,uid"),
		comm:   t.String("n,name", "NAME", "only threads with this in their name"),
		failed: t.Bool("x,failed", "only opens that failed"),
		times:  t.Bool("T,timestamp", "with seconds since the first event"),
		users:  t.Bool("U,print-uid", "with the user's id"),
		flags:  t.Bool("e,extended_fields", "with the flags of the open, in octal"),
		full:   t.Bool("F,full-path", "full paths, also of relative ones"),
	}
	t.Func("f,flag_filter", "FLAG", "only opens with this flag: O_CREAT", func(name string) error {
		n, ok := openFlag(runtime.GOARCH, name)
		if !ok {
			return fmt.Errorf("%q is not a flag of open", name)
		}
		o.only = append(o.only, n)
		return nil
	})
	o.pages = t.Int("b,buffer-pages", "N", 256, "a buffer of N pages of 4 KiB")
	t.Duration()
	// Not every architecture has open, and not every kernel has openat2.
	t.Options.Resolve = &probe.Options{Missing: probe.MissingIgnore}
	return o, t.Parse(args, stdout)
}

// program emits calls when they return.
func (sn *snoop) program() *action.Program {
	p := action.NewProgram("opensnoop")
	enter := func(name string, flags, dir func(c *action.Ctx) action.Int) {
		p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_" + name}, func(c *action.Ctx) {
			sn.filter(c)
			sn.enter(c, c.Field("filename"), flags(c), dir(c))
		})
	}
	flags := func(c *action.Ctx) action.Int { return c.Field("flags") }
	dir := func(c *action.Ctx) action.Int { return c.Field("dfd") }
	enter("open", flags, func(c *action.Ctx) action.Int { return c.Const(workingDir) })
	enter("openat", flags, dir)
	enter("openat2", func(c *action.Ctx) action.Int { return howFlags(c.Field("how")) }, dir)
	p.On(tool.Tracepoints("syscalls", "sys_exit_open", "sys_exit_openat", "sys_exit_openat2"),
		func(c *action.Ctx) { sn.leave(c, c.Field("ret")) })
	sn.OnCompat(p, []string{"open", "openat", "openat2"}, sn.enterCompat, sn.leave)
	return p
}

// howFlags returns the flags at the beginning of the struct open_how at a user address.
func howFlags(how action.Int) action.Int { return how.Ptr().User().Load(0, ir.Uint64Type()) }

// enterCompat records a call of a 32-bit process.
func (sn *snoop) enterCompat(c *action.Ctx, call tool.CompatCall) {
	sn.filter(c)
	switch call.Name {
	case "open":
		sn.enter(c, call.Arg(0), call.Arg(1), c.Const(workingDir))
	case "openat":
		sn.enter(c, call.Arg(1), call.Arg(2), call.Arg(0))
	default:
		sn.enter(c, call.Arg(1), howFlags(call.Arg(2)), call.Arg(0))
	}
}

// filter ends the action unless the thread's calls are to be printed.
func (sn *snoop) filter(c *action.Ctx) {
	tool.FilterPID(c, *sn.pid)
	tool.FilterComm(c, *sn.comm)
	tool.FilterTID(c, *sn.tid)
	tool.FilterUID(c, *sn.uid)
}

// enter records a call, if it has the flags of those to print.
func (sn *snoop) enter(c *action.Ctx, path, flags, dir action.Int) {
	how := c.Let(flags)
	for _, flag := range sn.only {
		c.ReturnUnless(how.And(flag).Eq(flag))
	}
	sn.calls.Enter(c, action.Key(path.As(ir.Uint64Type()), how.As(ir.Uint64Type()),
		dir.As(ir.IntType(4, true))))
}

// leave emits a call that returns ret, with -F after the directories that its path begins in.
func (sn *snoop) leave(c *action.Ctx, ret action.Int) {
	sn.calls.Leave(c, func(v action.Int) {
		if *sn.failed {
			c.ReturnUnless(ret.Lt(0))
		}
		if *sn.full {
			c.If(v.Elem("Path").Ptr().User().Load(0, ir.IntType(1, false)).Ne('/'), func() {
				directories(c, v.Elem("Dir"), func(name action.Str) {
					sn.events.Emit(c, func(e *opened, b *action.Bind) {
						b.Set(&e.TID, c.TID())
						b.Set(&e.Dir, true)
						b.Set(&e.Path, name)
					})
				})
			})
		}
		sn.emit(c, v, ret)
	})
}

// emit emits the call v that returns ret.
func (sn *snoop) emit(c *action.Ctx, v, ret action.Int) {
	sn.events.Emit(c, func(e *opened, b *action.Bind) {
		b.Set(&e.TID, c.TID())
		b.Set(&e.Nsecs, c.Nsecs())
		b.Set(&e.Ret, ret)
		b.Set(&e.Flags, v.Elem("Flags"))
		b.Set(&e.PID, c.PID())
		b.Set(&e.UID, c.UID())
		b.Set(&e.Comm, c.Comm())
		// The path is read at the return, when its page is certainly in memory.
		b.Set(&e.Path, v.Elem("Path").UserStr(256))
	})
}

// show prints opens when they return, with the requested columns.
func (sn *snoop) show(r *tool.Run) error {
	tab := r.Table("TIME(s) %-12.6f", "UID %-6d", "PID %-6d", "COMM %-16s", "FD %4d", "ERR %3d",
		"FLAGS %08o", "PATH %s")
	tab.Show("TIME(s)", *sn.times).Show("UID", *sn.users).Show("FLAGS", *sn.flags).Header()
	dirs := map[uint32][]string{}
	return tool.Each(r, sn.events, func(e *opened) error {
		name := action.Text(e.Path[:])
		if e.Dir {
			dirs[e.TID] = append(dirs[e.TID], name)
			return nil
		}
		if up := dirs[e.TID]; up != nil {
			name = "/" + strings.Join(append(tool.Outermost(up), name), "/")
			delete(dirs, e.TID)
		}
		fd, errno, row := e.Ret, int64(0), tab.Row
		if e.Ret < 0 {
			fd, errno, row = -1, -e.Ret, tab.Alert
		}
		return row(r.Seconds(e.Nsecs), e.UID, e.PID, e.Comm, fd, errno, e.Flags, name)
	})
}
