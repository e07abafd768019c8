package recording

import (
	"context"
	"io"
	"os"

	"github.com/borescope/borescope/mapx"
)

// failed is the Source of a stream that could not be recorded.
type failed struct{ err error }

func (f failed) ReadInto(context.Context, *mapx.Record) error { return f.err }

func (f failed) Stats() (mapx.Stats, error) { return mapx.Stats{}, f.err }

// uncounted counts what passes, for sources that don't.
type uncounted struct {
	mapx.Source
	stats mapx.Stats
}

func (u *uncounted) ReadInto(ctx context.Context, rec *mapx.Record) error {
	err := u.Source.ReadInto(ctx, rec)
	if err == nil {
		u.stats.Read++
		u.stats.Bytes += uint64(len(rec.Data))
		u.stats.Lost += rec.Lost
	}
	return err
}

func (u *uncounted) Stats() (mapx.Stats, error) { return u.stats, nil }

// fileWriter writes a named file in chunks.
type fileWriter struct {
	file *os.File
	out  *chunkWriter
	buf  []byte
}

func (w *fileWriter) Write(p []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	if w.out.closed {
		return 0, os.ErrClosed
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), flushBytes-len(w.buf))
		w.buf = append(w.buf, rest[:n]...)
		rest = rest[n:]
		if len(w.buf) == flushBytes {
			if err := w.flush(); err != nil {
				return len(p) - len(rest), err
			}
		}
	}
	return len(p), nil
}

func (w *fileWriter) flush() error {
	err := w.out.WriteMoved(w.buf)
	w.buf = w.buf[:0]
	return err
}

// Close writes the rest; a second call returns the same.
func (w *fileWriter) Close() error {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	if w.out.closed {
		return w.out.err
	}
	_ = w.flush() // the error stays in w.out
	w.out.closed = true
	if err := w.file.Close(); err != nil {
		return w.out.fail(err)
	}
	return w.out.err
}

// fileReader reads it back.
type fileReader struct {
	in     *chunkReader
	closer io.Closer
	rest   []byte
	err    error
}

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = r.in.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *fileReader) Close() error { return r.closer.Close() }
