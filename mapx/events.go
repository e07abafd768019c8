package mapx

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"reflect"
	"unsafe"

	"github.com/borescope/borescope/mapx/internal/layout"
)

// Events decodes the records of a Source as values of T, which is plain data as for Map; a
// string is all bytes of a record. It is for one goroutine at a time, like its source,
// which is borrowed.
type Events[T any] struct {
	src   Source
	codec layout.Codec
	rec   Record
}

// NewEvents returns a decoder of src. It fails if T is not plain data.
func NewEvents[T any](src Source) (*Events[T], error) {
	l, err := layout.Of(reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return &Events[T]{src: src, codec: layout.Codec{Layout: l, Size: l.Size, Direct: true}}, nil
}

// Next waits for the next record and decodes it into v, without allocating. A record may be
// longer than T (a perf buffer pads, a program may append a string): see Record. For a
// shorter one the error wraps io.ErrUnexpectedEOF; the record after it can be read. Other
// errors are those of Source.
func (e *Events[T]) Next(ctx context.Context, v *T) error {
	if err := e.src.ReadInto(ctx, &e.rec); err != nil {
		return err
	}
	if len(e.rec.Data) < e.codec.Size {
		return fmt.Errorf("event of %d bytes: %v has %d: %w", len(e.rec.Data), reflect.TypeFor[T](),
			e.codec.Size, io.ErrUnexpectedEOF)
	}
	e.codec.Decode(unsafe.Pointer(v), e.rec.Data)
	return nil
}

// Record returns the record that Next decoded last: its CPU, the number of records lost
// before it, and its bytes. It is valid until the next Next.
func (e *Events[T]) Record() *Record { return &e.rec }

// All iterates until the end of the recording, of ctx, or Close of the source, none of
// which is an error. The function that it returns reports any other error that ended the
// loop. The value is valid until the next iteration. Single use.
func (e *Events[T]) All(ctx context.Context) (iter.Seq[*T], func() error) {
	var err error
	seq := func(yield func(*T) bool) {
		v := new(T)
		for {
			if err = e.Next(ctx, v); err != nil {
				break
			}
			if !yield(v) {
				return
			}
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil && errors.Is(err, ctx.Err()) ||
			errors.Is(err, os.ErrClosed) {
			err = nil
		}
	}
	return seq, func() error { return err }
}

// Sorted is a Source that returns the records of another one in the order of their times, as
// far as a window of that many records allows: each record waits until the window is full of
// others or the source is drained, and the oldest goes first. It allocates only until the
// window is full once.
type Sorted struct {
	src    Source
	time   func(*Record) uint64
	window int
	heap   recordHeap
	free   []*Record
	seq    uint64
	newest uint64
	late   uint64
	err    error
	flush  bool
}

var _ Source = (*Sorted)(nil)

// Sort returns the records of src in the order of time, with a window of at least 1 record.
// Records with the same time stay in their order. It is for one goroutine at a time, like
// src, which is borrowed.
func Sort(src Source, window int, time func(*Record) uint64) *Sorted {
	return &Sorted{src: src, time: time, window: max(window, 1)}
}

// ReadInto returns the next record in order; see Source. Remaining is that of the record when
// it was read from the source, or the number of records in the window if that is larger.
func (s *Sorted) ReadInto(ctx context.Context, rec *Record) error {
	for s.err == nil && !s.flush && len(s.heap) < s.window {
		r := &Record{}
		if n := len(s.free); n > 0 {
			r, s.free = s.free[n-1], s.free[:n-1]
		}
		if err := s.src.ReadInto(ctx, r); err != nil {
			s.free = append(s.free, r)
			if len(s.heap) == 0 {
				return err
			}
			s.err = err
			break
		}
		s.seq++
		heap.Push(&s.heap, timed{rec: r, time: s.time(r), seq: s.seq})
		s.flush = r.Remaining == 0
	}
	return s.pop(rec)
}

func (s *Sorted) pop(rec *Record) error {
	if len(s.heap) == 0 {
		err := s.err
		s.err, s.flush = nil, false // perhaps only a context ended: read again
		return err
	}
	t := heap.Pop(&s.heap).(timed)
	if t.time < s.newest {
		s.late++
	}
	s.newest = max(s.newest, t.time)
	data := append(rec.Data[:0], t.rec.Data...)
	*rec = *t.rec
	rec.Data = data
	if n := len(s.heap); n > 0 {
		rec.Remaining = max(rec.Remaining, n)
	} else if s.flush {
		rec.Remaining, s.flush = 0, false
	}
	s.free = append(s.free, t.rec)
	return nil
}

// Late returns the number of records that were returned after a younger one, because the window
// was too small for them.
func (s *Sorted) Late() uint64 { return s.late }

type timed struct {
	rec       *Record
	time, seq uint64
}

// recordHeap is a heap with the oldest record on top.
type recordHeap []timed

func (h recordHeap) Len() int { return len(h) }

func (h recordHeap) Less(i, j int) bool {
	if h[i].time != h[j].time {
		return h[i].time < h[j].time
	}
	return h[i].seq < h[j].seq
}

func (h recordHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *recordHeap) Push(x any) { *h = append(*h, x.(timed)) }

func (h *recordHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
