//go:build race

package pmc

const raceDetector = true
