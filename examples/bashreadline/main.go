// Bashreadline prints the lines that are typed into all interactive shells.
//
//	# bashreadline
//	Tracing bash commands... Hit Ctrl-C to end.
//	TIME      PID     COMMAND
//	17:06:52  3018    ls -l /
//	17:06:53  3018    cd /nowhere
//	17:06:53  3018    exit
//
// See README.md.
package main

import (
	"context"
	"os"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("bashreadline", run)) }

// entered is a line that readline has returned.
type entered struct {
	Nsecs uint64
	PID   uint32
	Line  [256]byte
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("bashreadline", "Print the lines that are typed into interactive bash shells.",
		"bashreadline", "of all shells",
		"bashreadline -s /opt/bin/bash", "of a bash, or a libreadline.so, elsewhere")
	shared := t.String("s,shared", "FILE", "the bash or libreadline.so to trace instead of /bin/bash")
	pid := t.PID()
	t.Duration()
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	// bash may have readline built in, or share the library.
	files := []string{"/bin/bash", "libreadline.so.8", "libreadline.so.7"}
	if *shared != "" {
		files = []string{*shared}
	}
	lines := action.NewEvents[entered]("lines", 0)
	var programs []*action.Program
	for _, file := range files {
		p := action.NewProgram("bashreadline")
		p.On(probe.Uretprobe{Path: file, Symbol: "readline"}, func(c *action.Ctx) {
			tool.FilterPID(c, *pid)
			c.ReturnUnless(c.Ret().Ne(0)) // end of input
			lines.Emit(c, func(e *entered, b *action.Bind) {
				b.Set(&e.Nsecs, c.Nsecs())
				b.Set(&e.PID, c.PID())
				b.Set(&e.Line, c.Ret().UserStr(256))
			})
		})
		programs = append(programs, p)
	}
	return t.Run(ctx, stdout, "Tracing bash commands", func(r *tool.Run) error {
		tab := r.Table("TIME %-9s", "PID %-7d", "COMMAND %s")
		tab.Header()
		return tool.Each(r, lines, func(e *entered) error {
			return tab.Row(r.Time(e.Nsecs).Format("15:04:05"), e.PID, e.Line)
		})
	}, programs...)
}
