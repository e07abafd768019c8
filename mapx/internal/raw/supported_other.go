//go:build !linux

package raw

import (
	"runtime"

	"github.com/borescope/borescope/internal/feature"
)

// Supported returns an error if this system has no live maps.
func Supported(what string) error {
	return &feature.UnsupportedError{
		Feature: what,
		Hint:    "live BPF maps are Linux's; on " + runtime.GOOS + " open a recording",
	}
}
