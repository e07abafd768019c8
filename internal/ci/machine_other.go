//go:build !linux

package main

import "time"

// room is only supported on Linux.
func room(string) string { return "free space unknown" }

// busy is only supported on Linux.
func busy() time.Duration { return 0 }
