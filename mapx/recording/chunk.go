package recording

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/borescope/borescope/internal/compress"
	"github.com/borescope/borescope/mapx/internal/layout"
)

// Every file of a recording except the manifest is a container: a line "borescope KIND
// VERSION", a line of JSON, then individually compressed chunks, so that a file that was cut
// off is readable up to the last whole one. FORMAT.md describes it.
const (
	formatVersion = 1
	chunkHeader   = 12 // raw size, compressed size, CRC-32C, little-endian
	maxHeaderLine = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is the error when the bytes of a recording can't be those that were written.
var ErrCorrupt = errors.New("damaged recording")

// chunkWriter writes a container. It is safe for concurrent use.
type chunkWriter struct {
	name string // for messages

	mu     sync.Mutex
	w      io.Writer
	enc    *compress.Encoder
	out    []byte
	err    error // the first, which stays
	closed bool
}

func newChunkWriter(name, kind string, w io.Writer, enc *compress.Encoder,
	header any,
) (*chunkWriter, error) {
	b, err := json.Marshal(header)
	if err == nil {
		_, err = fmt.Fprintf(w, "borescope %s %d\n%s\n", kind, formatVersion, b)
	}
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", name, err)
	}
	return &chunkWriter{name: name, w: w, enc: enc}, nil
}

// write compresses payload into one chunk.
func (c *chunkWriter) write(payload []byte) error {
	if c.err != nil || len(payload) == 0 {
		return c.err
	}
	if len(payload) > layout.MaxChunk {
		return c.fail(fmt.Errorf("%d bytes at once, more than %d", len(payload), layout.MaxChunk))
	}
	var head [chunkHeader]byte
	c.out = c.enc.Append(append(c.out[:0], head[:]...), payload)
	body := c.out[chunkHeader:]
	binary.LittleEndian.PutUint32(c.out, uint32(len(payload)))
	binary.LittleEndian.PutUint32(c.out[4:], uint32(len(body)))
	binary.LittleEndian.PutUint32(c.out[8:], crc32.Checksum(body, castagnoli))
	if _, err := c.w.Write(c.out); err != nil {
		return c.fail(err)
	}
	return nil
}

func (c *chunkWriter) fail(err error) error {
	if c.err == nil {
		c.err = fmt.Errorf("record %s: %w", c.name, err)
	}
	return c.err
}

// chunkReader reads a container.
type chunkReader struct {
	name string
	r    *bufio.Reader
	dec  *compress.Decoder
	in   []byte
	out  []byte
	n    int   // chunks read
	read int64 // bytes of the chunks that were read, compressed
	work int64 // that reading them took: see spend
}

// newChunkReader checks the container's kind and version, and decodes its
// header.
func newChunkReader(name, kind string, r io.Reader, header any) (*chunkReader, error) {
	c := &chunkReader{name: name, r: bufio.NewReaderSize(r, 1<<16)}
	line, err := readLine(c.r)
	if err == nil {
		err = checkVersion(line, kind)
	}
	if err == nil {
		if line, err = readLine(c.r); err == nil {
			err = json.Unmarshal([]byte(line), header)
		}
	}
	if err == nil {
		c.dec, err = compress.NewDecoder(layout.MaxChunk)
	}
	if err != nil {
		return nil, fmt.Errorf("recording %s: %w", name, err)
	}
	return c, nil
}

// readLine reads a header line, which ends in a newline.
func readLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for b.Len() < maxHeaderLine {
		part, err := r.ReadSlice('\n')
		b.Write(part)
		switch {
		case err == nil:
			return b.String()[:b.Len()-1], nil
		case err == io.EOF:
			return "", fmt.Errorf("header: %w", io.ErrUnexpectedEOF)
		case err != bufio.ErrBufferFull:
			return "", err
		}
	}
	return "", fmt.Errorf("header line longer than %d bytes: %w", maxHeaderLine, ErrCorrupt)
}

func checkVersion(line, kind string) error {
	var k string
	var version int
	if n, _ := fmt.Sscanf(line, "borescope %s %d", &k, &version); n != 2 || k != kind {
		return fmt.Errorf("not a borescope %s: %w", kind, ErrCorrupt)
	}
	if version < 1 || version > formatVersion {
		return fmt.Errorf("format version %d: this program reads up to %d", version, formatVersion)
	}
	return nil
}

// next returns the payload of the next chunk, valid until the following call. At the end it
// returns io.EOF; if the file was cut off, io.ErrUnexpectedEOF.
func (c *chunkReader) next() ([]byte, error) { return c.nextOf(0) }

