//go:build !linux

package raw

import (
	"runtime"

	featurepkg "github.com/borescope/borescope/internal/feature"
)

// Supported is nil where live maps can be read.
func Supported(feature string) error {
	return &featurepkg.UnsupportedError{
		Feature: feature,
		Hint:    "live BPF maps are Linux's; on " + runtime.GOOS + " open a recording",
	}
}
