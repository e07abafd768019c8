//go:build amd64 || arm64

// Package spin contains a loop of a known number of instructions, to measure counters with.
package spin

// PerIteration is the number of instructions in one iteration of Loop.
const PerIteration = 13

// Loop runs n iterations; n must not be 0.
//
//go:noescape
func Loop(n uint64)
