//go:build !race

package testenv

// memoryFactor is described in race.go.
const memoryFactor = 1
