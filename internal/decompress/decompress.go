// Package decompress reads the compression formats that this library meets: zlib and zstd
// debug sections, xz .gnu_debugdata and kernel modules, and gzip, zstd, xz and lz4 (including
// its legacy frames) inside vmlinuz.
//
// The caller bounds the output and dictionaries, not the sizes in the input: memory grows with
// the data that is really decompressed.
package decompress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// Format is a compressed format.
type Format uint8

// These are the formats. None means that the data is not compressed.
const (
	None Format = iota
	Zlib
	Gzip
	Zstd
	XZ
	LZMA // the .lzma container that came before xz
	LZ4
	LZ4Legacy // the frame of the lz4 tool's -l, which Linux uses for vmlinuz
)

// String returns the format's usual name.
func (f Format) String() string {
	names := [...]string{"none", "zlib", "gzip", "zstd", "xz", "lzma", "lz4", "lz4-legacy"}
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("format %d", uint8(f))
}

// magics lists the first bytes of formats that have a magic number. Zlib has none that is
// reliable.
var magics = [...]struct {
	f Format
	m string
}{
	{Gzip, "\x1f\x8b\x08"},
	{Zstd, "\x28\xb5\x2f\xfd"},
	{XZ, "\xfd7zXZ\x00"},
	{LZMA, "\x5d\x00\x00"},
	{LZ4, "\x04\x22\x4d\x18"},
	{LZ4Legacy, "\x02\x21\x4c\x18"},
}

// Detect returns the format of b by its first bytes, None if it is unknown.
func Detect(b []byte) Format {
	for _, m := range &magics {
		if bytes.HasPrefix(b, []byte(m.m)) {
			return m.f
		}
	}
	return None
}

// ErrTooLarge is the error for output that exceeds the caller's limit.
var ErrTooLarge = errors.New("decompressed data is larger than allowed")

// errShort is the error for output that is shorter than the input states.
var errShort = errors.New("decompressed data is shorter than stated")

// maxWindow is the largest window of a zstd stream that is accepted. The kernel's build uses
// that size.
const maxWindow = 128 << 20

// NewReader returns a reader of the data compressed in b. Close frees the decoder, which uses
// memory for the format's own needs and at most limit more. Reading more than limit bytes may
// fail. For LZ4Legacy, reading ends at the first bytes that cannot be a block, because the
// kernel appends the size to its images.
func NewReader(f Format, b []byte, limit int64) (io.ReadCloser, error) {
	r := bytes.NewReader(b)
	return open(f, r, r, r.Size(), limit)
}

// NewReaderAt is NewReader for the first size bytes of r, which it reads as they are needed,
// and which must stay readable until Close.
func NewReaderAt(f Format, r io.ReaderAt, size, limit int64) (io.ReadCloser, error) {
	return open(f, bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 64<<10), r, size, limit)
}

// open returns a reader of data that can be read from its beginning and at any place.
func open(f Format, r io.Reader, at io.ReaderAt, size, limit int64) (io.ReadCloser, error) {
	var parts []io.Reader
	var filtered io.Reader
	var err error
	switch f {
	case XZ:
		parts, filtered, err = xzParts(at, size, limit)
	case LZMA:
		parts, err = lzmaParts(at, size, limit)
	default:
		return newReader(f, r, limit)
	}
	switch {
	case err != nil:
		return nil, err
	case filtered != nil:
		return io.NopCloser(filtered), nil
	}
	return newReader(f, bufio.NewReader(io.MultiReader(parts...)), limit)
}

func newReader(f Format, r io.Reader, limit int64) (io.ReadCloser, error) {
	switch f {
	case None:
		return io.NopCloser(r), nil
	case Zlib:
		return zlib.NewReader(r)
	case Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		z.Multistream(false) // in a vmlinuz, other data follows the gzip stream
		return z, nil
	case Zstd:
		// With concurrency 1, the decoder starts no goroutine.
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(window(limit)))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case XZ:
		z, err := xz.ReaderConfig{DictCap: lzma.MinDictCap, SingleStream: true}.NewReader(r)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	case LZMA:
		z, err := lzma.NewReader(r)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(z), nil
	case LZ4:
		return io.NopCloser(lz4.NewReader(r)), nil
	case LZ4Legacy:
		return io.NopCloser(&legacyReader{r: r}), nil
	}
	return nil, fmt.Errorf("unknown compression format %d", f)
}

// Bytes decompresses b. The output must have exactly size bytes.
func Bytes(f Format, b []byte, size int64) ([]byte, error) {
	if size < 0 {
		return nil, fmt.Errorf("impossible size %d", size)
	}
	out, err := appendAll(f, b, size, size)
	if err != nil {
		return nil, err
	}
	if int64(len(out)) != size {
		return nil, errShort
	}
	return out, nil
}

// All decompresses b to an output of unknown size. It returns ErrTooLarge if that exceeds
// limit bytes.
func All(f Format, b []byte, limit int64) ([]byte, error) {
	return appendAll(f, b, 4*int64(len(b)), limit)
}

// appendAll decompresses b into memory with the initial capacity hint, but at most 8 times the
// input, which grows with the output.
func appendAll(f Format, b []byte, hint, limit int64) ([]byte, error) {
	r, err := NewReader(f, b, limit)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := make([]byte, 0, min(hint, limit, 8*int64(len(b)))+bytes.MinRead)
	for {
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if int64(len(out)) > limit {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// legacyBlock is the uncompressed size of every legacy block except the last:
// lib/decompress_unlz4.c, LZ4_DEFAULT_UNCOMPRESSED_CHUNK_SIZE.
const legacyBlock = 8 << 20

const legacyMagic = 0x184c2102

// legacyReader reads the lz4 legacy frame: a magic number, and then blocks of a little-endian
// size and that many bytes.
type legacyReader struct {
	r       io.Reader
	started bool
	out     []byte // decompressed, but not yet read
	buf     []byte
	in      []byte
	err     error
}

// Read implements io.Reader.
func (l *legacyReader) Read(p []byte) (int, error) {
	for len(l.out) == 0 {
		if l.err == nil {
			l.err = l.block()
		}
		if l.err != nil {
			return 0, l.err
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

func (l *legacyReader) block() error {
	var h [4]byte
	for {
		if _, err := io.ReadFull(l.r, h[:]); err != nil {
			if l.started {
				return io.EOF // or the kernel's size at the end
			}
			return err
		}
		if binary.LittleEndian.Uint32(h[:]) != legacyMagic {
			break
		}
		l.started = true // frames may follow each other
	}
	if !l.started {
		return errors.New("lz4: not a legacy frame")
	}
	n := int(binary.LittleEndian.Uint32(h[:]))
	if n == 0 || n > lz4.CompressBlockBound(legacyBlock) {
		return io.EOF
	}
	if l.buf == nil {
		l.buf = make([]byte, legacyBlock)
	}
	if cap(l.in) < n {
		l.in = make([]byte, n)
	}
	l.in = l.in[:n]
	if _, err := io.ReadFull(l.r, l.in); err != nil {
		// The kernel's build appends the uncompressed size, which looks like a block header
		// without a block.
		if len(l.out) == 0 && err == io.EOF {
			return io.EOF
		}
		return io.ErrUnexpectedEOF
	}
	m, err := lz4.UncompressBlock(l.in, l.buf)
	if err != nil {
		return fmt.Errorf("lz4: %w", err)
	}
	l.out = l.buf[:m]
	return nil
}
