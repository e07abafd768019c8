// Funccount counts the calls of functions, and the hits of tracepoints and user probes.
//
//	# funccount 'vfs_*'
//	Counting kprobe:vfs_*... Hit Ctrl-C to end.
//
//	FUNC                                        COUNT
//	vfs_fsync_range                                10
//	vfs_statfs                                     10
//	vfs_read                                     5041
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("funccount", run)) }

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("funccount", "Count calls of functions, tracepoints and user probes, by name.\n"+
		"A target is one of bpftrace's, with wildcards: vfs_*, tracepoint:sched:*,\n"+
		"uprobe:libc:malloc, usdt:/path:provider:name",
		"funccount 'vfs_*'", "kernel functions by name",
		"funccount -T 't:syscalls:sys_enter_*' 1", "system calls, every second")
	t.Operands("TARGET", 1, 1)
	pid := t.PID()
	cpu := t.CPU("c,cpu")
	times := t.Bool("T,timestamp", "with the time of day")
	regexps := t.Bool("r,regexp", "the target's last part is a regular expression")
	t.Duration()
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	target, err := t.Target(t.Args()[0], *regexps, *pid)
	if err != nil {
		return err
	}
	// Matches of a wildcard that the kernel refuses are left out.
	t.Options.Resolve = &probe.Options{NoTypes: true}
	t.Options.Attach = &probe.AttachOptions{Missing: probe.MissingWarn}

	counts := action.NewCounter[uint32]("counts", ir.EachProbe)
	p := action.NewProgram("funccount")
	p.On(target, func(c *action.Ctx) {
		tool.FilterPID(c, *pid)
		tool.FilterCPU(c, *cpu)
		counts.Inc(c, c.Probe())
	})
	return t.Run(ctx, stdout, fmt.Sprintf("Counting %v", target), func(r *tool.Run) error {
		tab := r.Table("FUNC %-40s", "COUNT %8d")
		return tool.EachCounts(r, counts, func(entries []mapx.Entry[uint32, uint64]) error {
			slices.SortFunc(entries, func(a, b mapx.Entry[uint32, uint64]) int {
				return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Key, b.Key))
			})
			r.Printf("\n")
			if *times {
				r.Clock()
			}
			tab.Header()
			for _, e := range entries {
				tab.Row(name(r.Probe(uint64(e.Key))), e.Value)
			}
			return nil
		})
	}, p)
}

// name returns a probe without its kind and process, which are the same for all.
func name(probe string) string {
	_, name, _ := strings.Cut(probe, ":")
	name, _, _ = strings.Cut(name, " pid=")
	return name
}
