package action

import (
	"context"
	"errors"
	"fmt"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir/bpf"
)

var (
	errNoProgram = errors.New("no program")
	errNoReader  = errors.New("read: no reader")
)

// EventReader reads a stream as values of type T: the events of an Events, the lines of a Log
// (strings) or Packets. One goroutine reads at a time; Close and Stats may be called from
// any.
type EventReader[T any] struct {
	in     bpf.Stream
	events *mapx.Events[T]              // nil where decode is set
	decode func(*mapx.Record, *T) error // what a record holds that is no T
	rec    mapx.Record                  // for decode
}

// Open opens the stream. The caller closes the reader. A stream has one reader at a time: two
// would take events away from each other.
func (ev *Events[T]) Open(s bpf.Reader) (*EventReader[T], error) {
	in, err := bpf.OpenStream(s, ev.m, 0)
	if err != nil {
		return nil, fmt.Errorf("events %s: %w", ev.m.Name, err)
	}
	events, err := mapx.NewEvents[T](in)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("events %s: %w", ev.m.Name, err), in.Close())
	}
	return &EventReader[T]{in: in, events: events}, nil
}

// Read waits for the next event and stores it in e. It returns how many events were lost
// before it on its CPU, as far as that is known (Stats has the total). Events and Packets are
// read without allocating.
func (r *EventReader[T]) Read(ctx context.Context, e *T) (lost uint64, err error) {
	if r == nil {
		return 0, errNoReader
	}
	if r.decode != nil {
		if err := r.in.ReadInto(ctx, &r.rec); err != nil {
			return 0, err
		}
		return r.rec.Lost, r.decode(&r.rec, e)
	}
	if err := r.events.Next(ctx, e); err != nil {
		return 0, err
	}
	return r.events.Record().Lost, nil
}

// Source returns the stream of undecoded events, for recording.
func (r *EventReader[T]) Source() mapx.Source { return r.in }

// Stats returns the counts of the stream.
func (r *EventReader[T]) Stats() (mapx.Stats, error) {
	if r == nil {
		return mapx.Stats{}, errNoReader
	}
	return r.in.Stats()
}

// Close ends the stream. A Read that is waiting returns os.ErrClosed. Close may be called
// again, and on nil.
func (r *EventReader[T]) Close() error {
	if r == nil {
		return nil
	}
	return r.in.Close()
}
