// Wakeuptime prints which threads end the waiting of others: the time that threads were
// blocked, added up by the thread that woke them and the kernel stack in which it did so.
//
//	# wakeuptime -p 4711 5
//	Tracing blocked time (us) by waker... Hit Ctrl-C to end.
//	    target:          sleeper
//	    try_to_wake_up
//	    hrtimer_wakeup
//	    __hrtimer_run_queues
//	    hrtimer_interrupt
//	    waker:           swapper/1
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

func main() { os.Exit(tool.Main("wakeuptime", run)) }

// woken is a wakeup as -json prints it.
type woken struct {
	Target    string   `json:"target"`
	TargetPID int      `json:"target_pid"`
	Waker     string   `json:"waker"`
	WakerPID  int      `json:"waker_pid"`
	Kernel    []string `json:"kernel"`
	Waits     uint64   `json:"waits"`
	Usecs     int64    `json:"us"`
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	t := tool.New("wakeuptime", "Add up the time that threads are blocked, by who wakes them.",
		"wakeuptime -p 4711 5", "who wakes process 4711, for 5 seconds",
		"wakeuptime -f -m 1000 10", "waits of 1 ms and more, folded")
	t.Operands("[duration]", 0, 1)
	pid := t.PID()
	users := t.Bool("u,useronly", "only user threads")
	folded := t.Bool("f,folded", "folded: a line for each stack")
	shortest := t.Int("m,min-block-time", "USECS", 1, "only waits of at least this time")
	longest := t.Int("M,max-block-time", "USECS", 0, "only waits of at most this time")
	room := t.Int("stack-storage-size", "N", 0, "keep up to N stacks (16384)")
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	for _, word := range t.Args() {
		if err := t.EndAfter(word); err != nil {
			return err
		}
	}
	attach := func(env *probe.Env) (*collect.Collector, error) {
		o := &collect.WaitOptions{
			Min: time.Duration(*shortest) * time.Microsecond,
			Max: time.Duration(*longest) * time.Microsecond,
		}
		o.Env, o.MaxStacks, o.NoUser = env, *room, true
		if *pid != 0 {
			o.PIDs = []int{*pid}
		}
		if *users {
			o.States = collect.Blocked &^ collect.Idle &^ collect.Parked // for kernel threads only
		}
		return collect.AttachWaits(collect.Wakeups, o)
	}
	return t.RunStacks(ctx, stdout, "Tracing blocked time (us) by waker", attach,
		func(r *tool.Run, st *tool.Stacks) error {
			return r.Every(func() error {
				samples, err := st.Read()
				slices.SortStableFunc(samples, func(a, b tool.StackSample) int {
					return cmp.Compare(a.Value, b.Value)
				})
				for _, w := range samples {
					if w.Waker != nil {
						print(r, &woken{
							w.Comm, w.PID, w.Waker.Comm, w.Waker.PID, w.WakerKernel, w.Count,
							w.Value / 1000,
						}, *folded)
					}
				}
				return err
			})
		})
}

func print(r *tool.Run, w *woken, folded bool) {
	r.JSON(w)
	if folded {
		line := append([]string{w.Waker}, tool.Outermost(w.Kernel)...)
		r.Printf("%s %d\n", tool.Folded(append(line, w.Target)...), w.Usecs)
		return
	}
	r.Printf("    %-16s %s\n", "target:", w.Target)
	r.Stack(w.Kernel)
	r.Printf("    %-16s %s\n        %d\n\n", "waker:", w.Waker, w.Usecs)
}
