// Memleak prints the memory that a process has allocated and not freed, by the stack of the
// allocation, the largest last.
//
//	# memleak -p 5193
//	Tracing outstanding allocations... Hit Ctrl-C to end.
//	[11:16:33] Top 10 stacks with outstanding allocations:
//	  2300 bytes in 23 allocations from stack
//	    keep
//	    main
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
)

func main() { os.Exit(tool.Main("memleak", run)) }

// leak is the outstanding memory of one stack, as -json prints it.
type leak struct {
	Bytes  uint64   `json:"bytes"`
	Allocs int      `json:"allocations"`
	Stack  []string `json:"stack"`
	addrs  []string
}

// options holds the parsed command line.
type options struct {
	*tool.Tool
	pid, older, top, least, most, room, every *int
	all, percpu                               *bool
	library, command                          *string
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if *o.command != "" && !o.Replaying() {
		child, err := o.Command(*o.command)
		if err != nil {
			return err
		}
		defer child.Close()
		*o.pid, ctx = child.PID, child.OnStart(ctx)
	}
	k := &keeper{o, action.NewHash[uint64, block]("live", *o.room)}
	return o.Run(ctx, stdout, "Tracing outstanding allocations", k.show, k.program())
}

func parse(args []string, stdout *tool.Output) (*options, error) {
	t := tool.New("memleak",
		"Show the memory that a process has allocated by malloc and its kind, or the\n"+
			"kernel by its own, and not freed since memleak was started, by stack.",
		"memleak -p 5193", "every 5 seconds",
		"memleak -p 5193 -o 60000 10 3", "what is older than a minute, three times",
		"memleak -c 'sort big' 1", "of a program that is started",
		"memleak -z 4096", "of the kernel, from 4 KiB on")
	o := &options{
		Tool:    t,
		pid:     t.PID(),
		all:     t.Bool("a,show-allocs", "with the address and size of each allocation"),
		older:   t.Int("o,older", "MS", 500, "only allocations older than MS milliseconds"),
		top:     t.Int("T,top", "N", 10, "only the N stacks with the most bytes"),
		least:   t.Int("z,min-size", "BYTES", 0, "only allocations of at least this size"),
		most:    t.Int("Z,max-size", "BYTES", 0, "only allocations of at most this size"),
		library: t.String("O,obj", "FILE", "the library with malloc, not the C library"),
		room:    t.Int("n", "BLOCKS", 1<<16, "keep up to BLOCKS allocations"),
		every:   t.Int("s,sample-rate", "N", 1, "only one allocation in N, at random"),
		command: t.String("c,command", "CMD", "start this, and show what it does not free"),
		percpu:  t.Bool("percpu", "without -p: what the kernel allocates for each CPU"),
	}
	t.Duration()
	t.Interval(5 * time.Second)
	// Not every library has all of the functions.
	t.Options.Resolve = &probe.Options{Missing: probe.MissingIgnore}
	err := t.Parse(args, stdout)
	switch {
	case err != nil:
	case *o.room == 0 || *o.every == 0:
		err = t.Usagef("-n and -s are at least 1")
	case *o.pid != 0 && *o.command != "" && !t.Replaying():
		err = t.Usagef("-p and -c exclude each other")
	}
	return o, err
}

// show prints the outstanding allocations of every interval.
func (k *keeper) show(r *tool.Run) error {
	tab, err := k.live.Table(r)
	if err != nil {
		return err
	}
	return r.Every(func() error {
		if *k.pid != 0 {
			r.Observe(*k.pid) // keeps its names after its end
		}
		blocks, err := tab.Snapshot()
		if err != nil {
			return err
		}
		k.print(r, k.leaks(r, blocks))
		return nil
	})
}

// leaks adds up the blocks that are old enough by their stacks, the largest last.
func (k *keeper) leaks(r *tool.Run, blocks mapx.Snapshot[uint64, block]) []*leak {
	leaks := map[string]*leak{}
	began := mapx.Values(blocks)[execed].Nsecs
	for _, b := range blocks.Entries {
		age := r.Now().Sub(r.Time(b.Value.Nsecs))
		if b.Key == execed || b.Value.Nsecs < began || age < time.Duration(*k.older)*time.Millisecond {
			continue
		}
		stack := k.names(r, &b.Value)
		key := strings.Join(stack, "\n")
		if leaks[key] == nil {
			leaks[key] = &leak{Stack: stack}
		}
		l := leaks[key]
		l.Bytes, l.Allocs = l.Bytes+b.Value.Size, l.Allocs+1
		l.addrs = append(l.addrs, fmt.Sprintf("addr = %x size = %d", b.Key, b.Value.Size))
	}
	return slices.SortedFunc(maps.Values(leaks), func(a, b *leak) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), slices.Compare(a.Stack, b.Stack))
	})
}

// names returns the names of the functions of a block's stack.
func (k *keeper) names(r *tool.Run, b *block) []string {
	if *k.pid == 0 {
		return r.KernelNames(b.Stack[:])
	}
	b.Stack[0]-- // the program runs at the return from the allocator: this is a return address too
	return r.UserNamesAt(*k.pid, b.Nsecs, b.Stack[:])
}

// print prints the stacks with the most bytes.
func (k *keeper) print(r *tool.Run, leaks []*leak) {
	r.Printf("[%s] Top %d stacks with outstanding allocations:\n", r.Now().Format("15:04:05"), *k.top)
	for _, l := range leaks[max(0, len(leaks)-*k.top):] {
		r.JSON(l)
		slices.Sort(l.addrs)
		for _, addr := range l.addrs {
			if *k.all {
				r.Printf("  %s\n", addr)
			}
		}
		r.Printf("  %d bytes in %d allocations from stack\n", l.Bytes, l.Allocs)
		r.Stack(l.Stack)
	}
}
