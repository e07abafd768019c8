//go:build !linux

package raw

import (
	"runtime"

	"github.com/borescope/borescope/internal/feature"
)

// Supported is nil where live maps can be read.
func Supported(what string) error {
	return &feature.UnsupportedError{
		Feature: what,
		Hint:    "live BPF maps are Linux's; on " + runtime.GOOS + " open a recording",
	}
}
