package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
)

const usage = `usage: perfstat [flags] [-- COMMAND [ARGUMENT …]]

Count performance events while COMMAND runs, or with -p, -a, -C or -G until it
ends or Ctrl-C. Without -e: perf stat's default events, or the software ones of
them where this machine has no PMU.

  perfstat -- ls -R /usr            a command
  perfstat -e '{cycles,instructions}:u,page-faults' -r 5 -- make
  perfstat -p 1234 -I 1000          a process, every second
  perfstat -a -- sleep 5            all CPUs for 5 seconds
  perfstat --check                  what can this machine count?

`

// options holds the parsed command line.
type options struct {
	events   string
	scope    pmc.Scope
	interval time.Duration
	repeat   int
	json     bool
	command  []string
}

func run(ctx context.Context, args []string, stdout *tool.Output) error {
	fs := flag.NewFlagSet("perfstat", flag.ContinueOnError)
	fs.Usage = func() {
		io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	var o options
	fs.StringVar(&o.events, "e", "", "events, as perf spells them: `LIST`")
	fs.IntVar(&o.scope.Process, "p", 0, "count process `PID`")
	fs.BoolVar(&o.scope.AllCPUs, "a", false, "count all CPUs")
	cpuList := fs.String("C", "", "count these `CPUS`: 0-3,5")
	fs.StringVar(&o.scope.Cgroup, "G", "", "count cgroup `PATH`")
	ms := fs.Int("I", 0, "print every `MS` milliseconds")
	fs.IntVar(&o.repeat, "r", 1, "run COMMAND `N` times; print mean and deviation")
	fs.BoolVar(&o.json, "json", false, "print JSON lines with perf's keys")
	check := fs.Bool("check", false, "say what this machine can count, and why not the rest")
	if err := cli.Parse(fs, args, stdout); err != nil {
		return err
	}
	o.command, o.interval = fs.Args(), time.Duration(*ms)*time.Millisecond
	out := stdout.Buffered()
	defer out.Flush()
	if *check {
		return printCheck(out, pmc.Probe(nil))
	}
	var err error
	if o.scope.CPUs, err = cpuNumbers(*cpuList); err != nil {
		return cli.Usage("perfstat", err)
	}
	if err := o.validate(*ms); err != nil {
		return cli.Usage("perfstat", err)
	}
	return stat(ctx, o, out)
}

func cpuNumbers(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	cpus, err := pmc.ParseCPUs(list)
	if err == nil && len(cpus) == 0 {
		err = errors.New("-C: no CPU")
	}
	return cpus, err
}

func (o *options) validate(ms int) error {
	scoped := 0
	for _, set := range []bool{o.scope.Process != 0, o.scope.AllCPUs, o.scope.Cgroup != ""} {
		if set {
			scoped++
		}
	}
	switch {
	case scoped > 1 || len(o.scope.CPUs) > 0 && o.scope.Process != 0:
		return errors.New("-p, -a and -G exclude each other, and -C goes with -a or -G")
	case scoped == 0 && len(o.scope.CPUs) == 0 && len(o.command) == 0:
		return errors.New("nothing to count: a command after --, or -p, -a, -C or -G")
	case o.repeat < 1:
		return fmt.Errorf("-r %d: at least 1", o.repeat)
	case o.repeat > 1 && len(o.command) == 0:
		return errors.New("-r repeats a command, and none is given")
	case ms < 0 || ms > 0 && ms < 10:
		return fmt.Errorf("-I %d: at least 10 milliseconds", ms)
	case o.repeat > 1 && o.interval > 0:
		return errors.New("-r and -I exclude each other")
	}
	return nil
}

// subject returns the subject of the table's heading.
func (o *options) subject() string {
	switch {
	case o.scope.Process != 0:
		return "process id '" + strconv.Itoa(o.scope.Process) + "'"
	case o.scope.Cgroup != "":
		return "cgroup '" + o.scope.Cgroup + "'"
	case o.scope.AllCPUs:
		return "'system wide'"
	case len(o.scope.CPUs) > 0:
		return "CPUs " + strings.Trim(fmt.Sprint(o.scope.CPUs), "[]")
	}
	return "'" + strings.Join(o.command, " ") + "'"
}

// measured is the result of one run.
type measured struct {
	counts    pmc.Counts
	elapsed   time.Duration
	user, sys time.Duration // CPU time of the command
}

func stat(ctx context.Context, o options, out *tool.Output) error {
	groups, note, err := chooseEvents(o.events)
	if err != nil {
		return err
	}
	var runs []measured
	var failed error
	for range o.repeat {
		m, err := once(ctx, o, groups, out)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		failed = errors.Join(failed, err)
		runs = append(runs, m)
		if ctx.Err() != nil {
			break
		}
	}
	if o.interval == 0 {
		if o.json {
			err = printJSON(out, runs)
		} else {
			err = printTable(out, o.subject(), note, runs)
		}
	}
	if failed != nil && ctx.Err() == nil {
		return errors.Join(err, fmt.Errorf("%s: %w", o.command[0], failed))
	}
	return err
}

// chooseEvents parses -e, or returns perf's default events.
func chooseEvents(list string) (groups [][]pmc.Event, note string, err error) {
	if list != "" {
		groups, err = pmc.ParseList(list, nil)
		return groups, "", err
	}
	software := []pmc.Event{
		pmc.TaskClock(), pmc.ContextSwitches(), pmc.CPUMigrations(),
		pmc.PageFaults(),
	}
	for _, e := range software {
		groups = append(groups, []pmc.Event{e})
	}
	if err := pmc.Hardware(nil); err != nil {
		var u *pmc.UnsupportedError
		if errors.As(err, &u) {
			return groups, "software events only: " + u.Hint, nil
		}
		return groups, "software events only: " + err.Error(), nil
	}
	hardware, err := pmc.ParseList("cycles,instructions,branches,branch-misses", nil)
	return append(groups, hardware...), "", err
}

// once counts one run.
func once(ctx context.Context, o options, groups [][]pmc.Event, out *tool.Output) (m measured,
	err error,
) {
	// This thread starts the command, which inherits the thread's events.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	scope := o.scope
	wide := scope.AllCPUs || scope.Cgroup != "" || len(scope.CPUs) > 0
	own := !wide && scope.Process == 0
	c, err := pmc.OpenGroups(groups, scope,
		&pmc.CountOptions{Inherit: !wide, EnableOnExec: own, AllowMissing: true})
	if err != nil {
		return m, err
	}
	defer c.Close()
	if len(o.command) == 0 { // a command keeps its user's privileges
		if err := tool.Attached(ctx, "perfstat"); err != nil {
			return m, err
		}
	}
	start := time.Now()
	var cmd *exec.Cmd
	done := make(chan error, 1)
	if len(o.command) > 0 {
		cmd = exec.CommandContext(ctx, o.command[0], o.command[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return m, err
		}
		go func() { done <- cmd.Wait() }()
	} else if scope.Process != 0 {
		stop := make(chan struct{})
		defer close(stop)
		go func() { waitForEnd(scope.Process, stop, done) }()
	}
	err = watch(ctx, o, c, done, start, out)
	m.elapsed = time.Since(start)
	if e := c.Read(&m.counts); e != nil {
		return m, e
	}
	m.counts.Time = m.elapsed
	if cmd != nil && cmd.ProcessState != nil {
		m.user, m.sys = cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime()
	}
	return m, err
}

// waitForEnd sends nil once the process has ended.
func waitForEnd(pid int, stop <-chan struct{}, done chan<- error) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			done <- nil
			return
		}
	}
}

// watch waits for the end, and prints intervals until then. It is no error if Ctrl-C ended
// the command.
func watch(ctx context.Context, o options, c *pmc.Counters, done <-chan error, start time.Time,
	out *tool.Output,
) error {
	var tick <-chan time.Time
	if o.interval > 0 {
		t := time.NewTicker(o.interval)
		defer t.Stop()
		tick = t.C
	}
	p := intervals{json: o.json}
	for {
		select {
		case err := <-done:
			return errors.Join(err, p.print(out, c, time.Since(start), o.interval > 0))
		case <-tick:
			if err := p.print(out, c, time.Since(start), true); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			if len(o.command) > 0 {
				<-done
			}
			return p.print(out, c, time.Since(start), o.interval > 0)
		}
	}
}
