//go:build !linux

// Command init is process 1 of a test guest. It does nothing on systems other than Linux.
package main

func main() {}
