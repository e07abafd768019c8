//go:build !linux || !(amd64 || arm64)

package usdtfire

// Stub returns 0: there are no stubs.
func Stub(uint32) uintptr { return 0 }
