package perfring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Map maps the ring of a perf event: the metadata page and the given number of data pages, a
// power of two. The caller must call Unmap before closing the event.
func Map(fd, pages int) (*Ring, error) {
	if pages <= 0 || pages&(pages-1) != 0 {
		return nil, fmt.Errorf("perf ring of %d pages: a power of two", pages)
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, (1+pages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map perf ring of %d pages: %w", pages, err)
	}
	r, err := New(mem)
	if err != nil {
		unix.Munmap(mem)
		return nil, err
	}
	return r, nil
}

// Unmap unmaps a Ring that Map returned. The Ring must not be used afterwards.
func (r *Ring) Unmap() error {
	if r == nil || r.mem == nil {
		return nil
	}
	mem := r.mem
	r.mem, r.data = nil, nil
	return unix.Munmap(mem)
}
