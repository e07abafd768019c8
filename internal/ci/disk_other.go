//go:build !linux

package main

// room is only supported on Linux.
func room(string) string { return "free space unknown" }
