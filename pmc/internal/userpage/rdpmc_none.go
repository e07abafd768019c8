//go:build !amd64 && !arm64

package userpage

// thisCPU is not called: other architectures' kernels give no index. If one did, it would read
// zeros.
var thisCPU = cpuCounters{
	counter: func(uint32) uint64 { return 0 },
	clock:   func() uint64 { return 0 },
}
