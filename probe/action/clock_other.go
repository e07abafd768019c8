//go:build !linux

package action

// monotonic is not needed where nothing is loaded.
func monotonic() uint64 { return 0 }
