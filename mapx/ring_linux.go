package mapx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx/internal/raw"
)

// The record header, struct bpf_ringbuf_hdr in kernel/bpf/ringbuf.c: a u32 length with two
// flags, and a u32 that only the kernel uses.
const (
	ringHeader  = 8
	ringBusy    = 1 << 31 // BPF_RINGBUF_BUSY_BIT: reserved, not yet submitted
	ringDiscard = 1 << 30 // BPF_RINGBUF_DISCARD_BIT
)

// ring is the live reader. The kernel shares the consumer's position, which the reader writes,
// the producer's, and the data pages twice in a row so that no record is ever split
// (ringbuf_map_mmap).
type ring struct {
	waiter waiter
	poll   time.Duration

	mu        sync.Mutex // guards the fields below; held while the pages are accessed
	consPage  []byte
	prodPages []byte
	data      []byte
	size      uint64
	pos       uint64 // consumed up to here; the kernel's consumer position is given
	given     uint64
	limit     uint64 // the producer's position when it was last read
	lost      lossCounter
	sinceLoss uint64 // bytes since the loss was last read
	counts    Stats
}

func (r *ring) open(m *ebpf.Map, opts *RingOptions) error {
	if m.Type() != ebpf.RingBuf {
		return fmt.Errorf("open ring %v: a %v, not a ring buffer", m, m.Type())
	}
	if err := r.lost.open(opts.Lost, opts.LostSlot); err != nil {
		return fmt.Errorf("open ring %v: %w", m, err)
	}
	r.size, r.poll = uint64(m.MaxEntries()), opts.Poll
	if r.size == 0 || r.size&(r.size-1) != 0 {
		return fmt.Errorf("open ring %v: size %d is not a power of two", m, r.size)
	}
	if err := r.mmap(m.FD()); err != nil {
		return fmt.Errorf("open ring %v: %w", m, raw.Cause(m, err))
	}
	if err := r.waiter.open(m.FD(), r.hasRecord); err != nil {
		r.munmap()
		return fmt.Errorf("open ring %v: %w", m, err)
	}
	r.counts.Size = int(r.size)
	r.pos = atomic.LoadUint64(r.consumer())
	r.given, r.limit = r.pos, r.pos
	return nil
}

func (r *ring) mmap(fd int) (err error) {
	page := os.Getpagesize()
	r.consPage, err = syscall.Mmap(fd, 0, page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap consumer page: %w", err)
	}
	r.prodPages, err = syscall.Mmap(fd, int64(page), page+2*int(r.size), syscall.PROT_READ,
		syscall.MAP_SHARED)
	if err != nil {
		r.munmap()
		return fmt.Errorf("mmap data pages: %w", err)
	}
	r.data = r.prodPages[page:]
	return nil
}

func (r *ring) munmap() error {
	var errs []error
	for _, b := range [][]byte{r.consPage, r.prodPages} {
		if b != nil {
			errs = append(errs, syscall.Munmap(b))
		}
	}
	r.consPage, r.prodPages, r.data = nil, nil, nil
	return errors.Join(errs...)
}

func (r *ring) consumer() *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(r.consPage))) }

func (r *ring) producer() *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(r.prodPages)))
}

// give returns the space up to pos to the kernel.
func (r *ring) give() {
	if r.given != r.pos {
		atomic.StoreUint64(r.consumer(), r.pos)
		r.given = r.pos
	}
}

// peek returns the next record in place, and moves behind it. It returns false if there is
// none. The position is given to the kernel when all records up to limit are consumed, and
// after every sixteenth of the ring.
func (r *ring) peek() ([]byte, bool) {
	for {
		if r.pos == r.limit {
			// The store must come before the load: the kernel wakes the reader only if the
			// consumer's position is at the record that it commits.
			r.give()
			if r.limit = atomic.LoadUint64(r.producer()); r.pos == r.limit {
				return nil, false
			}
			if r.limit-r.pos > r.size {
				r.resync()
				continue
			}
		}
		at := r.pos & (r.size - 1)
		// Atomic, so that the data is read after the busy bit was seen cleared.
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if head&ringBusy != 0 {
			r.give()
			return nil, false
		}
		n := uint64(head &^ (ringBusy | ringDiscard))
		next := r.pos + ringHeader + (n+7)&^7
		if next > r.limit {
			r.resync()
			continue
		}
		r.pos = next
		if head&ringDiscard != 0 {
			r.counts.Discarded++
			continue
		}
		return r.data[at+ringHeader:][:n:n], true
	}
}

