// Package perfring reads the kernel's perf ring buffers: the shared memory behind a perf event
// (Ring), and the records in it (Format.Decode).
//
// The memory is written by the kernel, or comes from a recording. Lengths in it are checked
// before use. Memory that does not make sense is skipped and counted as corrupt.
//
// The layout is that of include/uapi/linux/perf_event.h (struct perf_event_mmap_page, enum
// perf_event_type) and tools/perf/design.txt.
package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// These are offsets into struct perf_event_mmap_page.
const (
	offDataHead   = 1024
	offDataTail   = 1032
	offDataOffset = 1040
	offDataSize   = 1048
	// minPage is the size of all fields up to aux_size.
	minPage = 1088
)

const headerSize = 8 // struct perf_event_header: u32 type, u16 misc, u16 size

// MaxRecord is the size of the largest record in bytes: the size has 16 bits.
const MaxRecord = 1<<16 - 1

// Raw is one record, not decoded.
type Raw struct {
	// Type is PERF_RECORD_… (the Type constants), Misc contains the header's flags.
	Type uint32
	Misc uint16
	// Data is the record without its header. Ring.Next reuses its memory; that of Ring.Peek
	// belongs to the ring.
	Data []byte
}

// Stats contains counts of a ring's records.
type Stats struct {
	// Records is the number of records read. Lost is the number of records that the kernel
	// dropped because the ring was full (PERF_RECORD_LOST and _LOST_SAMPLES).
	Records, Lost uint64
	// Corrupt is the number of places where the memory made no sense, CorruptBytes the number
	// of bytes skipped there.
	Corrupt, CorruptBytes uint64
}

// Ring is the reader's end of one perf ring buffer. Only one goroutine may use it at a time.
//
// Next reads one record after the other. Look, Peek and Pass are its parts, for readers that
// compare the next records of several rings, or that avoid copies.
type Ring struct {
	mem   []byte // the metadata page and the data
	data  []byte
	tail  uint64
	head  uint64 // as of the last Look
	next  uint64 // behind the record that Peek returned
	split []byte // a record that wraps around the end
	stats Stats
}

var errLayout = errors.New("perf ring: bad layout")

// New returns a Ring for memory in the kernel's layout: a metadata page, and the data at the
// offset in that page. It keeps mem, and writes data_tail to it, so mem must be writable; of a
// recording it must be a copy.
func New(mem []byte) (*Ring, error) {
	if len(mem) < minPage || uintptr(unsafe.Pointer(&mem[0]))%8 != 0 {
		return nil, fmt.Errorf("%w: %d bytes of memory", errLayout, len(mem))
	}
	off := binary.NativeEndian.Uint64(mem[offDataOffset:])
	size := binary.NativeEndian.Uint64(mem[offDataSize:])
	if off < minPage || off > uint64(len(mem)) || size > uint64(len(mem))-off ||
		size == 0 || size&(size-1) != 0 || size%headerSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of data at %d of %d", errLayout, size, off, len(mem))
	}
	r := &Ring{mem: mem, data: mem[off : off+size]}
	r.tail = atomic.LoadUint64(r.word(offDataTail))
	r.head = r.tail
	return r, nil
}

func (r *Ring) word(off int) *uint64 { return (*uint64)(unsafe.Pointer(&r.mem[off])) }

// Stats returns the counts so far.
func (r *Ring) Stats() Stats { return r.stats }

// Unread returns how many bytes can be read now.
func (r *Ring) Unread() uint64 { return atomic.LoadUint64(r.word(offDataHead)) - r.tail }

// Seen returns how many of those bytes the last Look saw.
func (r *Ring) Seen() int { return int(r.head - r.tail) }

// Next copies the next record from the ring to rec, reusing rec.Data, and releases its space
// to the kernel. It returns false when the ring is empty.
func (r *Ring) Next(rec *Raw) bool {
	r.Look()
	var in Raw
	if !r.Peek(&in) {
		return false
	}
	rec.Type, rec.Misc = in.Type, in.Misc
	if cap(rec.Data) < len(in.Data) {
		rec.Data = make([]byte, 0, max(len(in.Data), 512))
	}
	rec.Data = append(rec.Data[:0], in.Data...)
	r.Pass(&in)
	return true
}

// Look reads the kernel's write position: Peek returns the records up to there.
func (r *Ring) Look() {
	// The kernel writes a record before it moves the head: kernel/events/
	// ring_buffer.c, perf_output_put_handle. Go's atomic load is an acquire.
	r.head = atomic.LoadUint64(r.word(offDataHead))
}

// Peek returns the next record in place, without moving behind it. It is valid until Pass.
// Peek returns false if there is none before the position that Look read.
func (r *Ring) Peek(rec *Raw) bool {
	avail := r.head - r.tail
	if avail == 0 {
		return false
	}
	if avail > uint64(len(r.data)) || avail < headerSize {
		r.skip(avail)
		return false
	}
	h := r.at(headerSize)
	size := uint64(binary.NativeEndian.Uint16(h[6:]))
	if size < headerSize || size > avail || size%8 != 0 {
		// Without a length there is no way to find the next record.
		r.skip(avail)
		return false
	}
	rec.Type = binary.NativeEndian.Uint32(h)
	rec.Misc = binary.NativeEndian.Uint16(h[4:])
	rec.Data = r.at(int(size))[headerSize:]
	r.next = r.tail + size
	return true
}

// Pass releases the space of the record that Peek returned last, and counts it.
func (r *Ring) Pass(rec *Raw) {
	r.stats.Records++
	switch {
	case rec.Type == TypeLost && len(rec.Data) >= 16:
		r.stats.Lost += binary.NativeEndian.Uint64(rec.Data[8:])
	case rec.Type == TypeLostSamples && len(rec.Data) >= 8:
		r.stats.Lost += binary.NativeEndian.Uint64(rec.Data)
	}
	r.release(r.next)
}

// at returns the next n bytes, copied only if they wrap around the end.
func (r *Ring) at(n int) []byte {
	i := int(r.tail & uint64(len(r.data)-1))
	if i+n <= len(r.data) {
		return r.data[i : i+n]
	}
	r.split = append(append(r.split[:0], r.data[i:]...), r.data[:n-(len(r.data)-i)]...)
	return r.split
}

// release returns the space up to tail to the kernel. The store is after the copies: Go's
// atomic store is a release.
func (r *Ring) release(tail uint64) {
	r.tail = tail
	atomic.StoreUint64(r.word(offDataTail), tail)
}

func (r *Ring) skip(bytes uint64) {
	r.stats.Corrupt++
	r.stats.CorruptBytes += bytes
	r.release(r.head)
}
