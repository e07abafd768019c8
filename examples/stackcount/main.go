// Stackcount counts how an event is reached: its kernel and user stacks, the most
// frequent last.
//
//	# stackcount -p 185 uprobe:libc:malloc
//	Counting stacks of uprobe:libc:malloc... Hit Ctrl-C to end.
//	    malloc
//	    xmalloc
//	    read_line
//	    main
//	      23
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/stack/collect"
)

func main() { os.Exit(tool.Main("stackcount", run)) }

// counted is what -json prints.
type counted struct {
	Comm   string   `json:"comm"`
	PID    int      `json:"pid"`
	Kernel []string `json:"kernel,omitempty"`
	User   []string `json:"user,omitempty"`
	Count  uint64   `json:"count"`
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("stackcount", "Count the kernel and user stacks that lead to an event.\n"+
		"A target is one of bpftrace's, with wildcards: submit_bio, tracepoint:sched:*,\n"+
		"uprobe:libc:malloc, usdt:/path:provider:name",
		"stackcount submit_bio", "who starts disk I/O",
		"stackcount -f -D 10 t:sched:sched_switch", "folded, for a flame graph")
	t.Operands("TARGET", 1, 1)
	pid := t.PID()
	kernel := t.Bool("K,kernel-stacks-only", "only kernel stacks")
	user := t.Bool("U,user-stacks-only", "only user stacks")
	byPID := t.Bool("P,perpid", "by process, too")
	delimit := t.Bool("d,delimited", "with a line between kernel and user frames")
	folded := t.Bool("f,folded", "folded: a line for each stack")
	times := t.Bool("T,timestamp", "with the time of day")
	regexps := t.Bool("r,regexp", "the target's last part is a regular expression")
	offsets := t.Bool("s,offset", "with offsets in functions")
	t.DurationFlag("D,duration")
	t.Interval(0)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if *kernel && *user {
		return t.Usagef("-K and -U exclude each other")
	}
	target, err := t.Target(t.Args()[0], *regexps, *pid)
	if err != nil {
		return err
	}
	t.Offsets = *offsets
	attach := func(env *probe.Env) (*collect.Collector, error) {
		o := &collect.Options{NoKernel: *user, NoUser: *kernel, Env: env}
		if *pid != 0 {
			o.PIDs = []int{*pid}
		}
		return collect.Attach([]probe.Target{target}, o)
	}
	start := fmt.Sprintf("Counting stacks of %v", target)
	return t.RunStacks(ctx, stdout, start, attach, func(s *tool.Session, read func() ([]tool.StackSample, error)) error {
		return s.Every(func() error {
			samples, err := read()
			if err != nil {
				return err
			}
			if *times {
				s.Clock()
			}
			show(s, samples, *byPID, *folded, *delimit)
			return nil
		})
	})
}

func show(s *tool.Session, samples []tool.StackSample, byPID, folded, delimit bool) {
	slices.SortStableFunc(samples, func(a, b tool.StackSample) int { return cmp.Compare(a.Count, b.Count) })
	for i := range samples {
		c := &samples[i]
		s.JSON(counted{c.Comm, c.PID, c.KernelNames, c.UserNames, c.Count})
		if folded {
			stack := append([]string{c.Comm}, append(tool.Outermost(c.UserNames), tool.Outermost(c.KernelNames)...)...)
			s.Printf("%s %d\n", strings.Join(stack, ";"), c.Count)
			continue
		}
		s.Stack(c.KernelNames)
		if delimit && len(c.KernelNames) > 0 && len(c.UserNames) > 0 {
			s.Printf("    --\n")
		}
		s.Stack(c.UserNames)
		if byPID {
			s.Printf("      %s [%d]\n", c.Comm, c.PID)
		}
		s.Printf("      %d\n\n", c.Count)
	}
}
