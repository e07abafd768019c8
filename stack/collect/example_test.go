package collect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
)

// Without the privileges that it needs, Attach returns an error of one line that names what
// is missing.
func ExampleAttach() {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 99}}, &collect.Options{NoKernel: true, NoUser: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	// Output:
	// collect: neither kernel nor user stacks are asked for
}

// A Profiler names what a collector collects, also of processes that have ended. Every minute a
// window of it is written as a flame graph; what is next is in the next one.
func ExampleProfiler() {
	record := func(ctx context.Context) error {
		c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 49}}, &collect.Options{Windows: true})
		if err != nil {
			return err // without privileges it names those that are missing
		}
		p, err := collect.NewProfiler(c, nil) // owns c, also if it fails
		if err != nil {
			return err
		}
		defer p.Close()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Minute):
			}
			prof, err := p.Window() // since the last one
			if err != nil {
				return err
			}
			f, err := os.Create(fmt.Sprintf("cpu-%d.svg", n))
			if err != nil {
				return err
			}
			err = profile.WriteSVG(f, prof.Folded(nil), nil)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := record(ctx); err != nil {
		fmt.Println(err)
	}
}

// A service collects its own stacks: PIDs are numbers of its own pid namespace, so this is right
// in a container, too. IncludeSelf is needed because a collector otherwise leaves out the process
// that it is in.
func ExampleAttach_self() {
	busiest := func(d time.Duration) error {
		c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 99}}, &collect.Options{
			PIDs: []int{os.Getpid()}, IncludeSelf: true,
		})
		if err != nil {
			return err
		}
		p, err := collect.NewProfiler(c, nil)
		if err != nil {
			return err
		}
		defer p.Close()
		time.Sleep(d)
		prof, err := p.Profile()
		if err != nil {
			return err
		}
		_, err = prof.Top(&profile.TopOptions{N: 10}).WriteTo(os.Stdout)
		return err
	}
	if err := busiest(10 * time.Second); err != nil {
		fmt.Println(err)
	}
}

// Two hardware events, each sampled by its own period, show the cycles per instruction by
// stack. A sample's Program tells the events apart.
func ExampleAttach_value() {
	cycles, err := pmc.ParseEvent("cycles", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	instructions, err := pmc.ParseEvent("instructions", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := collect.Attach([]probe.Target{
		probe.Perf{Event: cycles, Period: 1_000_000},
		probe.Perf{Event: instructions, Period: 1_000_000},
	}, &collect.Options{Value: "sample_period", NoKernel: true})
	if err != nil {
		fmt.Println(err) // needs privileges, and a PMU
		return
	}
	defer c.Close()
	time.Sleep(10 * time.Second)
	samples, err := c.Samples()
	if err != nil {
		fmt.Println(err)
		return
	}
	type counts struct{ cycles, instructions int64 }
	byLeaf := make(map[uint64]*counts)
	for _, s := range samples {
		if len(s.User.Frames) == 0 {
			continue
		}
		leaf := s.User.Frames[0].PC
		if byLeaf[leaf] == nil {
			byLeaf[leaf] = new(counts)
		}
		if c.Plan().Programs[s.Program].Group == 0 {
			byLeaf[leaf].cycles += s.Value
		} else {
			byLeaf[leaf].instructions += s.Value
		}
	}
	for pc, n := range byLeaf {
		fmt.Printf("%#x: %.2f cycles per instruction\n", pc, float64(n.cycles)/float64(n.instructions))
	}
}

// AttachWaits collects waits: their stacks, how long they took, and the thread that ended
// them. Package symbol names the stacks, as in examples/profile.
func ExampleAttachWaits() {
	c, err := collect.AttachWaits(collect.OffWake, &collect.WaitOptions{
		Min:    time.Millisecond,
		States: collect.Interruptible | collect.Uninterruptible,
	})
	if err != nil {
		fmt.Println(err) // needs privileges
		return
	}
	defer c.Close()
	time.Sleep(10 * time.Second)
	samples, err := c.Samples()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range samples {
		if s.Waker != nil {
			fmt.Printf("%s waited %d times, %v together, for %s\n",
				s.Comm, s.Count, time.Duration(s.Value), s.Waker.Comm)
		}
	}
}

// AttachCopies copies user stacks of an event; they are walked in Go.
func ExampleAttachCopies() {
	c, err := collect.AttachCopies([]probe.Target{
		probe.Tracepoint{Group: "syscalls", Name: "sys_enter_fsync"},
	}, nil)
	if err != nil {
		fmt.Println(err) // needs privileges
		return
	}
	defer c.Close()
	var (
		cache  stack.CFICache
		cp     collect.Copy
		frames = make([]stack.Frame, stack.MaxFrames)
	)
	for {
		if err := c.ReadInto(context.Background(), &cp); err != nil {
			fmt.Println(err)
			return
		}
		mods, err := cache.Modules(cp.PID)
		if mods == nil {
			fmt.Println(err) // the process has ended
			continue
		}
		n, end := cp.User.Walk(frames, &stack.CFIWalker{Modules: mods})
		fmt.Println(cp.Comm, frames[:n], end)
	}
}
