//go:build linux && (amd64 || arm64)

package usdtfire

// pool returns the address of the stubs' mark.
func pool() uintptr

// Stub returns the address of a stub of the program's own text: number 1 to
// PoolSize, other numbers have none.
func Stub(index uint32) uintptr {
	if index == 0 || index > PoolSize {
		return 0
	}
	return pool() + StubSize*uintptr(index)
}
