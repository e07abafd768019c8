package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool/cli"
)

// config is what the command line asks for.
type config struct {
	freq     uint64
	period   uint64
	event    pmc.Event
	duration time.Duration
	pids     []int
	comm     string
	user     bool // user stacks only
	kernel   bool // kernel stacks only
	idle     bool

	folded bool
	json   bool
	svg    string
	pprof  string
	record string
	replay string

	requires bool
}

const usage = `Usage: profile [flags] [duration]
Samples every CPU and says where the time goes: a table of the busiest
functions, folded stacks, a flame graph, a pprof profile.

  -F HZ         samples per second and CPU (99)
  -d TIME       how long: 10s, 1m, or seconds (10s), which may also stand
                behind the flags; Ctrl-C ends early
  -p PID,...    only these processes
  -c COMM       only threads of this name
  -U | -K       user or kernel stacks only
  -I, -idle     count all of the time: idle CPUs and this tool, too
  -e EVENT      what to sample: cpu-clock, page-faults, cache-misses, ...
                (cycles where there is a PMU, else cpu-clock); with -e,
                -c N takes a sample every N events
  -f            folded stacks to standard output
  -svg FILE     write a flame graph
  -pprof FILE   write a profile for go tool pprof
  -json         one JSON object per stack, a summary last
  -record DIR   also write all that the result is made from
  -replay DIR   show a recording instead; "demo" is built in
  -requires     say what privileges sampling needs, and end

Examples:
  profile -d 5s -svg cpu.svg        five seconds of everything, as a picture
  profile -p 1234 -f | head         one process, as folded stacks
`

func parseFlags(args []string) (*config, error) {
	c := &config{freq: 99, duration: 10 * time.Second}
	fs := flag.NewFlagSet("profile", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Uint64Var(&c.freq, "F", c.freq, "")
	fs.Func("d", "", func(s string) (err error) { c.duration, err = parseTime(s); return err })
	fs.Func("p", "", func(s string) (err error) { c.pids, err = parsePIDs(s); return err })
	fs.StringVar(&c.comm, "c", "", "")
	fs.BoolVar(&c.user, "U", false, "")
	fs.BoolVar(&c.kernel, "K", false, "")
	fs.BoolVar(&c.idle, "idle", false, "")
	fs.BoolVar(&c.idle, "I", false, "")
	fs.Func("e", "", func(s string) (err error) { c.event, err = pmc.ParseEvent(s, nil); return err })
	fs.BoolVar(&c.folded, "f", false, "")
	fs.BoolVar(&c.json, "json", false, "")
	fs.StringVar(&c.svg, "svg", "", "")
	fs.StringVar(&c.pprof, "pprof", "", "")
	fs.StringVar(&c.record, "record", "", "")
	fs.StringVar(&c.replay, "replay", "", "")
	fs.BoolVar(&c.requires, "requires", false, "")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, cli.Usage("profile", err)
	}
	if err := c.check(fs.Args()); err != nil {
		return nil, cli.Usage("profile", err)
	}
	return c, nil
}

// check finds combinations that make no sense, and settles -c, which is a
// thread's name in BCC's tools and a period in perf's.
func (c *config) check(rest []string) error {
	if !c.event.IsZero() && c.comm != "" {
		if n, err := strconv.ParseUint(c.comm, 10, 64); err == nil {
			c.period, c.freq, c.comm = n, 0, ""
		}
	}
	if len(rest) == 1 { // as in BCC's
		if d, err := parseTime(rest[0]); err == nil {
			c.duration, rest = d, nil
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.user && c.kernel:
		return errors.New("-U and -K exclude each other")
	case c.folded && c.json:
		return errors.New("-f and -json exclude each other")
	case c.record != "" && c.replay != "":
		return errors.New("-record and -replay exclude each other")
	case c.freq == 0 && c.period == 0:
		return errors.New("-F 0: a frequency is at least 1")
	case c.duration <= 0:
		return fmt.Errorf("duration %v: it has to be positive", c.duration)
	}
	return nil
}

// target is the probe to attach.
func (c *config) target() probe.Target {
	ev := c.event
	if ev.IsZero() && c.idle {
		ev = pmc.CPUClock() // cycles stand still on an idle CPU
	}
	return probe.Perf{Event: ev, Freq: c.freq, Period: c.period}
}

func parseTime(s string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(n * float64(time.Second)), nil
	}
	return time.ParseDuration(s)
}

func parsePIDs(s string) ([]int, error) {
	var pids []int
	for f := range strings.SplitSeq(s, ",") {
		pid, err := strconv.Atoi(f)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("%q is not a process id", f)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
