package perfdata

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/perfring"
)

// readIndex notes all records and sorts them by time: perf writes a buffer of
// one processor after the other.
func (p *File) readIndex() error {
	packed, err := p.indexRange(p.data.off, p.data.off+p.data.size)
	if err != nil {
		return err
	}
	if len(packed) > 0 {
		if p.expanded, err = expand(packed); err != nil {
			return fmt.Errorf("perf.data: compressed records: %w", err)
		}
		if packed, err = p.indexRange(perfExpanded, perfExpanded+uint64(len(p.expanded))); err != nil {
			return err
		}
		if len(packed) > 0 {
			return errors.New("perf.data: compressed records within compressed records")
		}
	}
	slices.SortStableFunc(p.index, func(a, b perfRecord) int { return cmp.Compare(a.time, b.time) })
	return nil
}

// expand decompresses the stream that goes on from record to record, and that
// nobody ends.
func expand(packed []byte) ([]byte, error) {
	r, err := decompress.NewReader(decompress.Zstd, packed, maxExpanded)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxExpanded+1))
	if len(b) > maxExpanded {
		return nil, decompress.ErrTooLarge
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b, err
}

// indexRange notes the records from one offset to another, and returns what the
// compressed ones hold, put together.
func (p *File) indexRange(from, end uint64) (packed []byte, err error) {
	var rec perfring.Record
	var buf []byte
	last := uint64(0)
	for off := from; off+8 <= end; {
		raw, next, err := p.raw(off, end, &buf)
		if err != nil {
			return nil, err
		}
		if next > end {
			break // the recording was cut short
		}
		switch {
		case raw.Type == perfCompressed:
			packed = append(packed, raw.Data...)
		case raw.Type == perfCompressed2:
			if len(raw.Data) >= 8 {
				n := min(binary.LittleEndian.Uint64(raw.Data), uint64(len(raw.Data)-8))
				packed = append(packed, raw.Data[8:][:n]...)
			}
		case raw.Type < perfUserType:
			t := last
			if p.decode(&raw, &rec) == nil {
				if t = rec.ID.Time; raw.Type == perfring.TypeSample {
					t = rec.Sample.Time
				}
			}
			if t == 0 {
				t = last // what perf made up itself: before all that follows
			}
			p.index = append(p.index, perfRecord{t, int64(off)})
		}
		off = next
	}
	return packed, nil
}

// readAt reads from the file, or from what was compressed in it.
func (p *File) readAt(b []byte, off uint64) error {
	if off < perfExpanded {
		_, err := p.r.ReadAt(b, int64(off))
		return err
	}
	if off -= perfExpanded; off > uint64(len(p.expanded)) || copy(b, p.expanded[off:]) < len(b) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// raw reads a record that lies before end, and returns the offset of the next.
func (p *File) raw(off, end uint64, buf *[]byte) (perfring.Raw, uint64, error) {
	var h [8]byte
	if err := p.readAt(h[:], off); err != nil {
		return perfring.Raw{}, 0, fmt.Errorf("perf.data: %w", err)
	}
	le := binary.LittleEndian
	raw := perfring.Raw{Type: le.Uint32(h[:]), Misc: le.Uint16(h[4:])}
	n := uint64(le.Uint16(h[6:]))
	if n < 8 {
		return raw, 0, fmt.Errorf("perf.data: record of %d bytes at %#x", n, off)
	}
	next := off + n
	if next > end {
		return raw, next, nil
	}
	*buf = slices.Grow((*buf)[:0], int(n))[:n-8]
	raw.Data = *buf
	if err := p.readAt(raw.Data, off+8); err != nil && n > 8 {
		return raw, 0, fmt.Errorf("perf.data: %w", err)
	}
	return raw, next, nil
}
