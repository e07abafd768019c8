package action

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir/bpf"
)

var (
	errNoProgram = errors.New("no program")
	errNoReader  = errors.New("read: no reader")
)

// EventReader reads events of type T. One goroutine reads at a time; Close and
// Stats may be called from any.
type EventReader[T any] struct {
	in  bpf.Stream
	rec mapx.Record
}

// Open opens the stream. The caller closes the reader. There is one at a time: two
// would take events away from each other.
func (ev *Events[T]) Open(s bpf.Handles) (*EventReader[T], error) {
	in, err := bpf.OpenStream(s, ev.m, 0)
	if err != nil {
		return nil, fmt.Errorf("events %s: %w", ev.m.Name, err)
	}
	return &EventReader[T]{in: in}, nil
}

// Read waits for the next event and stores it in e. It returns how many events
// were lost before it, as far as is known, and allocates nothing.
func (r *EventReader[T]) Read(ctx context.Context, e *T) (lost uint64, err error) {
	if r == nil {
		return 0, errNoReader
	}
	if err := r.in.ReadInto(ctx, &r.rec); err != nil {
		return 0, err
	}
	// The layout is Go's own and T has no pointers: TypeFor saw to that.
	dst := unsafe.Slice((*byte)(unsafe.Pointer(e)), unsafe.Sizeof(*e))
	if len(r.rec.Data) < len(dst) {
		return r.rec.Lost, fmt.Errorf("event of %d bytes: %w", len(r.rec.Data), io.ErrUnexpectedEOF)
	}
	copy(dst, r.rec.Data)
	return r.rec.Lost, nil
}

// Source is the stream of undecoded events, for recording.
func (r *EventReader[T]) Source() mapx.Source { return r.in }

// Stats are the counts of the stream.
func (r *EventReader[T]) Stats() (mapx.Stats, error) {
	if r == nil {
		return mapx.Stats{}, errNoReader
	}
	return r.in.Stats()
}

// Close ends the stream; a Read that waits returns os.ErrClosed. It may be called
// again, and on nil.
func (r *EventReader[T]) Close() error {
	if r == nil {
		return nil
	}
	return r.in.Close()
}
