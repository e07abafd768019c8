//go:build amd64 || arm64

package userpage

// readCounter reads a counter of this CPU. The kernel must permit it, or the
// instruction is an illegal one: read the page's capabilities first.
//
//go:noescape
func readCounter(index uint32) uint64

// readClock reads the clock of the page's times.
//
//go:noescape
func readClock() uint64

var thisCPU = cpuCounters{counter: readCounter, clock: readClock}
