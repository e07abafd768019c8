package recording

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/layout"
)

// ReplayOptions are the options of a replay; the zero value replays as fast as
// the caller reads.
type ReplayOptions struct {
	// Speed paces the replay: 1 as it was recorded, 2 twice as fast; 0 and less
	// as fast as possible.
	Speed float64
	// Begin is the moment at which the recording's start is replayed, so that
	// several streams keep step; zero is the first read.
	Begin time.Time
}

// Replay is the Source of a recorded stream: the same records with the same CPU and Lost.
// Remaining is 0 if the live source was drained, else the number of bytes that are decoded and
// unread, at least 1.
//
// One goroutine reads at a time; Stats and Close may be called from any.
type Replay struct {
	pace   *pacer
	in     *chunkReader
	closer io.Closer // nil: the reader is the caller's
	start  time.Time
	done   chan struct{} // closed by Close

	mu      sync.Mutex // guards the fields below
	heads   columns
	head    recordHead // the next record's if pending, else that of the chunk's last one
	pending bool
	data    []byte
	buf     []byte
	at      time.Duration
	err     error // the end
	stats   mapx.Stats
	known   bool // stats are those that were recorded
	closed  bool
}

// columns are the fields of a chunk's records without their data: four columns of numbers,
// which are decoded as the records are read.
type columns struct {
	left                      uint64 // records
	times, cpus, losts, sizes parser
}

// recordHead is one record's.
type recordHead struct {
	at      time.Duration
	lost    uint64
	cpu     int
	size    int
	drained bool
}

// next returns the next record's fields. last is the time of the record before.
func (c *columns) next(last time.Duration) recordHead {
	c.left--
	size := c.sizes.uvarint()
	return recordHead{
		at:  last + time.Duration(c.times.varint()),
		cpu: int(int32(c.cpus.uvarint())) - 1, lost: c.losts.uvarint(),
		size: int(size >> 1), drained: size&1 != 0,
	}
}

var _ mapx.StatsSource = (*Replay)(nil)

// NewReplay replays the output of a recorder from NewRecorder, or the stream file of a
// recording. r is borrowed and read as the replay goes; opts may be nil.
func NewReplay(r io.Reader, opts *ReplayOptions) (*Replay, error) {
	return newReplay("stream", r, nil, newPacer(opts, nil))
}

func newReplay(name string, r io.Reader, closer io.Closer, pace *pacer) (*Replay, error) {
	var h streamHeader
	in, err := newChunkReader(name, "stream", r, &h)
	if err != nil {
		return nil, err
	}
	return &Replay{pace: pace, in: in, closer: closer, start: h.Start, done: make(chan struct{})}, nil
}

// ReadInto returns the next record; see Source. At the end of the recording it returns io.EOF.
// If the file was cut off, because the recorder was killed or the disk was full, it returns
// every record before the cut and then an error that wraps io.ErrUnexpectedEOF; damage wraps
// ErrCorrupt.
func (p *Replay) ReadInto(ctx context.Context, rec *mapx.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.pending && p.err == nil && !p.closed {
		if p.heads.left == 0 {
			p.err = p.fill()
			continue
		}
		p.head, p.pending = p.heads.next(p.head.at), true
	}
	if p.closed {
		return os.ErrClosed
	}
	if !p.pending {
		return p.err
	}
	if err := p.untilDue(ctx, p.head.at); err != nil {
		return err
	}
	h := &p.head
	rec.CPU, rec.Lost = h.cpu, h.lost
	rec.Data = append(rec.Data[:0], p.data[:h.size]...)
	p.at, p.data = h.at, p.data[h.size:]
	rec.Remaining = 0
	if !h.drained {
		rec.Remaining = max(len(p.data), 1)
	}
	p.pending = false
	if !p.known {
		p.stats.Read++
		p.stats.Bytes += uint64(len(rec.Data))
		p.stats.Lost += rec.Lost
	}
	return nil
}

// untilDue waits with mu released.
func (p *Replay) untilDue(ctx context.Context, at time.Duration) error {
	if p.pace == nil {
		return nil
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	return p.pace.wait(ctx, p.done, at)
}

// fill decodes the next chunk. Counts that were written down at the end of the
// recording become those of the replay.
func (p *Replay) fill() error {
	payload, err := p.in.contents(0)
	if err != nil {
		return err
	}
	switch kind, body := payload[0], payload[1:]; kind {
	case chunkStats:
		if err := json.Unmarshal(body, &p.stats); err != nil {
			return p.in.corrupt(err.Error())
		}
		p.known = true
		return nil
	case chunkRecords, chunkTransposed:
		return p.records(kind, body)
	default:
		return p.in.corrupt("unknown kind")
	}
}

var errBadChunk = errors.New("its columns don't fit")

func (p *Replay) records(kind byte, body []byte) error {
	q := parser{b: body}
	n := q.uvarint()
	if err := p.in.spend(0, n); err != nil {
		return err
	}
	c := columns{n, q.column(n), q.column(n), q.column(n), q.column(n)}
	if q.bad {
		return p.in.corrupt(errBadChunk.Error())
	}
	total, oneSize, sizes := 0, -1, c.sizes
	for i := range n {
		size := sizes.uvarint() >> 1
		if size > layout.MaxRecord {
			q.bad = true
			break
		}
		if i == 0 {
			oneSize = int(size)
		} else if oneSize != int(size) {
			oneSize = -1
		}
		total += int(size)
	}
	if q.bad || total != len(q.b) || kind == chunkTransposed && (oneSize < 0 || total == 0) {
		return p.in.corrupt(errBadChunk.Error())
	}
	p.heads, p.head, p.data = c, recordHead{}, q.b
	if kind == chunkTransposed {
		p.buf = restore(p.buf[:0], q.b, oneSize)
		p.data = p.buf
	}
	return nil
}

// Time returns the time at which the last record was read when it was recorded.
func (p *Replay) Time() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start.Add(p.at)
}

// Stats returns the counts of the records replayed so far and, once ReadInto has returned
// io.EOF, those that the live source had at the end.
func (p *Replay) Stats() (mapx.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats, nil
}

// Close ends the replay; a ReadInto that waits for its time returns os.ErrClosed. It may be
// called more than once, and does nothing on a nil Replay.
func (p *Replay) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	close(p.done)
	if p.closer != nil {
		return p.closer.Close()
	}
	return nil
}
