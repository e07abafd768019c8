//go:build linux && (amd64 || arm64)

package usdtfire

// call loads the frame into the registers that the notes name and calls the stub. It is
// assembly, so that no stack can move between the loading of a pointer and the nop.
//
//go:noescape
func call(stub uintptr, f *frame)

// callValues is call for values without pointers.
//
//go:noescape
func callValues(stub uintptr, values *[MaxArgs]uint64)
