//go:build !linux

package symbol

import "context"

// WritePerfMap returns an error: it needs Linux.
func (p *Process) WritePerfMap(context.Context) error {
	return &UnsupportedError{
		Feature: "perf map of a process",
		Hint:    "processes can be inspected on Linux only",
	}
}
