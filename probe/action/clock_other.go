//go:build !linux

package action

// Where nothing is loaded none of these is needed.
func monotonic() uint64               { return 0 }
func taiOffset() int64                { return 0 }
func pidNamespace() (dev, ino uint64) { return 0, 0 }
