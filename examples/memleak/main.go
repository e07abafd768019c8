// Memleak shows what a process has allocated and not freed, by the stacks that
// allocated it, the largest last.
//
//	# memleak -p 5193
//	Tracing outstanding allocations... Hit Ctrl-C to end.
//	[11:16:33] Top 10 stacks with outstanding allocations:
//	    2300 bytes in 23 allocations from stack
//	    keep
//	    main
//
// See README.md.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
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

// leak is what one stack has outstanding, and what -json prints.
type leak struct {
	Bytes  uint64   `json:"bytes"`
	Allocs int      `json:"allocations"`
	Stack  []string `json:"stack"`
	addrs  []string
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	t := tool.New("memleak", "Show the memory that a process has allocated by malloc and its kind, or the\n"+
		"kernel by its own, and not freed since memleak was started, by stack.",
		"memleak -p 5193", "every 5 seconds",
		"memleak -p 5193 -o 60000 10 3", "what is older than a minute, three times",
		"memleak -c 'sort big' 1", "of a program that is started",
		"memleak -z 4096", "of the kernel, from 4 KiB on")
	pid := t.PID()
	all := t.Bool("a,show-allocs", "with the address and size of each allocation")
	older := t.Int("o,older", "MS", 500, "only allocations that are so many milliseconds old")
	top := t.Int("T,top", "N", 10, "only so many stacks, those with the most bytes")
	least := t.Int("z,min-size", "BYTES", 0, "only allocations of at least this size")
	most := t.Int("Z,max-size", "BYTES", 0, "only allocations of at most this size")
	library := t.String("O,obj", "FILE", "the library with malloc, not the C library")
	room := t.Int("n", "BLOCKS", 1<<16, "room for so many allocations")
	every := t.Int("s,sample-rate", "N", 1, "only one allocation in so many, by chance")
	command := t.String("c,command", "CMD", "start this, and show what it does not free")
	percpu := t.Bool("percpu", "without -p: what the kernel allocates for each CPU")
	t.Duration()
	t.Interval(5 * time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	switch {
	case *room == 0 || *every == 0:
		return t.Usagef("-n and -s are at least 1")
	case *pid != 0 && *command != "" && !t.Replaying():
		return t.Usagef("-p and -c exclude each other")
	}
	if *command != "" && !t.Replaying() {
		child, err := t.Command(*command)
		if err != nil {
			return err
		}
		defer child.Close()
		*pid, ctx = child.PID, child.OnStart(ctx)
	}
	live := action.NewHash[uint64, block]("live", *room)
	k := &keeper{live: live, least: *least, most: *most, every: *every}
	p := k.kernel(*percpu)
	names := (*tool.Session).KernelNames
	if *pid != 0 {
		p = k.process(cmp.Or(*library, "libc.so.6"), *pid)
		names = func(s *tool.Session, stack []uint64) ([]string, error) {
			stack[0]-- // the allocator has returned: it is a return address, too
			return s.UserNames(*pid, stack)
		}
	}
	t.Options.Resolve = &probe.Options{Missing: probe.MissingIgnore} // not every library has all of them

	return t.Run(ctx, stdout, "Tracing outstanding allocations", func(s *tool.Session) error {
		tab, err := live.Table(s)
		if err != nil {
			return err
		}
		return s.Every(func() error {
			if *pid != 0 {
				s.Observe(*pid) // to have its names when it has ended
			}
			leaks := map[string]*leak{}
			blocks, err := tab.Snapshot()
			if err != nil {
				return err
			}
			began := mapx.Values(blocks)[execed].Nsecs
			for _, b := range blocks.Entries {
				if b.Key == execed || b.Value.Nsecs < began || s.Now().Sub(s.Time(b.Value.Nsecs)) < time.Duration(*older)*time.Millisecond {
					continue
				}
				stack, err := names(s, b.Value.Stack[:])
				if err != nil {
					return err
				}
				key := strings.Join(stack, "\n")
				if leaks[key] == nil {
					leaks[key] = &leak{Stack: stack}
				}
				l := leaks[key]
				l.Bytes, l.Allocs = l.Bytes+b.Value.Size, l.Allocs+1
				l.addrs = append(l.addrs, fmt.Sprintf("addr = %x size = %d", b.Key, b.Value.Size))
			}
			show(s, leaks, *top, *all)
			return nil
		})
	}, p)
}

// show prints the stacks with the most bytes, the largest last.
func show(s *tool.Session, leaks map[string]*leak, top int, all bool) {
	sorted := slices.SortedFunc(maps.Values(leaks), func(a, b *leak) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), slices.Compare(a.Stack, b.Stack))
	})
	s.Printf("[%s] Top %d stacks with outstanding allocations:\n", s.Now().Format("15:04:05"), top)
	for _, l := range sorted[max(0, len(sorted)-top):] {
		s.JSON(l)
		slices.Sort(l.addrs)
		for _, addr := range l.addrs {
			if all {
				s.Printf("  %s\n", addr)
			}
		}
		s.Printf("  %d bytes in %d allocations from stack\n", l.Bytes, l.Allocs)
		s.Stack(l.Stack)
	}
}
