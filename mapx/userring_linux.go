package mapx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
)

// typeUserRing is BPF_MAP_TYPE_USER_RINGBUF, for which cilium/ebpf has no name.
const typeUserRing = ebpf.MapType(31)

// userRing is the live writer. Here the consumer's page is the kernel's, and the
// producer's page and the data are ours (ringbuf_map_mmap_user,
// kernel/bpf/ringbuf.c).
type userRing struct {
	waiter waiter
	turn   chan struct{} // held by the one that waits in waiter

	mu        sync.Mutex // guards what follows; held while the pages are touched
	consPage  []byte
	prodPages []byte
	data      []byte
	size      uint64
	need      uint64 // the room that the holder of turn waits for
}

func (u *userRing) open(m *ebpf.Map) error {
	if m.Type() != typeUserRing {
		return fmt.Errorf("open user ring %v: a %v, not a user ring buffer", m, m.Type())
	}
	u.size = uint64(m.MaxEntries())
	page := os.Getpagesize()
	var err error
	u.consPage, err = syscall.Mmap(m.FD(), 0, page, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("open user ring %v: mmap consumer page: %w", m, err)
	}
	u.prodPages, err = syscall.Mmap(m.FD(), int64(page), page+2*int(u.size),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		syscall.Munmap(u.consPage)
		return fmt.Errorf("open user ring %v: mmap data pages: %w", m, err)
	}
	u.data = u.prodPages[page:]
	u.turn, u.waiter.write = make(chan struct{}, 1), true
	if err := u.waiter.open(m.FD(), u.hasRoom); err != nil {
		u.munmap()
		return fmt.Errorf("open user ring %v: %w", m, err)
	}
	return nil
}

func (u *userRing) munmap() error {
	err := errors.Join(syscall.Munmap(u.consPage), syscall.Munmap(u.prodPages))
	u.consPage, u.prodPages, u.data = nil, nil, nil
	return err
}

func (u *userRing) consumer() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(u.consPage))))
}

func (u *userRing) producer() *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(u.prodPages)))
}

// recordSize is what a record takes of the ring.
func recordSize(data []byte) uint64 { return ringHeader + (uint64(len(data))+7)&^7 }

func (u *userRing) tryWrite(data []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.data == nil {
		return os.ErrClosed
	}
	total := recordSize(data)
	if total > u.size {
		return fmt.Errorf("user ring: a record of %d bytes in a ring of %d", len(data), u.size)
	}
	pos := atomic.LoadUint64(u.producer())
	if pos+total-u.consumer() > u.size {
		return ErrFull
	}
	at := pos & (u.size - 1)
	copy(u.data[at+ringHeader:], data)
	// The length is complete before the position says that it is there.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&u.data[at])), uint32(len(data)))
	atomic.StoreUint64(u.producer(), pos+total)
	return nil
}

func (u *userRing) write(ctx context.Context, data []byte) error {
	for {
		err := u.tryWrite(data)
		if !errors.Is(err, ErrFull) {
			return err
		}
		select {
		case u.turn <- struct{}{}:
			u.mu.Lock()
			u.need = recordSize(data)
			u.mu.Unlock()
			err = u.waiter.wait(ctx, 0)
			<-u.turn
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (u *userRing) hasRoom() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.data == nil || atomic.LoadUint64(u.producer())+u.need-u.consumer() <= u.size
}

func (u *userRing) unread() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.data == nil {
		return 0
	}
	return int(atomic.LoadUint64(u.producer()) - u.consumer())
}

func (u *userRing) close() error {
	err := u.waiter.close() // nobody waits any more
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.data == nil {
		return nil
	}
	return errors.Join(err, u.munmap())
}
