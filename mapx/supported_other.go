//go:build !linux

package mapx

import "runtime"

// supported is nil where live maps can be read.
func supported(feature string) error {
	return &UnsupportedError{
		Feature: feature,
		Hint:    "live BPF maps are Linux's; on " + runtime.GOOS + " open a recording",
	}
}
