package decompress

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// Executables compress better if the targets of their calls are absolute: the xz format has a
// filter for each architecture that makes them so (branch, call, jump: BCJ). The xz module
// knows LZMA2 alone, and compares a block's check with the filters' input. So streams with
// filters are read here, by that module's LZMA2.

// The ids of filters (the .xz file format 1.2.1, 5.3 and 5.4).
const (
	filterDelta    = 0x03
	filterX86      = 0x04
	filterPowerPC  = 0x05
	filterIA64     = 0x06
	filterARM      = 0x07
	filterARMThumb = 0x08
	filterSPARC    = 0x09
	filterARM64    = 0x0a
	filterRISCV    = 0x0b
	filterLZMA2    = 0x21
)

var filterNames = map[uint64]string{
	filterDelta: "delta", filterIA64: "ia64", filterSPARC: "sparc", filterRISCV: "riscv",
}

// branchFilter undoes a filter in b, whose first byte has the position pos. It returns how many
// bytes are final: it needs the rest again, with what follows.
type branchFilter func(b []byte, pos uint32) int

func newBranchFilter(id uint64) (branchFilter, error) {
	switch id {
	case filterX86:
		return new(x86Filter).undo, nil
	case filterPowerPC:
		return undoPowerPC, nil
	case filterARM:
		return undoARM, nil
	case filterARMThumb:
		return undoARMThumb, nil
	case filterARM64:
		return undoARM64, nil
	}
	name := filterNames[id]
	if name == "" {
		name = fmt.Sprintf("%#x", id)
	}
	return nil, fmt.Errorf("xz: filter %s: %w", name, errors.ErrUnsupported)
}

// xzBlock is a block of an xz stream: its chunks, and where in the input they are.
type xzBlock struct {
	filters   []xzFilter // without LZMA2, in the order in which they were applied
	dict      byte       // code of LZMA2's dictionary size
	from, end int64      // of the chunks
	size      int64      // of the output
}

// xzFilter is a filter and the position that it gives to the first byte.
type xzFilter struct {
	id    uint64
	start uint32
}

// filteredReader reads the blocks of a stream.
type filteredReader struct {
	at     io.ReaderAt
	check  byte
	blocks []xzBlock
	r      io.Reader // the current block; nil: the next one has not begun
	sum    hash.Hash // of its output, nil if it is not known
	left   int64     // of its output
}

// Read implements io.Reader.
func (f *filteredReader) Read(p []byte) (n int, err error) {
	for {
		if f.r == nil {
			if len(f.blocks) == 0 {
				return 0, io.EOF
			}
			if err := f.begin(&f.blocks[0]); err != nil {
				return 0, err
			}
		}
		n, err = f.r.Read(p)
		if f.left -= int64(n); f.sum != nil {
			f.sum.Write(p[:n])
		}
		if err == nil || err == io.EOF && f.left < 0 {
			return n, nil
		}
		if err != io.EOF {
			return n, err
		}
		if err := f.finish(&f.blocks[0]); err != nil {
			return n, err
		}
		f.blocks, f.r = f.blocks[1:], nil
		if n > 0 {
			return n, nil
		}
	}
}

func (f *filteredReader) begin(b *xzBlock) error {
	c := lzma.Reader2Config{DictCap: dictSize(b.dict)}
	r, err := c.NewReader2(io.NewSectionReader(f.at, b.from, b.end-b.from))
	if err != nil {
		return err
	}
	f.r, f.left = r, b.size
	for i := len(b.filters) - 1; i >= 0; i-- {
		undo, err := newBranchFilter(b.filters[i].id)
		if err != nil {
			return err
		}
		f.r = &branchReader{r: f.r, undo: undo, pos: b.filters[i].start}
	}
	switch f.check {
	case 1:
		f.sum = crc32.NewIEEE()
	case 4:
		f.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		f.sum = sha256.New()
	}
	return nil
}

// finish compares the output with the block's size and check.
func (f *filteredReader) finish(b *xzBlock) error {
	if f.left != 0 {
		return errXZ
	}
	if f.sum == nil {
		return nil
	}
	want := make([]byte, xzChecks[f.check])
	if _, err := f.at.ReadAt(want, (b.end+3)&^3); err != nil {
		return io.ErrUnexpectedEOF
	}
	got := f.sum.Sum(nil)
	if f.check != 10 { // CRCs are stored with the lowest byte first
		for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
			got[i], got[j] = got[j], got[i]
		}
	}
	if string(got) != string(want) {
		return errors.New("xz: checksum error for block")
	}
	return nil
}

// dictSize returns the size of the dictionary with that code.
func dictSize(code byte) int {
	return int(min(int64(2|code&1)<<(code/2+11), 1<<32-1))
}

// branchReader undoes a filter.
type branchReader struct {
	r    io.Reader
	undo branchFilter
	pos  uint32
	buf  [4096]byte
	// buf[next:done] is final, and buf[done:end] is not.
	next, done, end int
	err             error
}

// Read implements io.Reader.
func (b *branchReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for b.next == b.done {
		if b.err != nil {
			return 0, b.err
		}
		b.fill()
	}
	n := copy(p, b.buf[b.next:b.done])
	b.next += n
	return n, nil
}

