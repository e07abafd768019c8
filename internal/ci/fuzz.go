package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
)

// fuzzBudget is shared among all targets; each gets 1 to 10 seconds, and in a whole
// check 5 to 10.
const fuzzBudget = time.Minute

// leastRate is how many executions a target must reach in two seconds of a CPU,
// which is a second of this machine's if nobody else uses it, unless its comment says
// why it doesn't (excuse): what is slower has found nothing because it has tried
// nothing. Where the first seconds go into new coverage, longer ones follow.
const (
	leastRate = 1000
	longer    = 5 * time.Second
)

// excuse is what such a comment has.
const excuse = "executions a second"

// target is one fuzz function.
type target struct {
	dir, name string
	slow      bool // as its comment says
}

func fuzz(ctx context.Context, c *check) (testlog.Counts, error) {
	targets, err := fuzzTargets()
	if err != nil || len(targets) == 0 {
		return testlog.Counts{}, err
	}
	least := time.Second
	if c.all {
		least = 5 * time.Second
	}
	each := min(max(fuzzBudget/time.Duration(len(targets)), least),
		10*time.Second).Truncate(time.Second)
	var n testlog.Counts
	var errs []error
	binaries := map[string]string{}
	for _, t := range targets {
		if ctx.Err() != nil {
			n.Failed++
			errs = append(errs, fmt.Errorf("%s %s and what follows: not run", t.dir, t.name))
			break
		}
		rate, err := c.fuzzOne(ctx, t, each, binaries)
		if err == nil && rate < leastRate && !t.slow {
			rate, err = c.fuzzOne(ctx, t, longer, binaries)
		}
		fmt.Fprintf(c.out, "%s %s: %.0f executions a second\n", t.dir, t.name, rate)
		if err == nil && rate < leastRate && !t.slow {
			err = fmt.Errorf("%.0f executions a second, less than %d, and its comment doesn't say why", rate,
				leastRate)
		}
		if err != nil {
			n.Failed++
			errs = append(errs, fmt.Errorf("%s %s: %w", t.dir, t.name, err))
			continue
		}
		n.Passed++
	}
	return n, errors.Join(errs...)
}

// fuzzOne builds a package's instrumented test binary once, and runs one of its
// targets for a while after its seeds. It returns the executions in two seconds of a CPU.
func (c *check) fuzzOne(ctx context.Context, t target, d time.Duration,
	binaries map[string]string,
) (rate float64, err error) {
	bin := binaries[t.dir]
	if bin == "" {
		bin = filepath.Join(c.tmp, strings.ReplaceAll(t.dir, string(filepath.Separator), "_")+".fuzz")
		if err := c.exec(ctx, nil, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-fuzz=.", "-o", bin,
			"./"+filepath.ToSlash(t.dir)); err != nil {
			return 0, err
		}
		binaries[t.dir] = bin
	}
	corpus := filepath.Join(c.tmp, "fuzzcache", t.dir)
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	cmd := c.prepare(ctx, nil, bin,
		"-test.run=^$", "-test.fuzz=^"+t.name+"$",
		// The engine makes each input that reaches new code smaller before it goes on,
		// for a minute unless told otherwise: FuzzELF came to one execution a second.
		// Of a second, all of it goes into new ones.
		"-test.fuzzcachedir="+corpus, "-test.parallel=2", "-test.fuzzminimizetime=0x")
	cmd.Dir = t.dir // as with go test: that is where a crasher is written
	// Not -test.fuzztime: of a time that ends the engine may make a failure
	// ("context deadline exceeded", CoordinateFuzzing in internal/fuzz compares the
	// errors of a context and of its child, which learns of it later), and of an
	// interrupt it can't.
	engine := fuzzEngine{began: func() {
		time.AfterFunc(d, func() { _ = cmd.Process.Signal(os.Interrupt) })
	}}
	var own bytes.Buffer
	cmd.Stdout = io.MultiWriter(c.out, &own, &engine)
	cmd.Stderr = cmd.Stdout
	before := t.crashers()
	begin := time.Now()
	err = runGroup(cmd)
	if ctx.Err() != nil {
		err = fmt.Errorf("still busy with its seeds after %v: %w", time.Since(begin).Round(time.Second),
			err)
	}
	if err != nil {
		c.worth.WriteString(lastLines(own.String(), 40))
	}
	if cmd.ProcessState == nil { // it was not even started
		return 0, err
	}
	// The workers' time, too, for which the engine has waited.
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return 2 * float64(engine.executed) / cpu.Seconds(), errors.Join(err, c.keepCrashers(t, before))
}

// fuzzEngine reads what the engine prints (logStats in internal/fuzz).
type fuzzEngine struct {
	began    func() // called once the seeds have been executed
	fuzzing  bool
	executed int
	partial  []byte
}

var fuzzExecuted = regexp.MustCompile(`^fuzz: elapsed: \S+, execs: (\d+) `)

func (e *fuzzEngine) Write(b []byte) (int, error) {
	e.partial = append(e.partial, b...)
	for {
		line, rest, ok := bytes.Cut(e.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		if !e.fuzzing && bytes.Contains(line, []byte(" completed, now fuzzing with ")) {
			e.fuzzing = true
			e.began()
		} else if m := fuzzExecuted.FindSubmatch(line); m != nil {
			e.executed, _ = strconv.Atoi(string(m[1]))
		}
		e.partial = rest
	}
}

// crashers lists the inputs in the target's seed corpus, to which the engine
// adds what fails.
func (t target) crashers() []string {
	files, _ := filepath.Glob(filepath.Join(t.dir, "testdata", "fuzz", t.name, "*"))
	return files
}

// keepCrashers moves what the engine added to the seed corpus to the logs: as
// part of the tree it would fail the steps that follow as well.
func (c *check) keepCrashers(t target, before []string) error {
	var errs []error
	for _, file := range t.crashers() {
		if slices.Contains(before, file) {
			continue
		}
		b, err := os.ReadFile(file)
		to := filepath.Join(c.logs, t.name+"-"+filepath.Base(file))
		if err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
		if err == nil {
			err = os.Remove(file)
		}
		fmt.Fprintf(c.out, "the input that failed is %s:\n%s", to, b)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// fuzzFunc is a fuzz function with its comment.
var fuzzFunc = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// fuzzTargets finds every fuzz function that is built on this machine.
func fuzzTargets() ([]target, error) {
	ps, err := guest.List(runtime.GOARCH, "./...")
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var ts []target
	for _, p := range ps {
		dir, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
			b, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, m := range fuzzFunc.FindAllSubmatch(b, -1) {
				comment := strings.Join(strings.Fields(strings.ReplaceAll(string(m[1]), "//", "")), " ")
				ts = append(ts, target{dir, string(m[2]), strings.Contains(comment, excuse)})
			}
		}
	}
	return ts, nil
}
