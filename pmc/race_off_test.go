//go:build !race

package pmc

const raceDetector = false
