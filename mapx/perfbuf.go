package mapx

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx/internal/raw"
)

// PerfBufferOptions are the options of OpenPerfBuffer. The zero value wakes the reader for
// every record.
type PerfBufferOptions struct {
	// PerCPU is the size of each CPU's buffer in bytes, rounded up to a power of
	// two of pages; 0 is 64 KiB.
	PerCPU int
	// WakeupBytes wakes the reader only when that many bytes are in one CPU's buffer,
	// WakeupEvents when that many records are; set at most one. Records below that are read
	// at the next wake-up, or after Poll.
	WakeupBytes, WakeupEvents int
	// Poll is the longest wait before the buffers are checked again; 0 relies on the
	// kernel's wake-ups.
	Poll time.Duration
	// Order, if not 0, returns the records of all CPUs in the order of their times. Each
	// record is held back until it is that old; by then all earlier records of other CPUs
	// are in their buffers. A millisecond is enough unless the machine's virtual CPUs are
	// stopped for longer.
	Order time.Duration
	// Lost and LostSlot are as in RingOptions, for programs that count failures of
	// bpf_perf_event_output: then the loss is exact on every kernel. Without them it is
	// exact from Linux 6.0 on (PERF_FORMAT_LOST); before, a loss is known only once a later
	// record of the same CPU fits.
	Lost     *ebpf.Map
	LostSlot uint32
}

// PerfBuffer reads the records that programs emit with bpf_perf_event_output into a perf
// event array: one buffer per online CPU. Records of one CPU come in order; those of
// several CPUs do only with PerfBufferOptions.Order.
//
// One goroutine reads at a time; Stats and Close may be called from any. Without a reader
// the buffers fill up and the kernel drops new records.
//
// A record's Data may be a few bytes longer than the data that the program gave: the kernel
// pads it, with its header of 4, to 8 bytes. Decode only the known length.
type PerfBuffer struct {
	perfBuffer
}

var _ StatsSource = (*PerfBuffer)(nil)

// OpenPerfBuffer opens a buffer on each online CPU and puts it into the array m at the
// CPU's index. It does not read CPUs that come online later. opts may be nil. The caller
// must call Close, and m is borrowed until then. Close takes the buffers out again, so that
// the program's output fails at once.
//
// It needs CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8). On systems other than Linux it
// returns *UnsupportedError.
func OpenPerfBuffer(m *ebpf.Map, opts *PerfBufferOptions) (*PerfBuffer, error) {
	if opts == nil {
		opts = &PerfBufferOptions{}
	}
	if m == nil {
		return nil, fmt.Errorf("open perf buffer: %w", raw.ErrNoMap)
	}
	p := new(PerfBuffer)
	if err := p.open(m, opts); err != nil {
		return nil, err
	}
	return p, nil
}

// ReadInto waits for the next record and copies it into rec; see Source. Lost is the number of
// records that the record's CPU lost before it.
func (p *PerfBuffer) ReadInto(ctx context.Context, rec *Record) error { return p.read(ctx, rec) }

// Stats returns the counts so far, with the current loss.
func (p *PerfBuffer) Stats() (Stats, error) { return p.stats() }

// Close releases the buffers. A ReadInto that waits returns os.ErrClosed. It is
// idempotent, and does nothing on a nil PerfBuffer.
func (p *PerfBuffer) Close() error {
	if p == nil {
		return nil
	}
	return p.close()
}
