// Profile samples every CPU and says where the time goes: as a table of the
// busiest functions, as folded stacks, as a flame graph, as a pprof profile.
//
//	go run -exec sudo ./examples/profile            ten seconds of the whole machine
//	go run ./examples/profile -replay demo          a recorded machine, no root needed
//
// It stands in for BCC's and bpftrace's profile and for perf record -g with
// perf report. It needs CAP_BPF and CAP_PERFMON (or root) and Linux 5.10. Of BCC's
// flags it has not -C, -L, -a, and -d for a line between the parts of a stack; -c and
// -e are perf's.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool/cli"
)

func main() {
	// A tool that starts, samples and ends wants little memory more than speed.
	debug.SetGCPercent(40)
	// Before anything is attached, so that no early Ctrl-C is lost. A second
	// one ends the program as if nothing were caught.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Status("profile", run(privileges.Alone(ctx), os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// run does what the arguments say. Results go to stdout, progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parseFlags(args)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			escape.Text(stdout, usage)
		}
		return err
	}
	if c.requires {
		return printRequires(c, stdout)
	}
	measure := measureLive
	if c.replay != "" {
		measure = measureReplay
	}
	r, err := measure(ctx, c, stderr)
	if err != nil {
		return err
	}
	return r.write(c, stdout, stderr)
}

// printRequires prints what sampling needs, one requirement a line.
func printRequires(c *config, w io.Writer) error {
	for _, r := range probe.Requires(nil, []probe.Target{c.target()}) {
		var err error
		if c.json {
			err = escape.NewEncoder(w).Encode(r)
		} else {
			_, err = escape.Fprintln(w, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
