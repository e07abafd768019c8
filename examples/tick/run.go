package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/provider"
)

const usage = `Usage: tick [flags]
Fires a USDT probe, tick:loop, again and again: something to try tracers on. It says
where the probe is, and how often somebody was looking.

  tick                                     once a second
  tick -i 10ms -n 500                      500 times, then end
  trace -p $(pidof tick) 'usdt::tick:loop'  what it fires, elsewhere

Flags:
`

// run fires until ctx ends or count ticks are over.
func run(ctx context.Context, args []string, stdout *cli.Output) (err error) {
	flags := flag.NewFlagSet("tick", flag.ContinueOnError)
	flags.Usage = func() {
		io.WriteString(flags.Output(), usage)
		flags.PrintDefaults()
	}
	interval := flags.Duration("i", time.Second, "time between ticks")
	count := flags.Int("n", 0, "number of ticks; 0 is without end")
	if err := cli.Parse(flags, args, stdout); err != nil {
		return err
	}
	if flags.NArg() > 0 || *interval <= 0 || *count < 0 {
		return fmt.Errorf("usage: tick [-i INTERVAL] [-n COUNT]")
	}
	p, err := provider.New("tick")
	if err != nil {
		return err
	}
	loop := p.Probe("loop", arg.Int64)
	if err := p.Load(); err != nil {
		return err
	}
	defer func() {
		if e := p.Unload(); err == nil {
			err = e
		}
	}()
	stdout.Printf("pid %d fires tick:loop in %s\n", os.Getpid(), p.Path())

	ticker := time.NewTicker(*interval)
	defer ticker.Stop()
	n, traced := 0, 0
	wasEnabled := false
	for i := 0; *count == 0 || i < *count; {
		select {
		case <-ctx.Done():
			stdout.Printf("%d ticks were traced\n", traced)
			return nil
		case <-ticker.C:
		}
		// A tracer raises the semaphore a moment before it listens. The first tick that it
		// receives is therefore the next one, which has the number 0.
		enabled := loop.Enabled()
		if enabled && wasEnabled {
			if err := loop.Fire(n); err != nil {
				return err
			}
			n++
			traced++
		}
		if !enabled {
			n = 0
		}
		wasEnabled = enabled
		i++
	}
	stdout.Printf("%d ticks were traced\n", traced)
	return nil
}
