//go:build !linux

package tool

// errnoName knows nothing: other systems have other numbers.
func errnoName(int) string { return "" }
