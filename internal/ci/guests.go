package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// guests runs the declared packages on every kernel that anything is declared
// for. A kernel that can't be had is said to be unavailable, which is no
// failure; one that is there and does not run what it should is.
func guests(ctx context.Context, c *check) (testlog.Counts, error) {
	var sum testlog.Counts
	var errs []error
	built := map[string]*guest.Tests{}
	for _, arch := range []string{"amd64", "arm64"} {
		var err error
		if built[arch], err = c.buildTests(arch); err != nil {
			sum.Failed++
			errs = append(errs, fmt.Errorf("%s test binaries: %w", arch, err))
		}
	}
	// Two at a time, as each keeps one CPU busy (boot). What takes longest, arm64,
	// comes first, so that neither lane is left with it.
	columns := make(chan string)
	var lanes sync.WaitGroup
	for range 2 {
		lanes.Go(func() {
			for column := range columns {
				_, arch, _ := kernel.Of(column)
				n, err := c.guest(ctx, column, built[arch])
				c.mu.Lock()
				sum.Add(n)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", column, err))
				}
				c.mu.Unlock()
			}
		})
	}
	for _, column := range slices.Backward(c.matrix.guestColumns()) {
		if _, arch, _ := kernel.Of(column); built[arch] != nil { // why not is said above
			columns <- column
		}
	}
	close(columns)
	lanes.Wait()
	return sum, errors.Join(errs...)
}

// guest boots one kernel with all that is declared for it.
func (c *check) guest(ctx context.Context, column string, tests *guest.Tests) (testlog.Counts, error) {
	var sum testlog.Counts
	if ctx.Err() != nil {
		sum.Failed++
		return sum, context.Cause(ctx)
	}
	k, err := c.kernelFor(column)
	if k == nil && err == nil {
		return sum, nil
	}
	var r *guest.Report
	if err == nil {
		r, err = c.boot(ctx, k, tests.Only(c.matrix.packagesFor(column)), c.matrix.onlyFor(column))
	}
	if err == nil {
		err = c.bootAgain(ctx, column, k, tests, r)
	}
	if err != nil {
		sum.Failed++
		return sum, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var problems []string
	for i := range r.Jobs {
		n, p := c.record(column, &r.Jobs[i])
		sum.Add(n)
		problems = append(problems, p...)
	}
	if r.Trouble != "" {
		sum.Failed++
		problems = append(problems, r.Trouble)
	}
	if broken := c.table.broken(column); len(broken) > 0 {
		sum.Failed += len(broken)
		problems = append(problems, broken...)
	}
	if len(problems) > 0 {
		return sum, errors.New(strings.Join(problems, "\n"))
	}
	return sum, nil
}

// kernelFor gets a column's kernel, or nil if it can't be had, which it says.
func (c *check) kernelFor(column string) (*kernel.Kernel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, arch, _ := kernel.Of(column)
	k, err := kernel.Get(version, arch)
	var gone *kernel.UnavailableError
	if errors.As(err, &gone) {
		fmt.Fprintln(c.out, gone)
		c.table.unavailable[column] = gone.Err.Error()
		return nil, nil
	}
	if err == nil {
		c.table.ran[column] = true
	}
	return k, err
}

// pure are tests that depend on no kernel and take long in an emulated machine.
const pure = "^(TestMinimalBTFIsEnough|TestWriteSVGDeep|TestStreamCut|TestMapSnapshot|TestModulesBudget|" +
	"TestDamaged|TestDamagedWalks|TestBombs|TestOptimisedMeansTheSame|TestJITBombs|TestRecordingBombs|FuzzParseEvent|TestEncodings|TestStringInverse|TestGoFunctions|TestReadAhead)$"

// boot runs the tests in a guest: of the packages in only, those that match
// its expression.
func (c *check) boot(ctx context.Context, k *kernel.Kernel, tests *guest.Tests, only map[string]string) (*guest.Report, error) {
	var log bytes.Buffer
	o := guest.Options{Kernel: k, Log: &log}
	if k.Arch == "amd64" {
		// One core for each guest, as it is for arm64.
		o.Threads = "single"
	}
	tests.AddTo(&o, 8*time.Minute, "-test.skip="+pure)
	for i := range o.Jobs {
		if run := only[o.Jobs[i].Name]; run != "" {
			o.Jobs[i].Argv = append(o.Jobs[i].Argv, "-test.run="+run)
		}
	}
	r, err := guest.Run(ctx, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "\n===== %s, %d packages\n%s", k, len(o.Jobs), &log)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.out, "===== %s ended after %.1f s\n", k, r.Wall.Seconds())
	return r, nil
}

// sparse runs the readers of per-CPU data on a machine that has 8 CPUs and room
// for 64: possible CPUs are not those that are online.
func sparse(ctx context.Context, c *check) (testlog.Counts, error) {
	var n testlog.Counts
	k, err := kernel.Get("6.1", "amd64")
	var gone *kernel.UnavailableError
	if errors.As(err, &gone) {
		fmt.Fprintln(c.out, gone)
		n.Skipped = 1
		return n, nil
	}
	if err != nil {
		return n, err
	}
	tests, err := guest.BuildTests(filepath.Join(c.tmp, "sparse"), "amd64", "./mapx")
	if err != nil {
		return n, err
	}
	o := guest.Options{Kernel: k, Log: c.out, SMP: "8,maxcpus=64"}
	tests.AddTo(&o, 3*time.Minute, "-test.run=PerCPU|PerfBuffer(Reads|Refuses|Waits)|Reduce|CPU")
	r, err := guest.Run(ctx, o)
	if err != nil {
		return n, err
	}
	for _, j := range r.Jobs {
		n.Add(testlog.Count(j.Tests))
		if j.Status != "0" {
			c.showFailures("8 of 64 CPUs "+j.Name, j.Tests, j.Tail)
			err = fmt.Errorf("%s ended with %s", j.Name, j.Status)
		}
	}
	if r.Trouble != "" {
		err = errors.Join(err, errors.New(r.Trouble))
	}
	if err == nil && n.Passed == 0 {
		err = errors.New("no test ran")
	}
	return n, err
}

