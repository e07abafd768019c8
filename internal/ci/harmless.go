package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// harmless confines a step's commands, which may write the given directories besides the go
// command's caches. The step fails if they leave something on this machine.
func harmless(run func(context.Context, *check) (testlog.Counts, error), writable ...string,
) func(context.Context, *check) (testlog.Counts, error) {
	return func(ctx context.Context, c *check) (counts testlog.Counts, err error) {
		caches, err := caches(ctx)
		if err != nil {
			return counts, err
		}
		if c.confined, err = confine(c.tmp, c.patience, append(caches, writable...)); err != nil {
			return counts, err
		}
		defer func() { c.confined = nil }()
		counts, err = run(ctx, c)
		return counts, errors.Join(err, c.confined.end())
	}
}

// caches returns the directories of the go command and of the guests' kernels.
func caches(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for line := range strings.Lines(string(out)) {
		dirs = append(dirs, filepath.SplitList(strings.TrimSuffix(line, "\n"))...)
	}
	own, err := kernel.CacheDir()
	return append(dirs, own), err
}
