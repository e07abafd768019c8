//go:build !linux

package sysnames

// errnoName knows nothing: other systems have other numbers.
func errnoName(int) string { return "" }
