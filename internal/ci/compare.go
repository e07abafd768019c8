package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/borescope/borescope/internal/testlog"
)

// comparisons lists the programs of internal/bench, with the arguments that make each as short
// as possible: the check is that they run; the measurements are worthless.
var comparisons = [][]string{
	{"action", "-batches", "5", "-rounds", "1", "-starts", "1", "-action", "comm"},
	{"attach", "-rounds", "1", "uprobe:/proc/self/exe:runtime.m*"},
	{"hist"},
	{"mapx", "-rounds", "1"},
	{"profile", "-rounds", "1", "-procs", "0"},
	{"symscore", "-n", "20", "-runs", "1", "-match", "libc"},
	{"tools", "-rounds", "1", "execsnoop"},
}

// compare runs each of them once. They skip peers that are not installed.
func compare(ctx context.Context, c *check) (testlog.Counts, error) {
	if os.Geteuid() != 0 {
		return testlog.Counts{Skipped: len(comparisons)}, nil
	}
	bin := filepath.Join(c.tmp, "bench") + string(filepath.Separator)
	var n testlog.Counts
	if err := c.exec(ctx, nil, "go", "-C", benchModule, "build", "-o", bin, "./..."); err != nil {
		return n, err
	}
	var errs []error
	if err := c.exec(ctx, nil, "go", "-C", benchModule, "test", "./..."); err != nil { // peers as oracles
		n.Failed++
		errs = append(errs, err)
	}
	for _, argv := range comparisons {
		cmd, err := c.prepare(ctx, nil, bin+argv[0], argv[1:]...)
		if err == nil {
			cmd.Dir = benchModule
			cmd.Stdout, cmd.Stderr = c.out, c.out
			err = runGroup(cmd)
		}
		if err != nil {
			n.Failed++
			errs = append(errs, fmt.Errorf("%v: %w", argv, err))
			continue
		}
		n.Passed++
	}
	return n, errors.Join(errs...)
}
