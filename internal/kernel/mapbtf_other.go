//go:build !linux

package kernel

// MapBTF is only supported on Linux.
func MapBTF(int64) ([]byte, func(), bool) { return nil, nil, false }