func (b *branchReader) fill() {
	b.end = copy(b.buf[:], b.buf[b.done:b.end])
	b.next, b.done = 0, 0
	var n int
	n, b.err = b.r.Read(b.buf[b.end:])
	b.end += n
	b.done = b.undo(b.buf[:b.end], b.pos)
	b.pos += uint32(b.done)
	if b.err == io.EOF { // what is too short for an instruction stays as it is
		b.done = b.end
	}
}

// x86Filter is the filter of amd64 and i386. Instructions have no alignment there, so it takes
// any e8 or e9 for a call or jump whose operand's highest byte is 00 or ff, unless recent bytes
// were taken for another: those are the bits of mask, a bit for each of the four bytes before,
// and after which such an operand would begin within the current one.
type x86Filter struct {
	mask uint32
	last uint32 // position of the last e8 or e9
	any  bool
}

func signByte(b byte) bool { return b == 0 || b == 0xff }

func (x *x86Filter) undo(b []byte, pos uint32) int {
	i := 0
	for i+5 <= len(b) {
		if b[i]&0xfe != 0xe8 {
			i++
			continue
		}
		at := pos + uint32(i)
		if passed := at - x.last; !x.any || passed > 5 {
			x.mask = 0
		} else {
			for range passed {
				x.mask = x.mask & 0x77 << 1
			}
		}
		x.last, x.any = at, true
		top := b[i+4]
		if !signByte(top) || !x.plausible() {
			x.mask |= 1
			if signByte(top) {
				x.mask |= 0x10
			}
			i++
			continue
		}
		v := x.target(binary.LittleEndian.Uint32(b[i+1:]), at+5)
		// The highest byte repeats the sign, which is in bit 24.
		v = v&0x01ffffff | -(v>>24&1)<<24
		binary.LittleEndian.PutUint32(b[i+1:], v)
		x.mask = 0
		i += 5
	}
	return i
}

// plausible reports whether the bytes before permit a call here.
func (x *x86Filter) plausible() bool {
	m := x.mask >> 1
	return m < 0x10 && (m&7 < 3 || m&7 == 4)
}

// target returns the relative operand of an absolute one, for an instruction that ends at next.
// A byte of it that the encoder could have taken for the highest one of another operand was
// inverted, with those below.
func (x *x86Filter) target(v, next uint32) uint32 {
	for {
		rel := v - next
		if x.mask == 0 {
			return rel
		}
		shift := uint32(24) // of that byte
		switch m := x.mask >> 1; {
		case m >= 4:
			shift = 0
		case m >= 2:
			shift = 8
		case m == 1:
			shift = 16
		}
		if !signByte(byte(rel >> shift)) {
			return rel
		}
		v = rel ^ (1<<(shift+8) - 1)
	}
}

// undoARM64 changes bl, and adrp of targets within 512 MiB.
func undoARM64(b []byte, pos uint32) int {
	i := 0
	for ; i+4 <= len(b); i += 4 {
		at := pos + uint32(i)
		op := binary.LittleEndian.Uint32(b[i:])
		switch {
		case op>>26 == 0x25:
			op = 0x94000000 | (op-at>>2)&0x03ffffff
		case op&0x9f000000 == 0x90000000:
			page := op>>29&3 | op>>3&0x1ffffc
			if (page+0x20000)&0x1c0000 != 0 {
				continue
			}
			page -= at >> 12
			op = op&0x9000001f | page&3<<29 | page&0x3fffc<<3 | -(page&0x20000)&0xe00000
		default:
			continue
		}
		binary.LittleEndian.PutUint32(b[i:], op)
	}
	return i
}

// undoARM changes bl, where all conditions hold.
func undoARM(b []byte, pos uint32) int {
	i := 0
	for ; i+4 <= len(b); i += 4 {
		if b[i+3] == 0xeb {
			op := binary.LittleEndian.Uint32(b[i:])
			rel := op - (pos+uint32(i)+8)>>2
			binary.LittleEndian.PutUint32(b[i:], op&0xff000000|rel&0xffffff)
		}
	}
	return i
}

// undoARMThumb changes bl, which is two halves with 11 bits of the target each.
func undoARMThumb(b []byte, pos uint32) int {
	i := 0
	for ; i+4 <= len(b); i += 2 {
		high, low := uint32(binary.LittleEndian.Uint16(b[i:])), uint32(binary.LittleEndian.Uint16(b[i+2:]))
		if high&0xf800 != 0xf000 || low&0xf800 != 0xf800 {
			continue
		}
		rel := high&0x7ff<<11 | low&0x7ff
		rel -= (pos + uint32(i) + 4) >> 1
		binary.LittleEndian.PutUint16(b[i:], uint16(0xf000|rel>>11&0x7ff))
		binary.LittleEndian.PutUint16(b[i+2:], uint16(0xf800|rel&0x7ff))
		i += 2
	}
	return i
}

// undoPowerPC changes bl with a relative target, in big-endian code.
func undoPowerPC(b []byte, pos uint32) int {
	i := 0
	for ; i+4 <= len(b); i += 4 {
		op := binary.BigEndian.Uint32(b[i:])
		if op&0xfc000003 == 0x48000001 {
			binary.BigEndian.PutUint32(b[i:], 0x48000001|(op-(pos+uint32(i)))&0x03fffffc)
		}
	}
	return i
}
