package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// soak has what go test ./... does for a second done for a minute, on a kernel that
// nobody else needs.
func soak(ctx context.Context, c *check) (n testlog.Counts, err error) {
	const version = "7.2"
	_, err = kernel.Get(version, "amd64")
	var gone *kernel.UnavailableError
	if errors.As(err, &gone) {
		fmt.Fprintln(c.out, gone)
		return testlog.Counts{Skipped: 1}, nil
	}
	if err != nil {
		return n, err
	}
	return n, c.exec(ctx, nil, "go", "run", "./internal/vmtest", "-kernel", version, "-env", "PROBE_SOAK=30s",
		"-timeout", "4m", "-run", "^TestSoak", "./probe")
}
