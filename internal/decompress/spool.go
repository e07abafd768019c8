package decompress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bounds limit what Spool reads. Zeros cost no more than the time to decompress them.
type Bounds struct {
	// Size is the most bytes of all data.
	Size int64
	// Content is the most bytes of the blocks that are not all zeros.
	Content int64
	// Memory is how much of the content is held in memory. If there is more, all of it is
	// written to a temporary file, which has no name and ends with the Spooled.
	Memory int64
	// Check is called with the first bytes, up to a block; its error ends the reading. It may be
	// nil.
	Check func(head []byte) error
}

// Spooled is data that was decompressed. It implements io.ReaderAt, and is safe for concurrent
// use, except Close.
type Spooled struct {
	blocks  [][]byte // nil for zeros
	file    *os.File // has the blocks instead, with holes for zeros; may be nil
	size    int64
	content int64
}

// spoolBlock is the size of the blocks of a Spooled, in bytes.
const spoolBlock = 64 << 10

var zeroBlock [spoolBlock]byte

// Spool reads r to its end. It returns ErrTooLarge, wrapped, if there is more than the bounds
// allow. The caller must close the result.
func Spool(r io.Reader, b Bounds) (*Spooled, error) {
	s := &Spooled{}
	if err := s.fill(r, &b); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Spooled) fill(r io.Reader, b *Bounds) error {
	buf := make([]byte, spoolBlock)
	for {
		n, err := io.ReadFull(r, buf)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		end := err != nil
		if s.size == 0 && b.Check != nil {
			if err := b.Check(buf[:n]); err != nil {
				return err
			}
		}
		if err := s.add(buf[:n], b); err != nil {
			return err
		}
		if end {
			return s.finish(r)
		}
	}
}

// finish sets the size of the file. ReadFull returns the same error for a source that ended and
// for one that was cut off, so the source is asked again.
func (s *Spooled) finish(r io.Reader) error {
	if _, err := r.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return err
	}
	if s.file == nil {
		return nil
	}
	return s.file.Truncate(s.size)
}

// add appends a block, which only the last one may not fill.
func (s *Spooled) add(block []byte, b *Bounds) error {
	if len(block) == 0 {
		return nil
	}
	at := s.size
	if s.size += int64(len(block)); s.size > b.Size {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.Size)
	}
	zero := bytes.Equal(block, zeroBlock[:len(block)])
	if !zero {
		if s.content += int64(len(block)); s.content > b.Content {
			return fmt.Errorf("%w: more than %d bytes that are not zeros", ErrTooLarge, b.Content)
		}
	}
	if s.file == nil && s.content > b.Memory {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.file != nil {
		if zero {
			return nil
		}
		_, err := s.file.WriteAt(block, at)
		return err
	}
	var kept []byte
	if !zero {
		kept = bytes.Clone(block)
	}
	s.blocks = append(s.blocks, kept)
	return nil
}

// spill moves the blocks to a temporary file.
func (s *Spooled) spill() error {
	f, err := os.CreateTemp("", "borescope-*")
	if err != nil {
		return err
	}
	s.file = f
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	for i, block := range s.blocks {
		if block == nil {
			continue
		}
		if _, err := f.WriteAt(block, int64(i)*spoolBlock); err != nil {
			return err
		}
	}
	s.blocks = nil
	return nil
}

// Size returns the number of bytes.
func (s *Spooled) Size() int64 { return s.size }

// Stored returns how many bytes of memory or storage the data occupies: less than its size if
// it has blocks of zeros.
func (s *Spooled) Stored() int64 { return s.content }

// ReadAt implements io.ReaderAt.
func (s *Spooled) ReadAt(p []byte, off int64) (n int, err error) {
	if s.file != nil {
		return s.file.ReadAt(p, off)
	}
	for n < len(p) {
		at := off + int64(n)
		if at < 0 || at >= s.size {
			return n, io.EOF
		}
		block, from := s.blocks[at/spoolBlock], at%spoolBlock
		part := p[n:][:min(int64(len(p)-n), spoolBlock-from, s.size-at)]
		if block == nil {
			clear(part)
		} else {
			copy(part, block[from:])
		}
		n += len(part)
	}
	return n, nil
}

// Close removes the data. It may be called more than once.
func (s *Spooled) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.size = nil, 0
	return f.Close()
}
