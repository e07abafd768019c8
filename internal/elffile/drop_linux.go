package elffile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Release tells the kernel that the pages of b, a slice from Data or Bytes, are not needed
// soon. That reduces the process's resident memory; the next read gets them from the page
// cache again. It does nothing for memory that is not mapped.
func (f *File) Release(b []byte) {
	if f.mapped == nil || len(b) == 0 {
		return
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(f.mapped)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if at < base || at >= base+uintptr(len(f.mapped)) {
		return
	}
	page := uintptr(os.Getpagesize())
	lo := (at - base + page - 1) / page * page
	hi := (at - base + uintptr(len(b))) / page * page
	if lo < hi {
		_ = unix.Madvise(f.mapped[lo:hi], unix.MADV_DONTNEED)
	}
}

// ReleaseAll releases the whole file.
func (f *File) ReleaseAll() { f.Release(f.mapped) }
