//go:build race

package testenv

// memoryFactor is how much the race detector maps for each byte of the program's,
// with it: 3.5 bytes, of which it touches 2.
const memoryFactor = 4
