//go:build linux && (amd64 || arm64)

package usdtfire

// pool returns the address of the mark before the stubs.
func pool() uintptr

// Stub returns the address of a stub in the program's own text, by its number, 1 to PoolSize.
// It returns 0 for other numbers.
func Stub(index uint32) uintptr {
	if index == 0 || index > PoolSize {
		return 0
	}
	return pool() + StubSize*uintptr(index)
}
