package mapx

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx/internal/raw"
)

// RingOptions are the options of OpenRing. The zero value is for a reader that counts no
// losses.
type RingOptions struct {
	// Lost is the map in which the program counts the records that it could not emit, because a
	// ring buffer itself counts none. It is a per-CPU array (or plain array) of uint64. The
	// program increments its element LostSlot whenever bpf_ringbuf_reserve or
	// bpf_ringbuf_output fails. Then the loss is exact: records read plus records lost are the
	// records that the program tried to emit. If nil, losses are not counted. The map is
	// borrowed and must stay open until Close.
	Lost *ebpf.Map
	// LostSlot is the index in Lost.
	LostSlot uint32
	// Poll is the longest wait before the ring is checked again. It is needed only if the
	// program emits with BPF_RB_NO_WAKEUP, to batch wake-ups by time; 0 relies on the kernel's
	// wake-ups.
	Poll time.Duration
}

// Stats are the counts of a stream since it was opened.
type Stats struct {
	// Read is the number of records that were returned, and Bytes their size.
	Read, Bytes uint64
	// Lost is the number of records that were lost, on all CPUs. For a ring it is the whole
	// count of the program's slot, which may have begun before the reader; 0 if
	// RingOptions.Lost was nil.
	Lost uint64
	// LostByCPU is Lost by possible CPU, nil if it isn't known by CPU.
	LostByCPU []uint64
	// Discarded is the number of records that the program reserved and discarded.
	Discarded uint64
	// Corrupt is the number of times that the buffer was malformed and was skipped to its
	// end; the number of records lost with it is unknown.
	Corrupt uint64
	// Waits is the number of reads that had to wait for data.
	Waits uint64
	// Fill is the number of bytes that are unread now, of Size.
	Fill, Size int
}

// Ring reads a BPF ring buffer (Linux 5.8). Records of all CPUs come in the order in which the
// program reserved them.
//
// One goroutine reads at a time; Stats and Close may be called from any. Without a reader the
// ring fills up and the program's reserve fails: the kernel never waits for a reader, and never
// overwrites unread records.
//
// ReadInto copies, allocates nothing once rec.Data is large enough, and checks ctx only when it
// has to wait. Drain passes records in place.
type Ring struct {
	ring
}

var _ StatsSource = (*Ring)(nil)

// OpenRing opens a reader on a ring-buffer map. There should be one reader per map: readers
// take records from each other. m is borrowed for the call only. The caller must close the
// Ring.
//
// The errors are those of mmap, and *UnsupportedError on systems other than Linux.
func OpenRing(m *ebpf.Map, opts *RingOptions) (*Ring, error) {
	if opts == nil {
		opts = &RingOptions{}
	}
	if m == nil {
		return nil, fmt.Errorf("open ring: %w", raw.ErrNoMap)
	}
	r := new(Ring)
	if err := r.open(m, opts); err != nil {
		return nil, err
	}
	return r, nil
}

// ReadInto waits for the next record and copies it into rec; see Source. rec.CPU is -1.
// rec.Lost is updated about once per half ring.
func (r *Ring) ReadInto(ctx context.Context, rec *Record) error { return r.read(ctx, rec) }

// Drain calls fn with the records that are in the ring now, at most limit of them (0: no
// limit), without copying. rec.Data is valid during the call, and rec must not be kept; fn
// must not call methods of r. Drain does not wait. It returns the number of calls of fn;
// drained reports whether the ring was empty at the end. An error of fn ends Drain, which
// returns it; that record is consumed. After Close the error is os.ErrClosed.
//
// The space is given back to the program when Drain returns, and from time to time before:
// during a slow fn the ring looks fuller than it is.
func (r *Ring) Drain(limit int, fn func(rec *Record) error) (n int, drained bool, err error) {
	return r.drain(limit, fn)
}

// Wait returns when there is a record to read, or ctx has ended.
func (r *Ring) Wait(ctx context.Context) error { return r.wait(ctx) }

// Stats returns the counts so far, with the current loss.
func (r *Ring) Stats() (Stats, error) { return r.stats() }

// Close releases the ring. A ReadInto that waits returns os.ErrClosed. It is
// idempotent, and does nothing on a nil Ring.
func (r *Ring) Close() error {
	if r == nil {
		return nil
	}
	return r.close()
}
