//go:build !linux

package kernel

// MapBTF maps nothing: only Linux has it.
func MapBTF(int64) ([]byte, func(), bool) { return nil, nil, false }
