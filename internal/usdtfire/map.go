//go:build linux

package usdtfire

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Region is address space for mapping probes. It is never unmapped: a semaphore in it may be
// read at any time, and a goroutine may be in a stub.
type Region []byte

// At returns the address of an offset.
func (r Region) At(off uintptr) unsafe.Pointer { return unsafe.Pointer(&r[off]) }

// Reserve returns a region that reads as zeros.
func Reserve(size int) (Region, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", size, err)
	}
	return mem, nil
}

// MapText maps size bytes of a file at fileOff for execution.
func (r Region) MapText(off, size uintptr, fd int, fileOff int64) error {
	return r.replace(off, size, unix.PROT_READ|unix.PROT_EXEC, 0, fd, fileOff)
}

// MapData maps size bytes of a file privately and writable: the only kind of
// mapping in which the kernel raises semaphores (valid_ref_ctr_vma,
// kernel/events/uprobes.c).
func (r Region) MapData(off, size uintptr, fd int, fileOff int64) error {
	return r.replace(off, size, unix.PROT_READ|unix.PROT_WRITE, 0, fd, fileOff)
}

// Clear replaces a mapping by zeros.
func (r Region) Clear(off, size uintptr) error {
	return r.replace(off, size, unix.PROT_READ, unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, -1, 0)
}

// replace maps over a part of the region. The kernel does that atomically.
func (r Region) replace(off, size uintptr, prot, flags, fd int, fileOff int64) error {
	_, err := unix.MmapPtr(fd, fileOff, r.At(off), size, prot, unix.MAP_PRIVATE|unix.MAP_FIXED|flags)
	if err != nil {
		return fmt.Errorf("map probes: %w", err)
	}
	return nil
}

// Memfd creates an anonymous file with the given contents that can be mapped executable. If
// vm.memfd_noexec is set, that must be requested (MFD_EXEC, Linux 6.3), but older kernels do
// not have the flag. The caller closes the descriptor.
//
// Its inode number differs from that of every file with a lower descriptor. bcc, and so
// bpftrace, identify the file of a mapping by that number alone (bcc_proc.c: the first
// descriptor that has it), and find no probes if it is another file. Shortly after a machine's
// start, memfds have the inode numbers of the cgroup files that the Go runtime keeps open.
func Memfd(name string, b []byte) (int, error) {
	const most = 64 // each has the next inode number
	for try := 1; ; try++ {
		fd, err := memfd(name, b)
		if err != nil || try == most || !shadowed(fd) {
			return fd, err
		}
		unix.Close(fd)
	}
}

func memfd(name string, b []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return -1, err
	}
	if n, err := unix.Pwrite(fd, b, 0); err != nil || n != len(b) {
		unix.Close(fd)
		return -1, fmt.Errorf("write %d bytes: %d, %w", len(b), n, err)
	}
	return fd, nil
}

// shadowed reports whether a lower descriptor refers to an inode with the same number.
func shadowed(fd int) bool {
	var own, other unix.Stat_t
	if unix.Fstat(fd, &own) != nil {
		return false
	}
	for lower := range fd {
		if unix.Fstat(lower, &other) == nil && other.Ino == own.Ino {
			return true
		}
	}
	return false
}
