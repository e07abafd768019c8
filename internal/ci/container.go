package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/testlog"
)

// inContainer has a command run as a container's first process sees it: with
// numbers of its own for processes, and a /proc that shows no others.
var inContainer = []string{"unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"}

// container runs the tests of which the pid namespace may decide, as root and,
// what needs none, as nobody. They are declared by name: whole packages take
// minutes, and most of their tests know no number of a process. In a whole check
// all tests run there.
func container(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		return testlog.Counts{Skipped: 1}, nil // it takes namespaces of one's own
	}
	self, err := os.Executable()
	if err != nil {
		return testlog.Counts{}, err
	}
	if err := os.Chmod(c.tmp, 0o755); err != nil {
		return testlog.Counts{}, err
	}
	c.via = inContainer
	defer func() { c.via = nil }()
	sum, err := c.named(ctx, "container")
	n, uerr := c.named(ctx, "container-user", "-exec", self+" "+nobodyFlag)
	sum.Add(n)
	return sum, errors.Join(err, uerr)
}

// named runs the tests that are declared for a column by name.
func (c *check) named(ctx context.Context, column string, flags ...string) (testlog.Counts, error) {
	args := append([]string{"-count=1", "-short", "-timeout=3m"}, flags...)
	if !c.all {
		tests, err := c.matrix.testsFor(column)
		if err != nil {
			return testlog.Counts{}, err
		}
		args = append(args, "-run=^("+strings.Join(tests, "|")+")$")
	}
	return c.goTest(ctx, column, append(args, c.declared(column)...)...)
}

// testsFor lists the names of the tests declared for a column, all of whose
// entries have one.
func (m matrix) testsFor(column string) ([]string, error) {
	var tests []string
	for _, entry := range m.entriesFor(column) {
		pkg, test, byName := strings.Cut(entry, ":")
		if !byName {
			return nil, fmt.Errorf("%s is declared for %s as a whole: only tests are, by name", pkg, column)
		}
		tests = append(tests, test)
	}
	slices.Sort(tests)
	return slices.Compact(tests), nil
}