// tornPatch is how an emulated amd64 machine dies now and then: a CPU meets the
// breakpoint of a change to the kernel's or a BPF program's text (text_poke,
// arch/x86/kernel/alternative.c) that is over. It is taken for the emulator's
// mistake, which is not proven; hence it is shown whenever it happens.
const tornPatch = "Oops: int3"

// bootAgain gives tests that failed a second guest, and puts what passes there
// in the place of the first result. It is as with goTestEnv; what hung or
// crashed, was left behind or made the kernel complain has no second chance, but
// for what a torn patch kept from ending.
func (c *check) bootAgain(ctx context.Context, column string, k *kernel.Kernel, tests *guest.Tests, r *guest.Report) error {
	torn := strings.Contains(r.Trouble, tornPatch)
	only := map[string]string{}
	for i := range r.Jobs {
		if torn && r.Jobs[i].Status == "unfinished" {
			only[r.Jobs[i].Name] = cmp.Or(c.matrix.onlyFor(column)[r.Jobs[i].Name], ".")
		} else if run := secondRun(&r.Jobs[i]); run != "" {
			only[r.Jobs[i].Name] = run
		}
	}
	if len(only) == 0 || !torn && (len(only) > secondChances || r.Trouble != "") || ctx.Err() != nil {
		return nil
	}
	second, err := c.boot(ctx, k, tests.Only(slices.Collect(maps.Keys(only))), only)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if torn && second.Trouble == "" {
		c.noteUnsteady(column, "guest", []string{r.Trouble})
		r.Trouble = ""
	}
	for i := range second.Jobs {
		again := &second.Jobs[i]
		j := slices.IndexFunc(r.Jobs, func(first guest.JobReport) bool { return first.Name == again.Name })
		switch {
		case j < 0 || !again.OK() || testlog.Count(again.Tests).Passed == 0:
		case r.Jobs[j].Status == "unfinished":
			r.Jobs[j] = *again
		default:
			c.noteUnsteady(column, again.Name, failures(r.Jobs[j].Tests))
			replace(&r.Jobs[j], again)
		}
	}
	return nil
}

// secondRun is the expression for the tests of a job that get a second chance,
// "" for none.
func secondRun(j *guest.JobReport) string {
	if j.Status != "exit:1" || len(j.Left) > 0 || len(j.Warnings) > 0 {
		return ""
	}
	var names []string
	for _, name := range failures(j.Tests) {
		top, _, _ := strings.Cut(name, "/")
		names = append(names, regexp.QuoteMeta(top))
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

// replace takes the results of a second run of some tests over those of the first.
func replace(first, again *guest.JobReport) {
	rerun := map[string]bool{}
	for _, t := range again.Tests {
		rerun[t.Name] = true
	}
	first.Tests = slices.DeleteFunc(first.Tests, func(t testlog.Result) bool {
		return rerun[t.Name] || t.Status == testlog.Fail
	})
	first.Tests = append(first.Tests, again.Tests...)
	first.Status = again.Status
}

// buildTests builds every test binary that a guest of the architecture needs,
// once for all its kernels.
func (c *check) buildTests(arch string) (*guest.Tests, error) {
	var patterns []string
	for entry, columns := range c.matrix {
		pkg, _, _ := strings.Cut(entry, ":")
		needed := slices.ContainsFunc(columns, func(col string) bool {
			_, a, ok := kernel.Of(col)
			return ok && a == arch
		})
		if needed {
			patterns = append(patterns, "./"+pkg)
		}
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	slices.Sort(patterns)
	patterns = slices.Compact(patterns)
	return guest.BuildTests(filepath.Join(c.tmp, "tests"), arch, patterns...)
}

// record puts a job into the table.
func (c *check) record(column string, j *guest.JobReport) (testlog.Counts, []string) {
	n := testlog.Count(j.Tests)
	var problems []string
	if names := failures(j.Tests); len(names) > 0 {
		problems = append(problems, "failed: "+strings.Join(names, " "))
	}
	if j.Status != "0" {
		problems = append(problems, "ended with "+j.Status)
	}
	if len(j.Left) > 0 {
		problems = append(problems, "left behind: "+strings.Join(j.Left, ", "))
	}
	if len(j.Warnings) > 0 {
		problems = append(problems, "kernel: "+strings.Join(slices.Compact(j.Warnings), "; "))
	}
	problem := strings.Join(problems, "; ")
	if problem != "" && n.Failed == 0 {
		n.Failed = 1
	}
	c.table.set(j.Name, column, cell{counts: n, results: j.Tests, took: j.Took, problem: problem})
	if problem == "" {
		return n, nil
	}
	c.showFailures(column+" "+j.Name, j.Tests, j.Tail)
	return n, []string{j.Name + ": " + problem}
}
