//go:build !race

package testenv

// memoryFactor: see race.go.
const memoryFactor = 1
