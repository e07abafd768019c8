package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// guests runs the declared packages on every kernel for which any is declared. A kernel that
// is not available is reported and is not a failure. A kernel that is available and does not
// run the declared packages is.
func guests(ctx context.Context, c *check) (testlog.Counts, error) {
	var sum testlog.Counts
	var errs []error
	built := map[string]*guest.Tests{}
	for _, arch := range []string{"amd64", "arm64"} {
		if ctx.Err() != nil { // what is building takes a minute
			sum.Failed++
			return sum, context.Cause(ctx)
		}
		var err error
		if built[arch], err = c.buildTests(arch); err != nil {
			sum.Failed++
			errs = append(errs, fmt.Errorf("%s test binaries: %w", arch, err))
		}
	}
	// Two run at a time, because each keeps one CPU busy (boot).
	jobs := make(chan func() (testlog.Counts, error))
	var lanes sync.WaitGroup
	for range 2 {
		lanes.Go(func() {
			for job := range jobs {
				n, err := job()
				c.mu.Lock()
				sum.Add(n)
				errs = append(errs, err)
				c.mu.Unlock()
			}
		})
	}
	run := func(name string, job func() (testlog.Counts, error)) {
		jobs <- func() (testlog.Counts, error) {
			n, err := job()
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return n, err
		}
	}
	for _, column := range longestFirst(c.matrix.guestColumns()) {
		_, arch, _ := kernel.Of(column)
		if built[arch] == nil {
			continue // the error is above
		}
		run(column, func() (testlog.Counts, error) { return c.guest(ctx, column, built[arch]) })
	}
	if built["amd64"] != nil {
		run(sparseName, func() (testlog.Counts, error) { return c.sparse(ctx, built["amd64"]) })
	}
	close(jobs)
	lanes.Wait()
	return sum, errors.Join(errs...)
}

// long lists the guests that take minutes, the slowest first.
var long = []string{"5.10", "arm64-6.12", "7.2", "6.12"}

// longestFirst puts those first, so that no lane has one left at the end.
func longestFirst(columns []string) []string {
	place := func(column string) int {
		if i := slices.Index(long, column); i >= 0 {
			return i
		}
		return len(long)
	}
	slices.SortStableFunc(columns, func(a, b string) int { return place(a) - place(b) })
	return columns
}

// guest boots one kernel with all packages that are declared for it.
func (c *check) guest(ctx context.Context, column string, tests *guest.Tests) (testlog.Counts,
	error,
) {
	var sum testlog.Counts
	if ctx.Err() != nil {
		sum.Failed++
		return sum, context.Cause(ctx)
	}
	k, err := c.kernelFor(column)
	if k == nil && err == nil {
		return sum, nil
	}
	var passed map[string]here
	if column == c.standsFor() {
		c.mu.Lock()
		passed = c.table.passedHere(column)
		c.mu.Unlock()
	}
	var r *guest.Report
	if err == nil {
		r, err = c.boot(ctx, k, column, tests, passed)
	}
	if err != nil {
		sum.Failed++
		return sum, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var problems []string
	for _, pkg := range c.matrix.packagesFor(column) {
		if h := passed[pkg]; h.all {
			c.table.set(pkg, column, cell{here: len(h.tests)})
		}
	}
	for i := range r.Jobs {
		n, p := c.record(column, &r.Jobs[i], len(passed[r.Jobs[i].Name].tests))
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

// kernelFor gets a column's kernel. It returns nil if that is not available, which it reports.
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

// soaked is the kernel on which tests take long: what testenv.Long asks for, and probes that are
// attached and detached at random. On the others that would find the same again.
const soaked = "7.2"

// pure matches tests that do not depend on the kernel and take long in an emulated machine.
const pure = "^(TestMinimalBTFIsEnough|TestWriteSVGDeep|TestStreamCut|TestMapSnapshot|TestModulesBudget|" +
	"TestDamaged|TestDamagedWalks|TestBombs|TestBombErrors|TestBombReasons|TestBombMatches|TestGoTableBombs|TestOptimisedMeansTheSame|TestJITBombs|TestRecordingBombs|FuzzParseEvent|TestEncodings|TestStringInverse|TestGoFunctions|TestReadAhead|TestManyFiles|TestHonestGiants)$"

// boot runs what is declared for a column in its guest, without what passed on this machine.
func (c *check) boot(ctx context.Context, k *kernel.Kernel, column string, tests *guest.Tests,
	passed map[string]here,
) (*guest.Report, error) {
	packages := slices.DeleteFunc(c.matrix.packagesFor(column), func(pkg string) bool { return passed[pkg].all })
	var log bytes.Buffer
	o := guest.Options{Kernel: k, Log: &log, Modules: []string{"fuse", "overlay"}}
	switch {
	case k.Version != soaked || k.Arch != "amd64":
		o.Env = []string{"BORESCOPE_LONG=", "BROKER_ATTACKS=100"}
	case c.all:
		o.Env = []string{"PROBE_SOAK=10s"}
	}
	tests.Only(packages).AddTo(&o, 8*time.Minute)
	only := c.matrix.onlyFor(column)
	for i := range o.Jobs {
		job := &o.Jobs[i]
		skip := pure
		if h := passed[job.Name]; len(h.tests) > 0 {
			skip += "|^(" + strings.Join(h.tests, "|") + ")$"
		}
		job.Argv = append(job.Argv, "-test.skip="+skip)
		if run := only[job.Name]; run != "" {
			job.Argv = append(job.Argv, "-test.run="+run)
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

// sparseName is the name of the guest of sparse.
const sparseName = "8 of 64 CPUs"

// sparse runs the readers of per-CPU data on a machine that has 8 CPUs and room for 64, on
// which the possible CPUs differ from those online.
func (c *check) sparse(ctx context.Context, tests *guest.Tests) (n testlog.Counts, err error) {
	k, err := c.kernelFor("6.1")
	if k == nil || err != nil {
		return n, err
	}
	var log bytes.Buffer
	o := guest.Options{Kernel: k, Log: &log, SMP: "8,maxcpus=64"}
	tests.Only([]string{"mapx"}).AddTo(&o, 3*time.Minute,
		"-test.run=PerCPU|PerfBuffer(Reads|Refuses|Waits)|Reduce|CPU")
	r, err := guest.Run(ctx, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "\n===== %s\n%s", sparseName, &log)
	if err != nil {
		return n, err
	}
	for _, j := range r.Jobs {
		n.Add(testlog.Count(j.Tests))
		if j.Status != "0" {
			c.showFailures(sparseName+" "+j.Name, j.Tests, j.Tail)
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

// buildTests builds every test binary that a guest of the architecture needs, once for all its
// kernels.
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

// record adds a job's result to the table, beside the number of tests that passed on this
// machine.
func (c *check) record(column string, j *guest.JobReport, here int) (testlog.Counts, []string) {
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
	c.table.set(j.Name, column, cell{counts: n, here: here, results: j.Tests, took: j.Took, problem: problem})
	if problem == "" {
		return n, nil
	}
	c.showFailures(column+" "+j.Name, j.Tests, j.Tail)
	return n, []string{j.Name + ": " + problem}
}
