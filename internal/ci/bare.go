package main

import (
	"context"
	"errors"
	"os"

	"github.com/borescope/borescope/internal/testlog"
)

// bare runs the README's test command as root and as nobody, and its first
// command, on a machine that has nothing but what they need.
func bare(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		return testlog.Counts{Skipped: 1}, nil // it takes mounts of one's own
	}
	self, err := os.Executable()
	if err != nil {
		return testlog.Counts{}, err
	}
	dir, err := os.MkdirTemp(c.tmp, "bare")
	if err != nil {
		return testlog.Counts{}, err
	}
	// Nobody looks for the tools there too.
	if err := errors.Join(os.Chmod(c.tmp, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return testlog.Counts{}, err
	}
	c.via = []string{self, bareFlag, dir}
	defer func() { c.via = nil }()
	sum, err := c.goTest(ctx, "bare", "-count=1", "-timeout=5m", "./...")
	asUser, uerr := c.goTest(ctx, "bare-user", "-count=1", "-timeout=5m", "-exec", self+" "+nobodyFlag, "./...")
	sum.Add(asUser)
	first := c.exec(ctx, nil, "go", "run", "./examples/profile")
	return sum, errors.Join(err, uerr, first)
}
