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

// xzParts returns an xz stream in consecutive pieces: those of b, except for block headers:
// their dictionary sizes are reduced to the size of the block's output. The error is
// ErrTooLarge if the output of all blocks exceeds limit.
//
// To find a block's end it must walk its LZMA2 chunks, which state their sizes: the .xz file
// format 1.2.1, and liblzma's lzma2_decoder.c.
func xzParts(b []byte, limit int64) (parts []io.Reader, err error) {
	if len(b) < xzHeader {
		return nil, io.ErrUnexpectedEOF
	}
	check := xzChecks[b[7]&15]
	from, total := 0, int64(0)
	for at := xzHeader; at < len(b) && b[at] != 0; { // 0 begins the index
		body := at + (int(b[at])+1)*4
		if body > len(b) {
			return nil, io.ErrUnexpectedEOF
		}
		dict := xzDict(b[at:body])
		if dict < 0 {
			return nil, errXZ
		}
		end, size, err := lzma2End(b, body)
		if err != nil {
			return nil, err
		}
		if total += size; total > limit {
			return nil, ErrTooLarge
		}
		head := bytes.Clone(b[at:body])
		head[dict] = min(head[dict], dictCode(size))
		binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
		parts = append(parts, bytes.NewReader(b[from:at]), bytes.NewReader(head))
		from, at = body, (end+3)&^3+check
	}
	return append(parts, bytes.NewReader(b[from:])), nil
}

const xzHeader = 12

// xzChecks contains the sizes of the check after a block, by its kind.
var xzChecks = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

// xzDict returns the offset of the dictionary size in a block's header, or -1 unless LZMA2 is
// the only filter.
func xzDict(head []byte) int {
	const lzma2, hasPacked, hasSize = 0x21, 0x40, 0x80
	at := 2
	for _, flag := range []byte{hasPacked, hasSize} {
		if head[1]&flag != 0 {
			for at < len(head) && head[at]&0x80 != 0 {
				at++
			}
			at++
		}
	}
	if head[1]&3 != 0 || at+3 > len(head)-4 || head[at] != lzma2 || head[at+1] != 1 {
		return -1
	}
	return at + 2
}

// lzma2End returns the end of the chunks that begin at an offset, and the size of their
// output.
func lzma2End(b []byte, at int) (end int, size int64, err error) {
	for at < len(b) {
		c := b[at]
		switch {
		case c == 0:
			return at + 1, size, nil
		case at+6 > len(b):
			return 0, 0, io.ErrUnexpectedEOF
		case c >= 0x80:
			size += int64(c&0x1f)<<16 + int64(b[at+1])<<8 + int64(b[at+2]) + 1
			packed := int(b[at+3])<<8 + int(b[at+4]) + 1
			if at += 5 + packed; c >= 0xc0 {
				at++ // new properties
			}
		case c <= 2:
			n := int(b[at+1])<<8 + int(b[at+2]) + 1
			size += int64(n)
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
func lzmaParts(b []byte, limit int64) ([]io.Reader, error) {
	if len(b) < 13 {
		return nil, io.ErrUnexpectedEOF
	}
	head := bytes.Clone(b[:5])
	if dict := binary.LittleEndian.Uint32(head[1:]); int64(dict) > limit {
		binary.LittleEndian.PutUint32(head[1:], uint32(max(limit, 4096)))
	}
	return []io.Reader{bytes.NewReader(head), bytes.NewReader(b[5:])}, nil
}

// window returns the largest window that a zstd stream may use: limit, rounded up to a power
// of two, but at least the window that levels up to 19 always use.
func window(limit int64) uint64 {
	const least = 8 << 20
	return min(max(uint64(1)<<bits.Len64(uint64(max(limit, 1)-1)), least), maxWindow)
}
