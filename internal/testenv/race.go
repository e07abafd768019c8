//go:build race

package testenv

// memoryFactor is the factor by which the race detector increases the mapped memory: for each
// byte of the program's it maps 3.5 bytes in all, of which it touches 2.
const memoryFactor = 4
