//go:build !linux

package bpf

// Where nothing is loaded none of these is needed.
func Monotonic() uint64               { return 0 }
func taiOffset() int64                { return 0 }
func pidNamespace() (dev, ino uint64) { return 0, 0 }
