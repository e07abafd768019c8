package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
)

// fuzzBudget is shared among all targets. Each gets 1 to 10 seconds, in a whole check 5 to 10.
const fuzzBudget = time.Minute

// target is one fuzz function.
type target struct{ dir, name string }

// fuzz runs each target for a while. What it prints of their speed is for readers: one that
// is slow tries little.
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
	packages := map[string][]target{}
	for _, t := range targets {
		packages[t.dir] = append(packages[t.dir], t)
	}
	dirs := slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(len(packages[b])-len(packages[a]), strings.Compare(a, b))
	})
	next := make(chan string, len(dirs))
	for _, dir := range dirs {
		next <- dir
	}
	close(next)
	// It writes the inputs that fail beside the tests.
	lane := harmless(func(ctx context.Context, c *check) (n testlog.Counts, err error) {
		for dir := range next {
			of, perr := c.fuzzPackage(ctx, packages[dir], each)
			n.Add(of)
			err = errors.Join(err, perr)
		}
		return n, err
	}, ".")
	var sum testlog.Counts
	var errs []error
	var lanes sync.WaitGroup
	// Two packages at a time: a target is built, starts and reads its seeds on one CPU. Each lane is
	// confined by itself, because what one command leaves is looked for when it has ended.
	for range 2 {
		lanes.Go(func() {
			var log bytes.Buffer
			one := &check{out: &log, logs: c.logs, tmp: c.tmp, via: c.via, patience: c.patience}
			n, err := lane(ctx, one)
			c.mu.Lock()
			defer c.mu.Unlock()
			log.WriteTo(c.out)
			c.worth.WriteString(one.worth.String())
			sum.Add(n)
			errs = append(errs, err)
		})
	}
	lanes.Wait()
	return sum, errors.Join(errs...)
}

// fuzzPackage runs the targets of a package, each for a while.
func (c *check) fuzzPackage(ctx context.Context, targets []target, each time.Duration) (n testlog.Counts,
	err error,
) {
	var errs []error
	for _, t := range targets {
		if ctx.Err() != nil {
			n.Failed++
			errs = append(errs, fmt.Errorf("%s %s and what follows: not run", t.dir, t.name))
			break
		}
		rate, err := c.fuzzOne(ctx, t, each)
		fmt.Fprintf(c.out, "%s %s: %.0f executions a second\n", t.dir, t.name, rate)
		if err == nil && rate == 0 {
			err = errors.New("it executed nothing")
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

// fuzzOne builds a package's instrumented test binary once, and runs one of its targets for a
// while after its seeds. It returns the number of executions in a second of CPU time.
func (c *check) fuzzOne(ctx context.Context, t target, d time.Duration) (rate float64, err error) {
	bin := filepath.Join(c.tmp, strings.ReplaceAll(t.dir, string(filepath.Separator), "_")+".fuzz")
	if _, err := os.Stat(bin); err != nil {
		if err := c.exec(ctx, nil, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-fuzz=.", "-o", bin,
			"./"+filepath.ToSlash(t.dir)); err != nil {
			return 0, err
		}
	}
	corpus := filepath.Join(c.tmp, "fuzzcache", t.dir)
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	cmd, err := c.prepare(ctx, nil, bin,
		"-test.run=^$", "-test.fuzz=^"+t.name+"$",
		// The engine minimizes each input that reaches new code before it continues, by
		// default for up to a minute: FuzzELF did one execution a second. In a short run, all
		// the time should go into new inputs.
		"-test.fuzzcachedir="+corpus, "-test.parallel=1", "-test.fuzzminimizetime=0x")
	if err != nil {
		return 0, err
	}
	cmd.Dir = t.dir // like go test: crashers are written there
	// It does not use -test.fuzztime: the engine may report the end of that time as a failure
	// ("context deadline exceeded": CoordinateFuzzing in internal/fuzz compares the errors of
	// a context and of its child, which sees the end later). It cannot do so for an interrupt.
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
	if cmd.ProcessState == nil { // it was not started
		return 0, err
	}
	// This includes the workers' time, because the engine waits for them.
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return float64(engine.executed) / cpu.Seconds(), errors.Join(err, c.keepCrashers(t, before))
}

// fuzzEngine parses the engine's output (logStats in internal/fuzz).
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

// crashers returns the inputs in the target's seed corpus, to which the engine adds failing
// inputs.
func (t target) crashers() []string {
	files, _ := filepath.Glob(filepath.Join(t.dir, "testdata", "fuzz", t.name, "*"))
	return files
}

// keepCrashers moves the inputs that the engine added to the seed corpus to the logs. In the
// source tree they would make later steps fail too.
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

// fuzzFunc matches a fuzz function.
var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// fuzzTargets returns every fuzz function that is built on this machine.
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
				ts = append(ts, target{dir, string(m[1])})
			}
		}
	}
	return ts, nil
}
