package tooltest

import (
	"os"
	"syscall"
	"unsafe"
)

// ReadDisk reads the first n blocks of 4096 bytes of Disk with n requests, bypassing the page
// cache. It panics on errors.
func ReadDisk(n int) {
	f, err := os.OpenFile(Disk, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	page := aligned()
	for i := range n {
		if _, err := f.ReadAt(page, int64(i)*4096); err != nil {
			panic(err)
		}
	}
}

// aligned returns 4096 bytes at a multiple of 4096, as O_DIRECT requires.
func aligned() []byte {
	b := make([]byte, 2*4096)
	skip := -uintptr(unsafe.Pointer(&b[0])) & 4095
	return b[skip:][:4096]
}
