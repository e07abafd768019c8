package main

import (
	"context"
	"errors"
	"os"

	"github.com/borescope/borescope/internal/testlog"
)

// user runs the README's test command as a user without privileges, network or tools except
// Go's own, without tests that take long and do not depend on the user. In a whole check
// (-all) it runs all tests, and also runs them with the tools.
func user(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		return testlog.Counts{Skipped: 1}, nil // the native run was that already
	}
	self, err := os.Executable()
	if err != nil {
		return testlog.Counts{}, err
	}
	args := []string{"-count=1", "-timeout=5m", "-exec", self + " " + nobodyFlag}
	if !c.all {
		return c.onBare(func() (testlog.Counts, error) {
			return c.goTest(ctx, "user", append(args, "-short", "./...")...)
		})
	}
	sum, err := c.goTest(ctx, "user", append(args, "./...")...)
	n, berr := c.onBare(func() (testlog.Counts, error) {
		return c.goTest(ctx, "bare-user", append(args, "./...")...)
	})
	sum.Add(n)
	return sum, errors.Join(err, berr)
}

// bare runs the packages that may behave differently on a machine with only Go installed, as
// root, and the README's first command.
func bare(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		return testlog.Counts{Skipped: 1}, nil // it needs its own mounts
	}
	return c.onBare(func() (testlog.Counts, error) {
		sum, err := c.goTest(ctx, "bare",
			append([]string{"-count=1", "-timeout=5m"}, c.declared("bare")...)...)
		first := c.exec(ctx, nil, "go", "run", "./examples/profile")
		return sum, errors.Join(err, first)
	})
}

// onBare runs f with its commands in the environment of onBareMachine.
func (c *check) onBare(f func() (testlog.Counts, error)) (testlog.Counts, error) {
	self, err := os.Executable()
	if err != nil {
		return testlog.Counts{}, err
	}
	dir, err := os.MkdirTemp(c.tmp, "bare")
	if err != nil {
		return testlog.Counts{}, err
	}
	// The user nobody looks for the tools in this directory too.
	if err := os.Chmod(dir, 0o755); err != nil {
		return testlog.Counts{}, err
	}
	c.via = []string{self, bareFlag, dir}
	defer func() { c.via = nil }()
	return f()
}
