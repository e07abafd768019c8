package mapx

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx/internal/raw"
)

// PerfBufferOptions are the options of OpenPerfBuffer; the zero value wakes for
// every record.
type PerfBufferOptions struct {
	// PerCPU is the size of each CPU's buffer in bytes, rounded up to a power of
	// two of pages; 0 is 64 KiB.
	PerCPU int
	// WakeupBytes lets that many bytes gather in one CPU's buffer before the
	// reader is woken, WakeupEvents that many records; give one or none. What
	// stays below is read at the next wake-up, or after Poll.
	WakeupBytes, WakeupEvents int
	// Poll is how long to wait at most before looking into the buffers again; 0
	// relies on the kernel's wake-ups.
	Poll time.Duration
	// Order, if not 0, returns the records of all CPUs in the order of their
	// times: each is held back until it is that old, by when whatever happened
	// before it on another CPU is in that CPU's buffer. A millisecond is plenty
	// unless the machine's virtual CPUs are stopped for longer.
	Order time.Duration
	// Lost and LostSlot are those of RingOptions, for programs that count where
	// bpf_perf_event_output fails: exact on every kernel. Without it the loss is
	// exact from Linux 6.0 on (PERF_FORMAT_LOST); before, a loss is known only
	// once a later record of the same CPU fits.
	Lost     *ebpf.Map
	LostSlot uint32
}

// PerfBuffer reads what programs emit with bpf_perf_event_output into a perf
// event array: one buffer per online CPU. Records of one CPU come in order; those
// of several in no particular one unless PerfBufferOptions.Order asks for it.
//
// One goroutine reads at a time; Stats and Close may be called from any. Where
// nobody reads, the buffers fill up and the kernel drops new records.
//
// A record's Data may be a few bytes longer than what the program gave: the
// kernel pads to 8 bytes with its header of 4. Decode what you know to be there.
type PerfBuffer struct {
	perfBuffer
}

var _ StatsSource = (*PerfBuffer)(nil)

// OpenPerfBuffer opens a buffer on each online CPU and puts it into the array m
// at the CPU's index. CPUs that come online later are not heard. opts may be nil.
// m is borrowed until Close, which the caller calls; Close takes the buffers out
// again, so that the program's output fails at once.
//
// It takes CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8). Elsewhere than on Linux
// it returns *UnsupportedError.
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

// ReadInto waits for the next record and copies it into rec; see Source. Lost
// counts what the record's CPU lost before it.
func (p *PerfBuffer) ReadInto(ctx context.Context, rec *Record) error { return p.read(ctx, rec) }

// Stats returns the counts so far, with the loss as it is now.
func (p *PerfBuffer) Stats() (Stats, error) { return p.stats() }

// Close releases the buffers. A ReadInto that waits returns os.ErrClosed. It is
// idempotent, and does nothing on a nil PerfBuffer.
func (p *PerfBuffer) Close() error {
	if p == nil {
		return nil
	}
	return p.close()
}