// nextOf is next for a part of a snapshot of which held bytes of memory are decoded: it decodes
// no chunk that does not fit in addition.
func (c *chunkReader) nextOf(held int64) ([]byte, error) {
	var head [chunkHeader]byte
	switch _, err := io.ReadFull(c.r, head[:]); {
	case err == io.EOF:
		return nil, io.EOF
	case err == io.ErrUnexpectedEOF:
		return nil, c.cut()
	case err != nil:
		return nil, fmt.Errorf("recording %s: %w", c.name, err)
	}
	raw := binary.LittleEndian.Uint32(head[:])
	size := binary.LittleEndian.Uint32(head[4:])
	if raw > layout.MaxChunk || size > layout.MaxChunk {
		return nil, c.corrupt(fmt.Sprintf("claims %d bytes", max(raw, size)))
	}
	if err := c.body(int(size)); err != nil {
		return nil, err
	}
	c.read += int64(len(head) + len(c.in))
	if crc32.Checksum(c.in, castagnoli) != binary.LittleEndian.Uint32(head[8:]) {
		return nil, c.corrupt("checksum differs")
	}
	if err := c.hold(held + int64(raw)); err != nil {
		return nil, err
	}
	if err := c.spend(int64(raw)/4, 0); err != nil {
		return nil, err
	}
	var err error
	if c.out, err = c.dec.Append(slices.Grow(c.out[:0], int(raw))[:0:raw], c.in); err != nil {
		return nil, c.corrupt(err.Error())
	}
	if len(c.out) != int(raw) {
		return nil, c.corrupt(fmt.Sprintf("%d bytes, not the %d it claims", len(c.out), raw))
	}
	c.n++
	return c.out, nil
}

// body reads n bytes into c.in, which grows only with the data that the file has.
func (c *chunkReader) body(n int) error {
	c.in = c.in[:0]
	for len(c.in) < n {
		part := min(n-len(c.in), max(64<<10, len(c.in)))
		at := len(c.in)
		c.in = append(c.in, make([]byte, part)...)
		if _, err := io.ReadFull(c.r, c.in[at:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			return c.cut()
		} else if err != nil {
			return fmt.Errorf("recording %s: %w", c.name, err)
		}
	}
	return nil
}

// These bound what reading a file may take, in proportion to its bytes so far, because zstd
// compresses 32 MiB of zeros to a kilobyte, and a record or an entry of a map of zeros takes up
// nothing.
//
// A snapshot, which may have many chunks, takes up to fewBytes of memory, and bytesShare more for
// each byte. All of the file takes up to fewWork of work, and workShare more for each byte. Of
// maps of zeros, a byte is up to 500 units of work, and of records 50.
const (
	fewBytes   = 40 << 20
	bytesShare = 64
	fewWork    = 256 << 20
	workShare  = 1024
	entryWork  = 32 // of a record or an entry; four bytes are 1
)

// spend accounts for work, and for that of n records or entries.
func (c *chunkReader) spend(work int64, n uint64) error {
	c.work += work + entryWork*int64(min(n, layout.MaxChunk))
	if c.work > fewWork+workShare*c.read {
		return c.corrupt(fmt.Sprintf("%d bytes of the file expand to too much", c.read))
	}
	return nil
}

// hold returns an error if a snapshot may not take that much memory.
func (c *chunkReader) hold(bytes int64) error {
	if bytes > fewBytes+bytesShare*c.read {
		return c.corrupt(fmt.Sprintf("a snapshot of more than %d bytes from %d of the file", bytes,
			c.read))
	}
	return nil
}

// contents is nextOf for chunks whose first byte is their kind: an empty one is an error.
func (c *chunkReader) contents(held int64) ([]byte, error) {
	payload, err := c.nextOf(held)
	if err == nil && len(payload) == 0 {
		err = c.corrupt("it is empty")
	}
	return payload, err
}

// part returns the next chunk of a snapshot, of which held bytes of memory are decoded so far;
// more is set behind its first.
func (c *chunkReader) part(held int64, more bool) ([]byte, error) {
	payload, err := c.contents(held)
	if err == io.EOF && more {
		return nil, c.cut() // in the middle of a snapshot
	}
	return payload, err
}

func (c *chunkReader) cut() error {
	return fmt.Errorf("recording %s: cut off after %d whole chunks: %w", c.name, c.n,
		io.ErrUnexpectedEOF)
}

func (c *chunkReader) corrupt(msg string) error {
	return fmt.Errorf("recording %s: chunk %d: %s: %w", c.name, c.n+1, msg, ErrCorrupt)
}

// parser parses a payload. After the first failure it returns zeros, with bad set.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) varint() int64 {
	v, n := binary.Varint(p.b)
	if n <= 0 {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

// column returns a parser of the next n numbers, uvarints or varints.
func (p *parser) column(n uint64) parser {
	all := p.b
	for range min(n, uint64(len(all))+1) { // there can't be more
		p.uvarint()
	}
	return parser{b: all[:len(all)-len(p.b)]}
}

// bytes returns the next n bytes, nil if there are fewer.
func (p *parser) bytes(n uint64) []byte {
	if n > uint64(len(p.b)) {
		p.bad, p.b = true, nil
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}
