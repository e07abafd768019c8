package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
	for _, column := range c.matrix.guestColumns() {
		_, arch, _ := kernelOf(column)
		if built[arch] == nil {
			continue // said above
		}
		n, err := c.guest(ctx, column, built[arch])
		sum.Add(n)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", column, err))
		}
	}
	return sum, errors.Join(errs...)
}

// guest boots one kernel with all that is declared for it.
func (c *check) guest(ctx context.Context, column string, tests *guest.Tests) (testlog.Counts, error) {
	var sum testlog.Counts
	if ctx.Err() != nil {
		sum.Failed++
		return sum, context.Cause(ctx)
	}
	version, arch, _ := kernelOf(column)
	k, err := kernel.Get(version, arch)
	var gone *kernel.UnavailableError
	if errors.As(err, &gone) {
		fmt.Fprintln(c.out, gone)
		c.table.unavailable[column] = gone.Err.Error()
		return sum, nil
	}
	if err != nil {
		sum.Failed++
		return sum, err
	}
	c.table.ran[column] = true
	r, err := c.boot(ctx, k, tests.Only(c.matrix.packagesFor(column)))
	if err == nil {
		err = c.bootAgain(ctx, column, k, tests, r)
	}
	if err != nil {
		sum.Failed++
		return sum, err
	}
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

// pure are tests that depend on no kernel and take long in an emulated machine.
const pure = "^(TestMinimalBTFIsEnough|TestWriteSVGDeep|TestStreamCut|TestMapSnapshot)$"

// boot runs the tests in a guest.
func (c *check) boot(ctx context.Context, k *kernel.Kernel, tests *guest.Tests) (*guest.Report, error) {
	o := guest.Options{Kernel: k, Log: c.out}
	tests.AddTo(&o, 5*time.Minute, "-test.skip="+pure)
	fmt.Fprintf(c.out, "\n===== %s, %d packages\n", k, len(o.Jobs))
	r, err := guest.Run(ctx, o)
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

// bootAgain gives packages of which tests failed a second guest, and puts what
// passes there in the place of the first report. It is as with goTestEnv; what
// was left behind or what the kernel complained of has no second chance.
func (c *check) bootAgain(ctx context.Context, column string, k *kernel.Kernel, tests *guest.Tests, r *guest.Report) error {
	var rels []string
	for _, j := range r.Jobs {
		if j.Status != "0" && len(j.Left) == 0 && len(j.Warnings) == 0 {
			rels = append(rels, j.Name)
		}
	}
	if len(rels) == 0 || len(rels) > secondChances || r.Trouble != "" || ctx.Err() != nil {
		return nil
	}
	second, err := c.boot(ctx, k, tests.Only(rels))
	if err != nil {
		return err
	}
	for _, j := range second.Jobs {
		i := slices.IndexFunc(r.Jobs, func(first guest.JobReport) bool { return first.Name == j.Name })
		if j.Status == "0" && i >= 0 {
			c.noteUnsteady(column, j.Name, failures(r.Jobs[i].Tests))
			r.Jobs[i] = j
		}
	}
	return nil
}

// buildTests builds every test binary that a guest of the architecture needs,
// once for all its kernels.
func (c *check) buildTests(arch string) (*guest.Tests, error) {
	var patterns []string
	for entry, columns := range c.matrix {
		pkg, _, _ := strings.Cut(entry, ":")
		needed := slices.ContainsFunc(columns, func(col string) bool {
			_, a, ok := kernelOf(col)
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
	c.table.set(j.Name, column, cell{counts: n, results: j.Tests, problem: problem})
	if problem == "" {
		return n, nil
	}
	c.showFailures(column+" "+j.Name, j.Tests, j.Tail)
	return n, []string{j.Name + ": " + problem}
}
