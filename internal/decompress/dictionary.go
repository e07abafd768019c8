package decompress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
)

// A stream states how far back in its output it may refer, up to 4 GiB, and decoders allocate
// that much memory before they read anything. But no distance reaches further back than the
// output is long. So the readers here are given the smaller of the two: a false statement
// costs nothing, and no valid file is refused. Valid files state 8 or 64 MiB because of their
// compression level alone.

var errXZ = errors.New("xz: malformed container")

// peeker reads small pieces of data at rising places, each from one read of its source with
// those that follow it.
type peeker struct {
	r    io.ReaderAt
	size int64
	at   int64
	b    []byte
	buf  [1 << 10]byte // an xz block's header is not longer
}

// peek returns n bytes at an offset, fewer where the data ends. They are valid until the next
// call. n may not exceed the buffer.
func (p *peeker) peek(off int64, n int) ([]byte, error) {
	if n = int(min(int64(n), p.size-off)); n <= 0 {
		return nil, nil
	}
	if i := off - p.at; i < 0 || i+int64(n) > int64(len(p.b)) {
		read, err := p.r.ReadAt(p.buf[:min(int64(len(p.buf)), p.size-off)], off)
		if read < n {
			return nil, err
		}
		p.at, p.b = off, p.buf[:read]
	}
	return p.b[off-p.at:][:n], nil
}

// xzParts returns an xz stream in consecutive pieces: those of r, except for block headers:
// their dictionary sizes are reduced to the size of the block's output. The error is
// ErrTooLarge if the output of all blocks exceeds limit. If a block has other filters than
// LZMA2, xzParts returns a reader of the output instead.
//
// To find a block's end it must walk its LZMA2 chunks, which state their sizes: the .xz file
// format 1.2.1, and liblzma's lzma2_decoder.c.
func xzParts(r io.ReaderAt, size, limit int64) (parts []io.Reader, filtered io.Reader, err error) {
	p := &peeker{r: r, size: size}
	head, err := p.peek(0, xzHeader)
	if err != nil {
		return nil, nil, err
	}
	if len(head) < xzHeader {
		return nil, nil, io.ErrUnexpectedEOF
	}
	f := &filteredReader{at: r, check: head[7] & 15}
	filters := false
	from, total := int64(0), int64(0)
	for at := int64(xzHeader); at < size; {
		first, err := p.peek(at, 1)
		if err != nil {
			return nil, nil, err
		}
		if first[0] == 0 { // begins the index
			break
		}
		n := (int(first[0]) + 1) * 4
		block := xzBlock{from: at + int64(n)}
		head, err := p.peek(at, n)
		if err != nil {
			return nil, nil, err
		}
		if len(head) < n {
			return nil, nil, io.ErrUnexpectedEOF
		}
		head = bytes.Clone(head)
		dict, err := block.parse(head)
		if err != nil {
			return nil, nil, err
		}
		if block.end, block.size, err = lzma2End(p, block.from); err != nil {
			return nil, nil, err
		}
		if total += block.size; total > limit {
			return nil, nil, ErrTooLarge
		}
		// The header's own checksum must hold before it is computed anew.
		if binary.LittleEndian.Uint32(head[n-4:]) != crc32.ChecksumIEEE(head[:n-4]) {
			return nil, nil, errXZ
		}
		head[dict] = min(head[dict], dictCode(block.size))
		block.dict = head[dict]
		binary.LittleEndian.PutUint32(head[n-4:], crc32.ChecksumIEEE(head[:n-4]))
		parts = append(parts, io.NewSectionReader(r, from, at-from), bytes.NewReader(head))
		f.blocks, filters = append(f.blocks, block), filters || block.filters != nil
		from, at = block.from, (block.end+3)&^3+int64(xzChecks[f.check])
	}
	if filters {
		return nil, f, nil
	}
	return append(parts, io.NewSectionReader(r, from, size-from)), nil, nil
}

const xzHeader = 12

// xzChecks contains the sizes of the check after a block, by its kind.
var xzChecks = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

// parse reads the filters of a block's header (3.1). It returns the offset of LZMA2's
// dictionary size.
func (b *xzBlock) parse(head []byte) (dict int, err error) {
	const hasPacked, hasSize = 0x40, 0x80
	rest := head[2 : len(head)-4]
	number := func() (n uint64) {
		v, k := binary.Uvarint(rest)
		if k <= 0 {
			err, k = errXZ, len(rest)
		}
		rest = rest[k:]
		return v
	}
	for _, flag := range []byte{hasPacked, hasSize} {
		if head[1]&flag != 0 {
			number()
		}
	}
	last := int(head[1] & 3)
	for i := 0; err == nil; i++ {
		id, n := number(), number()
		if err != nil || n > uint64(len(rest)) {
			return 0, errXZ
		}
		properties := rest[:n]
		switch {
		case id == filterLZMA2:
			if i != last || n != 1 {
				return 0, errXZ
			}
			return len(head) - 4 - len(rest), nil
		case i == last:
			return 0, errXZ // only LZMA2 may be the last
		}
		if _, err := newBranchFilter(id); err != nil {
			return 0, err
		}
		f := xzFilter{id: id}
		switch n {
		case 0:
		case 4:
			f.start = binary.LittleEndian.Uint32(properties)
		default:
			return 0, errXZ
		}
		b.filters, rest = append(b.filters, f), rest[n:]
	}
	return 0, err
}

// lzma2End returns the end of the chunks that begin at an offset, and the size of their
// output.
func lzma2End(p *peeker, at int64) (end, size int64, err error) {
	for at < p.size {
		b, err := p.peek(at, 6)
		if err != nil {
			return 0, 0, err
		}
		c := b[0]
		switch {
		case c == 0:
			return at + 1, size, nil
		case len(b) < 6:
			return 0, 0, io.ErrUnexpectedEOF
		case c >= 0x80:
			size += int64(c&0x1f)<<16 + int64(b[1])<<8 + int64(b[2]) + 1
			packed := int64(b[3])<<8 + int64(b[4]) + 1
			if at += 5 + packed; c >= 0xc0 {
				at++ // new properties
			}
		case c <= 2:
			n := int64(b[1])<<8 + int64(b[2]) + 1
			size += n
			at += 3 + n
		default:
			return 0, 0, errXZ
		}
	}
	return 0, 0, io.ErrUnexpectedEOF
}

// dictCode returns the code of the smallest dictionary of at least n bytes: 2 or 3, shifted.
func dictCode(n int64) byte {
	for code := byte(0); code < 40; code++ {
		if int64(2|code&1)<<(code/2+11) >= n {
			return code
		}
	}
	return 40
}

// lzmaParts is xzParts for the .lzma container. Its header has the dictionary size after a
// byte of properties.
func lzmaParts(r io.ReaderAt, size, limit int64) ([]io.Reader, error) {
	if size < 13 {
		return nil, io.ErrUnexpectedEOF
	}
	head := make([]byte, 5)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if dict := binary.LittleEndian.Uint32(head[1:]); int64(dict) > limit {
		binary.LittleEndian.PutUint32(head[1:], uint32(max(limit, 4096)))
	}
	return []io.Reader{bytes.NewReader(head), io.NewSectionReader(r, 5, size-5)}, nil
}

// window returns the largest window that a zstd stream may use: limit, rounded up to a power
// of two, but at least the window that levels up to 19 always use.
func window(limit int64) uint64 {
	const least = 8 << 20
	return min(max(uint64(1)<<bits.Len64(uint64(max(limit, 1)-1)), least), maxWindow)
}
