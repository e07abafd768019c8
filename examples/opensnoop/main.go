// Opensnoop prints every file that is opened: by whom, and what came of it.
//
//	# opensnoop -T -n cat
//	Tracing file opens... Hit Ctrl-C to end.
//	TIME(s)      PID    COMM               FD ERR PATH
//	0.000000     3266   cat                 3   0 /etc/ld.so.cache
//	0.000047     3266   cat                 3   0 /lib/x86_64-linux-gnu/libc.so.6
//	0.000258     3266   cat                -1   2 /usr/lib/locale/locale-archive
//
// FD is the descriptor, -1 where the call failed, and ERR then its errno. See
// README.md.
package main

import (
	"context"
	"io"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("opensnoop", run)) }

// opened is an open call that has returned.
type opened struct {
	Nsecs    uint64
	Ret      int64
	Flags    uint64
	PID, UID uint32
	Comm     action.Comm
	Path     [256]byte
}

// call is what is kept from the call to its return.
type call struct{ Path, Flags uint64 }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("opensnoop", "Trace file opens: who opens which file, and what comes of it.",
		"opensnoop -x", "only opens that failed",
		"opensnoop -T -n ssh", "those of threads with ssh in their name, with times")
	pid := t.PID()
	tid := t.Int("t", "TID", 0, "only this thread")
	uid := t.Int("u", "UID", -1, "only this user")
	comm := t.String("n", "NAME", "only threads with this in their name")
	failed := t.Bool("x", "only opens that failed")
	times := t.Bool("T", "with seconds since the first event")
	users := t.Bool("U", "with the user's id")
	flags := t.Bool("e", "with the flags of the open, in octal")
	t.Duration()
	// Not every architecture has open, not every kernel openat2.
	t.Options.Resolve = &probe.Options{Missing: probe.MissingIgnore}
	if err := t.Parse(args, stdout); err != nil {
		return err
	}

	calls := action.NewPair[call]("calls", 0)
	events := action.NewEvents[opened]("opens", 1<<20)
	p := action.NewProgram("opensnoop")
	enter := func(name string, flags func(c *action.Ctx) action.Int) {
		p.On(probe.Tracepoint{Group: "syscalls", Name: "sys_enter_" + name}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			tool.FilterComm(c, *comm)
			if *tid != 0 {
				c.ReturnUnless(c.TID().Eq(*tid))
			}
			if *uid >= 0 {
				c.ReturnUnless(c.UID().Eq(*uid))
			}
			calls.Enter(c, action.Key(c.Field("filename").As(action.Uint64Type()), flags(c).As(action.Uint64Type())))
		})
	}
	flagsField := func(c *action.Ctx) action.Int { return c.Field("flags") }
	enter("open", flagsField)
	enter("openat", flagsField)
	enter("openat2", func(c *action.Ctx) action.Int { // struct open_how begins with them
		return c.Field("how").Ptr().Load(0, action.Uint64Type())
	})
	p.On(tool.Tracepoints("syscalls", "sys_exit_open", "sys_exit_openat", "sys_exit_openat2"), func(c *action.Ctx) {
		calls.Leave(c, func(v action.Int) {
			if *failed {
				c.ReturnUnless(c.Field("ret").Lt(0))
			}
			events.Emit(c, func(e *opened, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.Ret, c.Field("ret"))
				b.Set(&e.Flags, v.Elem("Flags"))
				b.Set(&e.PID, c.PID())
				b.Set(&e.UID, c.UID())
				b.Set(&e.Comm, c.Comm())
				// Read at the return, when the page is certainly there.
				b.Set(&e.Path, v.Elem("Path").UserStr(256))
			})
		})
	})

	return t.Run(ctx, stdout, "Tracing file opens", func(s *tool.Session) error {
		tab := s.Table("TIME(s) %-12.6f", "UID %-6d", "PID %-6d", "COMM %-16s", "FD %4d", "ERR %3d", "FLAGS %08o", "PATH %s")
		tab.Show("TIME(s)", *times).Show("UID", *users).Show("FLAGS", *flags).Header()
		var first uint64
		return tool.Each(s, events, func(e *opened) error {
			if first == 0 {
				first = e.Nsecs
			}
			fd, errno, row := e.Ret, int64(0), tab.Row
			if e.Ret < 0 {
				fd, errno, row = -1, -e.Ret, tab.Alert
			}
			return row(float64(e.Nsecs-first)/1e9, e.UID, e.PID, e.Comm, fd, errno, e.Flags, e.Path)
		})
	}, p)
}
