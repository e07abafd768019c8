//go:build amd64 || arm64

package userpage

// readCounter reads a counter of this CPU. Read the page's capabilities first: unless the
// kernel permits it, the instruction is illegal.
//
//go:noescape
func readCounter(index uint32) uint64

// readClock reads the clock that the page's times are in.
//
//go:noescape
func readClock() uint64

var thisCPU = cpuCounters{counter: readCounter, clock: readClock}
