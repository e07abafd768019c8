package recording

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/compress"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/internal/layout"
)

const (
	// flushBytes and flushAfter are the size and the age at which a chunk of records is
	// written.
	flushBytes = 256 << 10
	flushAfter = time.Second
)

// The first byte of a chunk of a stream.
const (
	chunkRecords    = 0 // data one record after the other
	chunkTransposed = 1 // records of one size: first bytes first
	chunkStats      = 2 // JSON of Stats
)

// streamHeader is a stream's line of JSON.
type streamHeader struct {
	// Start is the moment that times count from.
	Start time.Time `json:"start"`
}

// StreamRecorder is a Source that passes on another one's records and records them. Like
// its source it is for one goroutine at a time, except for Close and Flush.
type StreamRecorder struct {
	src   mapx.Source
	start time.Time
	file  *os.File // nil: the writer is the caller's

	mu      sync.Mutex // guards the fields below
	out     *chunkWriter
	flushed time.Duration
	last    time.Duration
	n       int
	oneSize int // of all records so far in the chunk, -1 if they differ
	times   []byte
	cpus    []byte
	losts   []byte
	sizes   []byte
	data    []byte
	payload []byte
	stats   mapx.Stats
	known   bool // stats are the source's
}

var _ mapx.StatsSource = (*StreamRecorder)(nil)

// NewRecorder returns a Source that passes on the records of src and writes them to w, in
// the format of a recording's stream (FORMAT.md). The caller must call Close, and then
// close w and src, which are borrowed.
func NewRecorder(src mapx.Source, w io.Writer) (*StreamRecorder, error) {
	enc, err := compress.NewEncoder()
	if err != nil {
		return nil, err
	}
	return newStreamRecorder("stream", src, w, enc, time.Now())
}

func newStreamRecorder(name string, src mapx.Source, w io.Writer, enc *compress.Encoder,
	start time.Time,
) (*StreamRecorder, error) {
	out, err := newChunkWriter(name, "stream", w, enc, streamHeader{Start: start})
	if err != nil {
		return nil, err
	}
	return &StreamRecorder{src: src, start: start, out: out}, nil
}

// ReadInto reads a record from the source and records it. Records are written in chunks of
// 256 KiB, at the latest with the first record a second later. If writing fails, with a
// full disk for instance, this call and all later ones return that error.
func (s *StreamRecorder) ReadInto(ctx context.Context, rec *mapx.Record) error {
	if err := s.src.ReadInto(ctx, rec); err != nil {
		return err
	}
	now := time.Since(s.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(now, rec)
}

// Stats returns the source's counts if it has any, else those of the records that passed.
func (s *StreamRecorder) Stats() (mapx.Stats, error) {
	if src, ok := s.src.(mapx.StatsSource); ok {
		st, err := src.Stats()
		if err != nil {
			return st, err
		}
		s.mu.Lock()
		s.stats, s.known = st, true
		s.mu.Unlock()
		return st, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats, nil
}

func (s *StreamRecorder) add(now time.Duration, rec *mapx.Record) error {
	if s.out.closed {
		return os.ErrClosed
	}
	if len(rec.Data) > layout.MaxRecord {
		return s.out.fail(fmt.Errorf("a record of %d bytes", len(rec.Data)))
	}
	if !s.known {
		s.stats.Read++
		s.stats.Bytes += uint64(len(rec.Data))
		s.stats.Lost += rec.Lost
	}
	if len(s.data)+len(rec.Data) > layout.MaxRecord {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if s.n == 0 {
		s.oneSize, s.last = len(rec.Data), 0 // a chunk's first time is absolute
	} else if s.oneSize != len(rec.Data) {
		s.oneSize = -1
	}
	s.times = binary.AppendVarint(s.times, int64(now-s.last))
	s.cpus = binary.AppendUvarint(s.cpus, uint64(rec.CPU+1))
	s.losts = binary.AppendUvarint(s.losts, rec.Lost)
	size := uint64(len(rec.Data)) << 1
	if rec.Remaining == 0 {
		size |= 1
	}
	s.sizes = binary.AppendUvarint(s.sizes, size)
	s.data = append(s.data, rec.Data...)
	s.last = now
	s.n++
	if len(s.data)+len(s.times) >= flushBytes || now-s.flushed >= flushAfter {
		s.flushed = now
		return s.flush()
	}
	return s.out.err
}

// flush writes the records that are waiting as one chunk.
func (s *StreamRecorder) flush() error {
	if s.n == 0 {
		return s.out.err
	}
	p := append(s.payload[:0], chunkRecords)
	p = binary.AppendUvarint(p, uint64(s.n))
	p = append(p, s.times...)
	p = append(p, s.cpus...)
	p = append(p, s.losts...)
	p = append(p, s.sizes...)
	if s.oneSize > 1 && s.n > 1 {
		p[0] = chunkTransposed
		p = appendTransposed(p, s.data, s.oneSize)
	} else {
		p = append(p, s.data...)
	}
	s.payload, s.n = p, 0
	s.times, s.cpus, s.losts, s.sizes, s.data = s.times[:0], s.cpus[:0], s.losts[:0], s.sizes[:0],
		s.data[:0]
	return s.out.write(p)
}

// Flush writes the records that have been read so far.
func (s *StreamRecorder) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

// Close writes the rest and the counts. It does not close the source. It returns the first
// error of all writing, and may be called more than once.
func (s *StreamRecorder) Close() error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if !known {
		_, _ = s.Stats() // the source may be closed: then the records that passed count
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out.closed {
		return s.out.err
	}
	_ = s.flush() // the error stays in s.out
	if b, err := json.Marshal(s.stats); err == nil {
		_ = s.out.write(append([]byte{chunkStats}, b...))
	}
	s.out.closed = true
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			return s.out.fail(err)
		}
	}
	return s.out.err
}

// appendTransposed appends the first bytes of all records, then all second bytes, and so on:
// bytes that change little are then neighbours, and compress.
func appendTransposed(dst, data []byte, size int) []byte {
	for i := range size {
		for at := i; at < len(data); at += size {
			dst = append(dst, data[at])
		}
	}
	return dst
}

// restore is the inverse of appendTransposed.
func restore(dst, data []byte, size int) []byte {
	n := len(data) / size
	for i := range n {
		for at := i; at < len(data); at += n {
			dst = append(dst, data[at])
		}
	}
	return dst
}
