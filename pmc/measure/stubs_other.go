//go:build !linux

package measure

import "github.com/borescope/borescope/pmc"

// Measure needs Linux.
func Measure(func(), ...pmc.Event) (Measurement, error) { return Measurement{}, pmc.NoPerf() }
