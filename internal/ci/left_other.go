//go:build !linux

package main

// left returns nil: on other systems no test changes the kernel.
func left(place) map[string]bool { return nil }
