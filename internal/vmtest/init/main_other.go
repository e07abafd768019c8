//go:build !linux

// Command init is process 1 of a test guest; it only makes sense on Linux.
package main

func main() {}
