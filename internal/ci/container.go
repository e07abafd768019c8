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

// inContainer runs a command as a container's first process: with its own pid namespace, and a
// /proc that shows no other processes.
var inContainer = []string{"unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"}

// container runs the tests that may depend on the pid namespace, as root and, if they need no
// privileges, as nobody. They are declared by name, because whole packages take minutes, and
// most of their tests use no pid. In a whole check all tests run there.
func container(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		return testlog.Counts{Skipped: 1}, nil // it needs its own namespaces
	}
	self, err := os.Executable()
	if err != nil {
		return testlog.Counts{}, err
	}
	c.via = inContainer
	defer func() { c.via = nil }()
	sum, err := c.named(ctx, "container")
	n, uerr := c.named(ctx, "container-user", "-exec", self+" "+nobodyFlag)
	sum.Add(n)
	return sum, errors.Join(err, uerr)
}

// named runs the tests that are declared by name for a column.
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

// testsFor returns the names of the tests declared for a column. All its entries must have
// one.
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
