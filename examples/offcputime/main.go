// Offcputime prints where threads wait and for how long: the time off the CPU, added up by
// the stack with which a thread left the CPU.
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
	"os"
	"slices"
	"time"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/stack/collect"
)

func main() { os.Exit(tool.Main("offcputime", run)) }

// waited is a stack as -json prints it.
type waited struct {
	Comm   string   `json:"comm"`
	PID    int      `json:"pid"`
	TID    int      `json:"tid,omitempty"`
	Kernel []string `json:"kernel,omitempty"`
	User   []string `json:"user,omitempty"`
	Waits  uint64   `json:"waits"`
	Usecs  int64    `json:"us"`
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, tid, shortest, longest, state, room *int
	users, kernels, noKernel, noUser         *bool
	delimit, folded                          *bool
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	return o.RunStacks(ctx, stdout, "Tracing off-CPU time (us)", o.attach, o.show)
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("offcputime", "Add up the time that threads are off the CPU, by stack.",
		"offcputime -p 4711 5", "where process 4711 waits, for 5 seconds",
		"offcputime -f --state 2 10", "waits for storage and locks, folded")
	t.Operands("[duration]", 0, 1)
	o := &options{
		Tool:     t,
		pid:      t.PID(),
		tid:      t.TID("t,tid"),
		users:    t.Bool("u,user-threads-only", "only user threads"),
		kernels:  t.Bool("k,kernel-threads-only", "only kernel threads"),
		noKernel: t.Bool("U,user-stacks-only", "only the user part of stacks"),
		noUser:   t.Bool("K,kernel-stacks-only", "only the kernel part of stacks"),
		delimit:  t.Bool("d,delimited", "with a line between kernel and user frames"),
		folded:   t.Bool("f,folded", "folded: a line for each stack"),
		shortest: t.Int("m,min-block-time", "USECS", 1, "only waits of at least this time"),
		longest:  t.Int("M,max-block-time", "USECS", 0, "only waits of at most this time"),
		state:    t.Int("state", "BITS", 0, "only in these states (2: uninterruptible)"),
		room:     t.Int("stack-storage-size", "N", 0, "keep up to N stacks (16384)"),
	}
	err := t.Parse(args, stdout)
	switch {
	case err != nil:
	case *o.users && *o.kernels || *o.noKernel && *o.noUser:
		err = t.Usagef("-u and -k, and -U and -K, exclude each other")
	case len(t.Args()) > 0:
		err = t.EndAfter(t.Args()[0])
	}
	return o, err
}

// attach starts to collect waits.
func (o *options) attach(env *probe.Env) (*collect.Collector, error) {
	w := &collect.WaitOptions{
		Min:    time.Duration(*o.shortest) * time.Microsecond,
		Max:    time.Duration(*o.longest) * time.Microsecond,
		States: collect.State(*o.state),
	}
	w.Env, w.MaxStacks, w.PerThread = env, *o.room, *o.tid != 0
	w.Served = o.Unsafe()
	if *o.pid != 0 {
		w.PIDs, w.Hold = []int{*o.pid}, true // so that all of its stacks are complete
	}
	return collect.AttachWaits(collect.OffCPU, w)
}

// show prints the stacks at the end, those with the most time last.
func (o *options) show(r *tool.Run, st *tool.Stacks) error {
	return r.Every(func() error {
		samples, err := st.Read()
		slices.SortStableFunc(samples, func(a, b tool.StackSample) int {
			return cmp.Compare(a.Value, b.Value)
		})
		for i := range samples {
			w := &samples[i]
			// The kernel's own threads have no user stack.
			kernel := len(w.User.Frames) == 0
			if *o.tid != 0 && w.TID != *o.tid || *o.users && kernel || *o.kernels && !kernel {
				continue
			}
			row := waited{w.Comm, w.PID, w.TID, w.KernelNames, w.UserNames, w.Count, w.Value / 1000}
			if *o.noKernel {
				row.Kernel = nil
			}
			if *o.noUser {
				row.User = nil
			}
			o.print(r, &row)
		}
		return err
	})
}

func (o *options) print(r *tool.Run, w *waited) {
	r.JSON(w)
	if *o.folded {
		line := append([]string{w.Comm}, tool.Outermost(w.User)...)
		if *o.delimit {
			line = append(line, "-")
		}
		r.Printf("%s %d\n", tool.Folded(append(line, tool.Outermost(w.Kernel)...)...), w.Usecs)
		return
	}
	r.Stack(w.Kernel)
	if *o.delimit && len(w.Kernel) > 0 && len(w.User) > 0 {
		r.Printf("    --\n")
	}
	r.Stack(w.User)
	r.Printf("    %-16s %s (%d)\n        %d\n\n", "-", w.Comm, w.PID, w.Usecs)
}
