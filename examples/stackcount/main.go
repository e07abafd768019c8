// Stackcount counts the kernel and user stacks that lead to an event, the most frequent
// last.
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
	"os"
	"slices"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/stack/collect"
)

func main() { os.Exit(tool.Main("stackcount", run)) }

// counted is a count as -json prints it.
type counted struct {
	Comm   string   `json:"comm,omitempty"` // with -P
	PID    int      `json:"pid,omitempty"`  // with -P
	Kernel []string `json:"kernel,omitempty"`
	User   []string `json:"user,omitempty"`
	Count  uint64   `json:"count"`
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("stackcount", "Count the kernel and user stacks that lead to an event.\n"+
		"A target is one of bpftrace's, with wildcards: submit_bio, tracepoint:sched:*,\n"+
		"uprobe:libc:malloc, usdt:/path:provider:name",
		"stackcount submit_bio", "who starts disk I/O",
		"stackcount -f -D 10 t:sched:sched_switch", "folded, for a flame graph")
	t.Operands("TARGET", 1, 1)
	pid := t.PID()
	kernel := t.Bool("K,kernel-stacks-only", "only kernel stacks")
	user := t.Bool("U,user-stacks-only", "only user stacks")
	byPID := t.Bool("P,perpid", "also by process")
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
		o := &collect.Options{NoKernel: *user, NoUser: *kernel, Env: env, Served: t.Unsafe()}
		if *pid != 0 {
			o.PIDs, o.Hold = []int{*pid}, true // so that all of its stacks are complete
		}
		return collect.Attach([]probe.Target{target}, o)
	}
	start := fmt.Sprintf("Counting stacks of %v", target)
	return t.RunStacks(ctx, stdout, start, attach, func(r *tool.Run, st *tool.Stacks) error {
		return r.Every(func() error {
			samples, err := st.Read()
			if err != nil {
				return err
			}
			if *times {
				r.Clock()
			}
			show(r, sum(samples, *byPID), *folded, *delimit)
			return nil
		})
	}, target)
}

// sum adds up the samples with the same stacks, for each process if byPID, the most frequent
// last.
func sum(samples []tool.StackSample, byPID bool) []counted {
	var out []counted
	at := map[string]int{}
	for i := range samples {
		s := &samples[i]
		c := counted{Kernel: s.KernelNames, User: s.UserNames, Count: s.Count}
		if byPID {
			c.Comm, c.PID = s.Comm, s.PID
		}
		key := fmt.Sprintf("%q %d %q %q", c.Comm, c.PID, c.Kernel, c.User)
		if i, ok := at[key]; ok {
			out[i].Count += c.Count
			continue
		}
		at[key] = len(out)
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b counted) int { return cmp.Compare(a.Count, b.Count) })
	return out
}

func show(r *tool.Run, stacks []counted, folded, delimit bool) {
	for i := range stacks {
		c := &stacks[i]
		r.JSON(c)
		if folded {
			stack := slices.Concat(tool.Outermost(c.User), tool.Outermost(c.Kernel))
			if c.PID != 0 {
				stack = slices.Insert(stack, 0, c.Comm)
			}
			r.Printf("%s %d\n", tool.Folded(stack...), c.Count)
			continue
		}
		r.Stack(c.Kernel)
		if delimit && len(c.Kernel) > 0 && len(c.User) > 0 {
			r.Printf("    --\n")
		}
		r.Stack(c.User)
		if c.PID != 0 {
			r.Printf("      %s [%d]\n", c.Comm, c.PID)
		}
		r.Printf("      %d\n\n", c.Count)
	}
}
