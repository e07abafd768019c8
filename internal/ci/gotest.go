package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
)

const module = "github.com/borescope/borescope"

// event is a line of the output of go test -json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// packageRun is the result of one package in one run of go test.
type packageRun struct {
	parser testlog.Parser
	status string // "pass", "fail", "skip" (no tests) or "" if it did not finish
	took   time.Duration
}

// goTest runs go test with the arguments, fills a column of the table unless column is empty,
// and counts the results.
func (c *check) goTest(ctx context.Context, column string, args ...string) (testlog.Counts, error) {
	return c.goTestEnv(ctx, column, nil, args...)
}

// goTestEnv is goTest with additional environment variables. Failed tests are not run again: a
// test that fails only sometimes has a bug that is not understood.
func (c *check) goTestEnv(ctx context.Context, column string, env []string,
	args ...string,
) (testlog.Counts, error) {
	return c.goTestIn(ctx, ".", column, env, args...)
}

// goTestIn is goTestEnv in the module of a directory.
func (c *check) goTestIn(ctx context.Context, dir, column string, env []string,
	args ...string,
) (testlog.Counts, error) {
	r, w := io.Pipe()
	runs := map[string]*packageRun{}
	done := make(chan error, 1)
	go func() { done <- c.readEvents(r, runs) }()
	// The step vet does that, once.
	err := c.execTo(ctx, w, env, "go", append([]string{"-C", dir, "test", "-json", "-vet=off"}, args...)...)
	w.Close()
	if rerr := <-done; err == nil {
		err = rerr
	}
	var sum testlog.Counts
	var failed []string
	for path, run := range runs {
		rel := relative(path)
		results := run.parser.Results()
		n := testlog.Count(results)
		if run.status == "fail" && n.Failed == 0 {
			n.Failed = 1
		}
		sum.Add(n)
		if n.Failed > 0 {
			failed = append(failed, rel+": "+strings.Join(failures(results), " "))
			c.showFailures(rel, results, run.parser.Tail())
		}
		if column != "" && run.status != "skip" {
			c.table.set(rel, column, cell{counts: n, results: results, took: run.took})
		}
	}
	slices.Sort(failed)
	if column != "" {
		broken := c.table.broken(column)
		sum.Failed += len(broken)
		failed = append(failed, broken...)
	}
	if len(failed) > 0 {
		err = errors.New(strings.Join(failed, "\n"))
	}
	return sum, err
}

func failures(rs []testlog.Result) []string {
	var names []string
	for _, r := range rs {
		if r.Status == testlog.Fail {
			names = append(names, r.Name)
		}
	}
	return names
}

func relative(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// readEvents parses the stream, and writes the normal output of go test to the log.
func (c *check) readEvents(r io.Reader, runs map[string]*packageRun) error {
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			c.handle(line, runs)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *check) handle(line []byte, runs map[string]*packageRun) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		c.out.Write(line)
		return
	}
	io.WriteString(c.out, e.Output)
	if e.Action == "build-output" {
		c.worth.WriteString(e.Output)
	}
	if e.Package == "" {
		return
	}
	run := runs[e.Package]
	if run == nil {
		run = new(packageRun)
		runs[e.Package] = run
	}
	if e.Action == "output" {
		io.WriteString(&run.parser, e.Output)
	}
	if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
		run.status, run.took = e.Action, time.Duration(e.Elapsed*float64(time.Second))
	}
}

// native runs the README's test command.
func native(ctx context.Context, c *check) (testlog.Counts, error) {
	return c.goTestEnv(ctx, "native", []string{"BORESCOPE_LONG=1"}, "-count=1", "-timeout=5m", "./...")
}

// vmtest runs the tests that boot guests in internal/vmtest/guest, which go test ./... does
// not boot.
func vmtest(ctx context.Context, c *check) (testlog.Counts, error) {
	return c.goTestEnv(ctx, "", []string{"BORESCOPE_VMTEST=1"},
		"-count=1", "-run=TestGuest", "./internal/vmtest/guest")
}

// alone matches tests that take long with the race detector and start no goroutines in the
// tested code: they read one big file, or build or watch another program.
const alone = "^(TestBombs|TestBombErrors|TestBombReasons|TestBombMatches|TestHostileNeighbours|TestForeignModule|" +
	"TestNoLine|TestAgainstDebugELF|TestMinimalBTFIsEnough|TestOptimisedMeansTheSame|TestAggregations|TestJITBombs|" +
	"TestThisKernel|TestStreamCut|TestQuantileBounds|TestPerfMapWithoutEnd|TestGoFunctions|TestHonestGiants|TestGoStripped)$"

func race(ctx context.Context, c *check) (testlog.Counts, error) {
	// Without this, every program that a test starts waits a second before it ends.
	env := []string{"GORACE=atexit_sleep_ms=10", "CGO_ENABLED=1"}
	args := []string{"-race", "-short", "-count=1", "-timeout=10m"}
	if !c.all {
		args = append(args, "-skip="+alone)
	}
	sum, err := c.goTestEnv(ctx, "race", env, append(args, c.declared("race")...)...)
	if ctx.Err() != nil {
		return sum, err
	}
	// These take long, and are about what happens at the same time.
	more, err2 := c.goTestEnv(ctx, "", append(env, "BORESCOPE_LONG=1"),
		"-race", "-count=1", "-timeout=5m", "-run=^(TestAttack|TestSoakDeploy)", "./probe/broker", "./probe/deploy")
	sum.Add(more)
	return sum, errors.Join(err, err2)
}

// declared returns the patterns of the packages declared for a column, in a whole check of all
// packages.
func (c *check) declared(column string) []string {
	if c.all {
		return []string{"./..."}
	}
	var patterns []string
	for _, pkg := range c.matrix.packagesFor(column) {
		patterns = append(patterns, "./"+pkg)
	}
	return patterns
}

func bench(ctx context.Context, c *check) (testlog.Counts, error) {
	return testlog.Counts{}, c.exec(ctx, nil,
		"go", "test", "-vet=off", "-short", "-run=^$", "-bench=.", "-benchtime=1x", "-timeout=4m",
		"./...")
}
