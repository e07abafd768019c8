// Offcputime shows where threads wait, and for how long: the time they were off
// the CPU, added up by the stacks with which they left it.
//
//	# offcputime -p 4711 5
//	Tracing off-CPU time (us)... Hit Ctrl-C to end.
//	    schedule
//	    do_nanosleep
//	    hrtimer_nanosleep
//	    [libc.so.6]
//	    -                sleeper (4711)
//	        23142
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"time"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/stack/collect"
)

func main() { os.Exit(tool.Main("offcputime", run)) }

// waited is what -json prints.
type waited struct {
	Comm   string   `json:"comm"`
	PID    int      `json:"pid"`
	TID    int      `json:"tid,omitempty"`
	Kernel []string `json:"kernel,omitempty"`
	User   []string `json:"user,omitempty"`
	Waits  uint64   `json:"waits"`
	Usecs  int64    `json:"us"`
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("offcputime", "Add up the time that threads are off the CPU, by stack.",
		"offcputime -p 4711 5", "where process 4711 waits, for 5 seconds",
		"offcputime -f --state 2 10", "waits for storage and locks, folded")
	t.Operands("[duration]", 0, 1)
	pid := t.PID()
	tid := t.TID("t,tid")
	users := t.Bool("u,user-threads-only", "only user threads")
	kernels := t.Bool("k,kernel-threads-only", "only kernel threads")
	noKernel := t.Bool("U,user-stacks-only", "only the user part of stacks")
	noUser := t.Bool("K,kernel-stacks-only", "only the kernel part of stacks")
	delimit := t.Bool("d,delimited", "with a line between kernel and user frames")
	folded := t.Bool("f,folded", "folded: a line for each stack")
	shortest := t.Int("m,min-block-time", "USECS", 1, "only waits of at least this time")
	longest := t.Int("M,max-block-time", "USECS", 0, "only waits of at most this time")
	state := t.Int("state", "BITS", 0, "only in these states (2: uninterruptible)")
	room := t.Int("stack-storage-size", "N", 0, "room for so many stacks (16384)")
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if *users && *kernels || *noKernel && *noUser {
		return t.Usagef("-u and -k, and -U and -K, exclude each other")
	}
	for _, word := range t.Args() {
		if err := t.EndAfter(word); err != nil {
			return err
		}
	}
	attach := func(env *probe.Env) (*collect.Collector, error) {
		o := &collect.WaitOptions{
			Min: time.Duration(*shortest) * time.Microsecond, Max: time.Duration(*longest) * time.Microsecond,
			States: collect.State(*state),
		}
		o.Env, o.MaxStacks, o.PerThread = env, *room, *tid != 0
		if *pid != 0 {
			o.PIDs, o.Hold = []int{*pid}, true // all of its stacks are to be whole
		}
		return collect.AttachWaits(collect.OffCPU, o)
	}
	return t.RunStacks(ctx, stdout, "Tracing off-CPU time (us)", attach, func(s *tool.Session, st *tool.Stacks) error {
		return s.Every(func() error {
			samples, err := st.Read()
			slices.SortStableFunc(samples, func(a, b tool.StackSample) int { return cmp.Compare(a.Value, b.Value) })
			for i := range samples {
				w := &samples[i]
				// The kernel's own threads have no user stack.
				kernel := len(w.User.Frames) == 0
				if *tid != 0 && w.TID != *tid || *users && kernel || *kernels && !kernel {
					continue
				}
				row := waited{w.Comm, w.PID, w.TID, w.KernelNames, w.UserNames, w.Count, w.Value / 1000}
				if *noKernel {
					row.Kernel = nil
				}
				if *noUser {
					row.User = nil
				}
				print(s, &row, *folded, *delimit)
			}
			return err
		})
	})
}

func print(s *tool.Session, w *waited, folded, delimit bool) {
	s.JSON(w)
	if folded {
		line := append([]string{w.Comm}, tool.Outermost(w.User)...)
		if delimit {
			line = append(line, "-")
		}
		s.Printf("%s %d\n", escape.Folded(append(line, tool.Outermost(w.Kernel)...)...), w.Usecs)
		return
	}
	s.Stack(w.Kernel)
	if delimit && len(w.Kernel) > 0 && len(w.User) > 0 {
		s.Printf("    --\n")
	}
	s.Stack(w.User)
	s.Printf("    %-16s %s (%d)\n        %d\n\n", "-", w.Comm, w.PID, w.Usecs)
}
