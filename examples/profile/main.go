// Profile samples every CPU and prints where time is spent: as a table of the busiest
// functions, as folded stacks, as a flame graph, or as a pprof profile.
//
//	go run -exec sudo ./examples/profile            ten seconds of the whole machine
//	go run ./examples/profile -replay demo          a recorded machine, no root needed
//
// It replaces BCC's and bpftrace's profile, and perf record -g with perf report. It needs
// CAP_BPF and CAP_PERFMON (or root) and Linux 5.10. With -v it also says in which files user
// stacks were cut, and why. It has BCC's flags except -C, -L, -a,
// and -d for a line between the parts of a stack; -c and -e are perf's.
package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/stack/collect"
)

func main() { os.Exit(tool.Main("profile", run)) }

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	return newOptions().run(ctx, args, stdout)
}

func (o *options) run(ctx context.Context, args []string, stdout *tool.Output) error {
	if err := o.parse(args, stdout); err != nil {
		return err
	}
	start := fmt.Sprintf("Sampling at %d Hz", *o.freq)
	if o.period != 0 {
		start = fmt.Sprintf("Sampling every %d of %v", o.period, o.event)
	}
	return o.RunStacks(ctx, stdout, start, o.attach, o.show, o.target())
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	freq         *int
	period       uint64
	event        pmc.Event
	pids         *[]int
	comm         *string
	user, kernel *bool // only these stacks
	idle         *bool
	folded       *bool
	svg, html    *string
	pprof        *string
}

// demo is a recording that works everywhere; demo/README.md describes how it was made.
//
//go:embed demo
var demo embed.FS

func newOptions() *options {
	t := tool.New("profile",
		"Sample every CPU and show where time goes: a table of the busiest functions,\n"+
			"folded stacks, a flame graph, a pprof profile.",
		"profile -d 5s -svg cpu.svg", "five seconds of everything, as a picture",
		"profile -p 1234 -f | head", "one process, as folded stacks",
		"profile -replay demo", "a recorded machine")
	t.Operands("[duration]", 0, 1)
	o := &options{Tool: t}
	o.freq = t.Int("F", "HZ", 99, "samples per second and CPU (99)")
	t.Duration()
	o.pids = t.PIDs()
	o.comm = t.String("c", "COMM", "only threads of this name; with -e: every N events")
	o.user = t.Bool("U", "only user stacks")
	o.kernel = t.Bool("K", "only kernel stacks")
	o.idle = t.Bool("I,idle", "count all of the time: idle CPUs and this tool too")
	t.Func("e", "EVENT", "what to sample: cpu-clock, page-faults, cycles, ...",
		func(s string) (err error) {
			o.event, err = pmc.ParseEvent(s, nil)
			return err
		})
	o.folded = t.Bool("f", "folded stacks")
	o.svg = t.String("svg", "FILE", "write a flame graph")
	o.html = t.String("html", "FILE", "write a page with a flame graph, for graphs of any size")
	o.pprof = t.String("pprof", "FILE", "write a profile for go tool pprof")
	t.Demo, _ = fs.Sub(demo, "demo") // the path is valid
	return o
}

// parse rejects combinations that make no sense. It decides what -c is: the name of a thread,
// as in BCC's tools, or a period, as in perf's.
func (o *options) parse(args []string, stdout *tool.Output) error {
	if err := o.EndAfter("10"); err != nil { // unless the user gives another duration
		return err
	}
	if err := o.Parse(args, stdout); err != nil {
		return err
	}
	for _, word := range o.Args() {
		if err := o.EndAfter(word); err != nil {
			return err
		}
	}
	if n, err := strconv.ParseUint(*o.comm, 10, 64); err == nil && !o.event.IsZero() {
		o.period, *o.freq, *o.comm = n, 0, ""
	}
	switch {
	case *o.user && *o.kernel:
		return o.Usagef("-U and -K exclude each other")
	case *o.folded && o.JSON():
		return o.Usagef("-f and -json exclude each other")
	case *o.freq == 0 && o.period == 0:
		return o.Usagef("-F 0: a frequency is at least 1")
	}
	o.NotesToStderr = *o.folded // folded stacks are input of another program
	return nil
}

// target returns the probe to attach.
func (o *options) target() probe.Target {
	ev := o.event
	if ev.IsZero() && *o.idle {
		ev = pmc.CPUClock() // cycles stand still on an idle CPU
	}
	return probe.Perf{Event: ev, Freq: uint64(*o.freq), Period: o.period}
}

func (o *options) attach(env *probe.Env) (*collect.Collector, error) {
	return collect.Attach([]probe.Target{o.target()}, &collect.Options{
		NoKernel: *o.user, NoUser: *o.kernel, PIDs: *o.pids, Comm: *o.comm, Env: env,
		Idle: *o.idle, IncludeSelf: *o.idle, // all of the time, or what other processes use
		Hold: len(*o.pids) > 0, Served: o.Unsafe(),
	})
}
