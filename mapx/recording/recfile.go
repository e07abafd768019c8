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

// uncounted counts the records of a source that doesn't.
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
	err := w.out.write(w.buf)
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

// File is a named file of a recording. It is used by one goroutine at a time.
type File struct {
	in     *chunkReader
	closer io.Closer
	stored int64
	rest   []byte
	err    error
}

// Read implements io.Reader. A file that was cut off reads up to the cut and then returns
// an error that wraps io.ErrUnexpectedEOF.
func (f *File) Read(p []byte) (int, error) {
	for len(f.rest) == 0 && f.err == nil {
		f.rest, f.err = f.in.next()
	}
	if len(f.rest) == 0 {
		return 0, f.err
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Stored returns the compressed size of the file in the recording, in bytes: a measure to
// bound its decompressed size by, if the recording is not trusted.
func (f *File) Stored() int64 { return f.stored }

// Close closes the file.
func (f *File) Close() error { return f.closer.Close() }
