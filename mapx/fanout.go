package mapx

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
)

// Fanout lets several readers share one source: each gets all records, at its
// own pace, with its own counts. Whoever falls behind by more than its buffer
// loses records, counted; it holds up neither the others nor the source.
//
// The source is drained by Run, in a goroutine of the caller's. Subscribe, Run
// and Close are safe for concurrent use with each other.
type Fanout struct {
	src Source

	mu      sync.Mutex // guards what follows
	readers []*Subscription
	err     error // the end of Run
	running bool
}

// NewFanout returns a Fanout of src, which is borrowed: nobody else may read it.
func NewFanout(src Source) *Fanout { return &Fanout{src: src} }

// Subscription is a Source with the records of a Fanout since Subscribe. One
// goroutine reads at a time; Stats and Close may be called from any.
type Subscription struct {
	hub  *Fanout
	wake chan struct{} // has room for one

	mu     sync.Mutex // guards what follows
	buf    []byte     // a ring
	queue  []queued   // what is in it, from first on
	first  int
	head   int // where the next one's bytes are
	used   int
	lost   uint64 // not yet told
	stats  Stats
	closed bool
	err    error // the source's end
}

// queued is a record in the ring. The bytes may go round the end.
type queued struct {
	size, cpu int
	lost      uint64
}

var _ StatsSource = (*Subscription)(nil)

// Subscribe adds a reader that may fall behind by size bytes of records, at
// least 4096. The caller closes it.
func (f *Fanout) Subscribe(size int) *Subscription {
	size = max(size, 4096)
	s := &Subscription{hub: f, wake: make(chan struct{}, 1), buf: make([]byte, size)}
	s.stats.Size = size
	f.mu.Lock()
	defer f.mu.Unlock()
	s.err = f.err
	f.readers = append(f.readers, s)
	return s
}

// Run drains the source until ctx ends or the source does, and returns that
// error, nil for io.EOF. Readers see the end once they have read what is in
// their buffers: io.EOF, os.ErrClosed, or the error itself. Run may be called
// once; a second call is an error.
func (f *Fanout) Run(ctx context.Context) error {
	f.mu.Lock()
	again := f.running || f.err != nil
	f.running = true
	f.mu.Unlock()
	if again {
		return errors.New("run: the source is drained already")
	}
	var rec Record
	for {
		err := f.src.ReadInto(ctx, &rec)
		f.mu.Lock()
		if err != nil {
			return f.end(ctx, err)
		}
		for _, s := range f.readers {
			s.push(&rec)
		}
		f.mu.Unlock()
	}
}

// end tells the readers; mu is held and released.
func (f *Fanout) end(ctx context.Context, err error) error {
	defer f.mu.Unlock()
	f.err, f.running = err, false
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		f.err = os.ErrClosed // it was Run's context, not the reader's
	}
	for _, s := range f.readers {
		s.mu.Lock()
		s.err = f.err
		s.mu.Unlock()
		s.signal()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Subscription) push(rec *Record) {
	s.mu.Lock()
	lost := s.lost + rec.Lost
	s.stats.Lost += rec.Lost
	if s.used+len(rec.Data) > len(s.buf) || len(s.queue)-s.first >= len(s.buf)/8 {
		s.lost = lost + 1
		s.stats.Lost++
		s.mu.Unlock()
		return
	}
	s.lost = 0
	tail := (s.head + s.used) % len(s.buf)
	n := copy(s.buf[tail:], rec.Data)
	copy(s.buf, rec.Data[n:])
	s.used += len(rec.Data)
	if s.first > 0 && len(s.queue) == cap(s.queue) {
		s.queue = s.queue[:copy(s.queue, s.queue[s.first:])]
		s.first = 0
	}
	s.queue = append(s.queue, queued{size: len(rec.Data), cpu: rec.CPU, lost: lost})
	s.mu.Unlock()
	s.signal()
}

// ReadInto returns the next record; see Source. Lost counts what the source
// lost and what this reader lost by being too slow.
func (s *Subscription) ReadInto(ctx context.Context, rec *Record) error {
	for {
		ok, err := s.pop(rec)
		if ok || err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			if ok, err := s.pop(rec); ok || err != nil {
				return err
			}
			return ctx.Err()
		}
	}
}

func (s *Subscription) pop(rec *Record) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, os.ErrClosed
	}
	if s.first == len(s.queue) {
		return false, s.err
	}
	q := s.queue[s.first]
	if s.first++; s.first == len(s.queue) {
		s.queue, s.first = s.queue[:0], 0
	}
	first := min(q.size, len(s.buf)-s.head)
	rec.Data = append(rec.Data[:0], s.buf[s.head:s.head+first]...)
	rec.Data = append(rec.Data, s.buf[:q.size-first]...)
	s.head = (s.head + q.size) % len(s.buf)
	s.used -= q.size
	rec.CPU, rec.Lost, rec.Remaining = q.cpu, q.lost, s.used
	if s.first < len(s.queue) && s.used == 0 {
		rec.Remaining = 1 // empty records are records
	}
	s.stats.Read++
	s.stats.Bytes += uint64(q.size)
	return true, nil
}

// Stats returns this reader's counts.
func (s *Subscription) Stats() (Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Fill = s.used
	return st, nil
}

// Close takes the reader out. A ReadInto that waits returns os.ErrClosed. It is
// idempotent, and does nothing on a nil Subscription.
func (s *Subscription) Close() error {
	if s == nil {
		return nil
	}
	s.hub.mu.Lock()
	s.hub.readers = slices.DeleteFunc(s.hub.readers, func(r *Subscription) bool { return r == s })
	s.hub.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
	return nil
}

func isClosed(err error) bool { return errors.Is(err, os.ErrClosed) }
