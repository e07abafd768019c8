package kernel

import (
	"os"
	"unsafe"
)

// OpenIter starts a run of an iterator link. Reading the file runs the iterator's program and
// returns its output. The caller closes the file.
func OpenIter(link int) (*os.File, error) {
	attr := struct{ link, flags uint32 }{link: uint32(link)}
	fd, err := bpf(cmdIterCreate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "bpf_iter"), nil
}
