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
	t := tool.New("memleak", "Show the memory that a process has allocated by malloc and its kind and\n"+
		"not freed since memleak was started, by stack.",
		"memleak -p 5193", "every 5 seconds",
		"memleak -p 5193 -o 60000 10 3", "what is older than a minute, three times")
	pid := t.PID()
	all := t.Bool("a", "with the address and size of each allocation")
	older := t.Int("o", "MS", 500, "only allocations that are older than so many milliseconds")
	top := t.Int("T", "N", 10, "only so many stacks, those with the most bytes")
	least := t.Int("z", "BYTES", 0, "only allocations of at least this size")
	most := t.Int("Z", "BYTES", 0, "only allocations of at most this size")
	library := t.String("O", "FILE", "the library with malloc, instead of the C library")
	room := t.Int("n", "BLOCKS", 1<<16, "room for so many allocations")
	t.Duration()
	t.Interval(5 * time.Second)
	if err := t.Parse(args, stdout); err != nil {
		return err
	}
	if *pid == 0 || *room == 0 {
		return t.Usagef("-p is missing, or -n is 0")
	}
	live := action.NewHash[uint64, block]("live", *room)
	p := program(live, cmp.Or(*library, "libc.so.6"), *pid, uint64(*least), uint64(*most))
	t.Options.Resolve = &probe.Options{Missing: probe.MissingIgnore} // not every library has all of them

	return t.Run(ctx, stdout, "Tracing outstanding allocations", func(s *tool.Session) error {
		tab, err := live.Table(s)
		if err != nil {
			return err
		}
		s.Observe(*pid)
		return s.Every(func() error {
			leaks := map[string]*leak{}
			blocks, err := tab.Snapshot()
			if err != nil {
				return err
			}
			for _, b := range blocks.Entries {
				if s.Now().Sub(s.Time(b.Value.Nsecs)) < time.Duration(*older)*time.Millisecond {
					continue
				}
				b.Value.Stack[0]-- // the allocator has returned: it is a return address, too
				stack, err := s.UserNames(*pid, b.Value.Stack[:])
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
