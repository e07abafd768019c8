package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
)

// fuzzBudget is shared among all targets; each gets 1 to 10 seconds, and in a whole
// check 5 to 10.
const fuzzBudget = time.Minute

// target is one fuzz function.
type target struct{ dir, name string }

func fuzz(ctx context.Context, c *check) (testlog.Counts, error) {
	targets, err := fuzzTargets()
	if err != nil || len(targets) == 0 {
		return testlog.Counts{}, err
	}
	least := time.Second
	if c.all {
		least = 5 * time.Second
	}
	each := min(max(fuzzBudget/time.Duration(len(targets)), least), 10*time.Second).Truncate(time.Second)
	var n testlog.Counts
	var errs []error
	binaries := map[string]string{}
	for _, t := range targets {
		if err := c.fuzzOne(ctx, t, each, binaries); err != nil {
			n.Failed++
			errs = append(errs, fmt.Errorf("%s %s: %w", t.dir, t.name, err))
			continue
		}
		n.Passed++
	}
	return n, errors.Join(errs...)
}

// fuzzOne builds a package's instrumented test binary once, and runs one of
// its targets.
func (c *check) fuzzOne(ctx context.Context, t target, d time.Duration, binaries map[string]string) error {
	bin := binaries[t.dir]
	if bin == "" {
		bin = filepath.Join(c.tmp, strings.ReplaceAll(t.dir, string(filepath.Separator), "_")+".fuzz")
		if err := c.exec(ctx, nil, "go", "test", "-c", "-fuzz=.", "-o", bin, "./"+filepath.ToSlash(t.dir)); err != nil {
			return err
		}
		binaries[t.dir] = bin
	}
	corpus := filepath.Join(c.tmp, "fuzzcache", t.dir)
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		return err
	}
	args := []string{
		"-test.run=^$", "-test.fuzz=^" + t.name + "$", "-test.fuzztime=" + d.String(),
		// The engine makes each input that reaches new code smaller before it goes on,
		// for a minute unless told otherwise: FuzzELF came to one execution a second.
		"-test.fuzzcachedir=" + corpus, "-test.parallel=2", "-test.fuzzminimizetime=10x",
	}
	ctx, cancel := context.WithTimeout(ctx, 2*d+time.Minute)
	defer cancel()
	// In its own directory, like go test: that is where a crasher is written.
	run := func() error {
		return c.exec(ctx, nil, "sh", append([]string{"-c", `cd "$1" && shift && exec "$@"`, "sh", t.dir, bin}, args...)...)
	}
	before := t.crashers()
	err := run()
	if err != nil && len(t.crashers()) == len(before) {
		// Nothing was found: now and then the engine itself fails with "context
		// deadline exceeded" when its time ends while a worker is busy.
		err = run()
	}
	return errors.Join(err, c.keepCrashers(t, before))
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

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

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
				ts = append(ts, target{dir, string(m[1])})
			}
		}
	}
	return ts, nil
}
