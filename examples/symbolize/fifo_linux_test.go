package main

import (
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/tool/cli"
)

// TestPerfMapFIFO: a perf map that is a FIFO was waited for until somebody wrote it.
func TestPerfMapFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "perf-1.map")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var other *procfs.NotRegularError
	if err := run(t.Context(), []string{"-perfmap", fifo, "1000"}, cli.NewOutput(io.Discard)); !errors.As(err, &other) {
		t.Error(err)
	}
}
