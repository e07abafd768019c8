package perfdata

import (
	"bufio"
	"bytes"
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
	packed, err := p.indexRange(io.NewSectionReader(p.r, int64(p.data.off), int64(p.data.size)),
		place(p.data.off)<<placeSize)
	if err != nil {
		return err
	}
	if len(packed) > 0 {
		if p.expanded, err = expand(packed); err != nil {
			return fmt.Errorf("perf.data: compressed records: %w", err)
		}
		if packed, err = p.indexRange(bytes.NewReader(p.expanded), placeExpanded); err != nil {
			return err
		}
		if len(packed) > 0 {
			return errors.New("perf.data: compressed records within compressed records")
		}
	}
	slices.SortStableFunc(p.index, func(a, b perfRecord) int { return cmp.Compare(a.time, b.time) })
	return nil
}

// expand decompresses the stream that goes on from record to record and has no end
// mark.
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

// perfRecord is where a record is, and when it happened.
type perfRecord struct {
	time uint64
	at   place
}

// place is where a record is: its offset, its length in the lowest 16 bits, and whether it
// is among those that were compressed in the highest.
type place uint64

const (
	placeSize     = 16
	placeExpanded = 1 << 63
	// maxOffset is what a place can hold.
	maxOffset = 1 << (63 - placeSize)
)

func (a place) expanded() bool { return a&placeExpanded != 0 }

func (a place) offset() int64 { return int64(a &^ placeExpanded >> placeSize) }

func (a place) size() int { return int(uint16(a)) }

// indexRange notes the records that r has, the first of which is at from, and returns what
// the compressed ones hold, put together.
func (p *File) indexRange(r io.Reader, from place) (packed []byte, err error) {
	const most = 1 << 16 // a record's length is 16 bits
	br := bufio.NewReaderSize(r, most)
	var rec perfring.Record
	for at := from; ; {
		h, err := br.Peek(8)
		if err == io.EOF {
			return packed, nil
		}
		if err != nil {
			return nil, fmt.Errorf("perf.data: %w", err)
		}
		n := binary.LittleEndian.Uint16(h[6:])
		if n < 8 {
			return nil, fmt.Errorf("perf.data: record of %d bytes at %#x", n, at.offset())
		}
		b, err := br.Peek(int(n))
		if err == io.EOF {
			return packed, nil // the recording was cut short
		}
		if err != nil {
			return nil, fmt.Errorf("perf.data: %w", err)
		}
		raw := rawOf(b)
		switch {
		case p.piped && (raw.Type == perfHeaderAttr || raw.Type == perfHeaderFeature):
			if err := p.readPiped(&raw); err != nil {
				return nil, err
			}
		case raw.Type == perfCompressed:
			packed = append(packed, raw.Data...)
		case raw.Type == perfCompressed2:
			if len(raw.Data) >= 8 {
				n := min(binary.LittleEndian.Uint64(raw.Data), uint64(len(raw.Data)-8))
				packed = append(packed, raw.Data[8:][:n]...)
			}
		case raw.Type < perfUserType:
			t := uint64(0) // what perf made up itself: before all that follows
			if p.decode(&raw, &rec) == nil {
				if t = rec.ID.Time; raw.Type == perfring.TypeSample {
					t = rec.Sample.Time
				}
			}
			p.index = append(p.index, perfRecord{t, at | place(n)})
		}
		behind := uint64(0) // data that belongs to the record
		switch {
		case raw.Type == perfTracingData && len(raw.Data) >= 4:
			behind = uint64(binary.LittleEndian.Uint32(raw.Data))
		case raw.Type == perfAuxtrace && len(raw.Data) >= 8:
			behind = binary.LittleEndian.Uint64(raw.Data)
		}
		if behind > p.data.size {
			return packed, nil // the recording was cut short
		}
		br.Discard(int(n)) // it is in the buffer
		if _, err := br.Discard(int(behind)); err != nil && err != io.EOF {
			return nil, fmt.Errorf("perf.data: %w", err)
		}
		at += place(uint64(n)+behind) << placeSize
	}
}

// rawOf is a record in b.
func rawOf(b []byte) perfring.Raw {
	le := binary.LittleEndian
	return perfring.Raw{Type: le.Uint32(b), Misc: le.Uint16(b[4:]), Data: b[8:]}
}

// raw reads a record, into memory that the next one is read into.
func (p *File) raw(at place) (perfring.Raw, error) {
	if at.expanded() {
		return rawOf(p.expanded[at.offset():][:at.size()]), nil
	}
	p.buf = slices.Grow(p.buf[:0], at.size())[:at.size()]
	if n, err := p.r.ReadAt(p.buf, at.offset()); n < len(p.buf) {
		return perfring.Raw{}, err
	}
	if got := binary.LittleEndian.Uint16(p.buf[6:]); int(got) != at.size() {
		return perfring.Raw{}, fmt.Errorf("the file has changed: %d bytes, not %d", got, at.size())
	}
	return rawOf(p.buf), nil
}
