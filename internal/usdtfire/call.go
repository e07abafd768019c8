//go:build linux && (amd64 || arm64)

package usdtfire

// call loads the frame into the registers that the notes name and calls the
// stub. It is assembly, so that nothing can move a stack between the loading
// of a pointer and the nop.
//
//go:noescape
func call(stub uintptr, f *frame)

// callValues is call for values alone.
//
//go:noescape
func callValues(stub uintptr, values *[MaxArgs]uint64)