// resync skips everything, because the positions are inconsistent.
func (r *ring) resync() {
	r.counts.Corrupt++
	r.pos = r.limit
	r.give()
}

// remaining returns the number of unread bytes behind the current record. It reads the
// producer's position again if that would be 0.
func (r *ring) remaining() int {
	if r.pos == r.limit {
		if limit := atomic.LoadUint64(r.producer()); limit-r.pos <= r.size {
			r.limit = limit
		}
	}
	return int(r.limit - r.pos)
}

// next returns one record and counts it. mu is held.
func (r *ring) next(rec *Record) ([]byte, bool) {
	data, ok := r.peek()
	if !ok {
		return nil, false
	}
	r.counts.Read++
	r.counts.Bytes += uint64(len(data))
	rec.CPU, rec.Lost, rec.Remaining = -1, 0, r.remaining()
	r.sinceLoss += uint64(len(data)) + ringHeader
	if r.sinceLoss >= r.size/2 || rec.Remaining == 0 && r.sinceLoss >= 4096 {
		r.sinceLoss = 0
		rec.Lost = r.lost.since()
	}
	return data, true
}

func (r *ring) read(ctx context.Context, rec *Record) error {
	var ended error
	for {
		if ok, err := r.copyNext(rec); ok || err != nil {
			return err
		}
		if ended != nil {
			return ended
		}
		// Records that were emitted before ctx ended are read before ctx.Err is returned.
		ended = r.wait(ctx)
	}
}

// copyNext unlocks without a defer, which costs a sixth of a record's 12 ns.
func (r *ring) copyNext(rec *Record) (bool, error) {
	r.mu.Lock()
	if r.data == nil {
		r.mu.Unlock()
		return false, os.ErrClosed
	}
	data, ok := r.next(rec)
	if ok {
		rec.Data = append(rec.Data[:0], data...)
		if r.pos-r.given >= r.size/16 {
			r.give()
		}
	}
	r.mu.Unlock()
	return ok, nil
}

func (r *ring) drain(limit int, fn func(*Record) error) (n int, drained bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil {
		return 0, false, os.ErrClosed
	}
	defer r.give()
	var rec Record
	for limit <= 0 || n < limit {
		data, ok := r.next(&rec)
		if !ok {
			return n, true, nil
		}
		n++
		rec.Data = data
		if err := fn(&rec); err != nil {
			return n, rec.Remaining == 0, err
		}
		if r.pos-r.given >= r.size/16 {
			r.give()
		}
	}
	return n, r.remaining() == 0, nil
}

// hasRecord is the waiter's ready. It returns false in spite of data only if the record at the
// head is busy; its commit will wake the reader.
func (r *ring) hasRecord() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil || r.pos != r.limit && !r.busy() {
		return true
	}
	r.give()
	limit := atomic.LoadUint64(r.producer())
	return limit != r.pos && !r.busy()
}

func (r *ring) busy() bool {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[r.pos&(r.size-1)])))&ringBusy != 0
}

func (r *ring) wait(ctx context.Context) error {
	r.mu.Lock()
	r.counts.Waits++
	r.mu.Unlock()
	return r.waiter.wait(ctx, r.poll)
}

func (r *ring) stats() (Stats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data != nil {
		r.counts.Fill = int(atomic.LoadUint64(r.producer()) - r.pos)
	}
	s := r.counts
	var err error
	s.Lost, s.LostByCPU, err = r.lost.total()
	return s, err
}

func (r *ring) close() error {
	err := r.waiter.close() // no reader waits after this
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil {
		return nil
	}
	r.give()
	return errors.Join(err, r.munmap())
}
