package decompress

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// Debug sections are mostly compressed by zlib, and decompressing them is most of
// the cost of a first answer. A stream whose whole output is wanted at once, in
// memory of a known size, can be decoded about three times as fast as through an
// io.Reader: the input is taken 8 bytes at a time, and matches are copied within
// the output.

var errDeflate = errors.New("zlib: malformed data")

// Bits that the first table of each kind is indexed by; longer codes take a
// second look.
const (
	litBits  = 11
	distBits = 8
	maxCode  = 15
)

// An entry of a table: the bits of the code in bits 0-7, extra bits in 8-11, the
// kind in 12-15, and a value in 16-31: the literal, the base of a length or of a
// distance, or where the second table begins (with its index bits as extra bits).
const (
	kindLiteral = 1 << 12
	kindBase    = 2 << 12
	kindEnd     = 3 << 12
	kindLink    = 4 << 12
	kindMask    = 15 << 12
)

// inflater decodes one stream.
type inflater struct {
	src  []byte
	pos  int
	buf  uint64 // bits that were taken from src, the next one lowest
	n    int    // how many of them count
	lit  [1<<litBits + 288<<(maxCode-litBits)]uint32
	dist [1<<distBits + 32<<(maxCode-distBits)]uint32
	lens [320]uint8
}

// unzlib decodes a zlib stream (RFC 1950) that yields exactly len(dst) bytes.
func unzlib(dst, src []byte) error {
	if len(src) < 6 || src[0]&15 != 8 || src[0] > 0x78 || src[1]&0x20 != 0 || binary.BigEndian.Uint16(src)%31 != 0 {
		return errDeflate
	}
	d := &inflater{src: src, pos: 2}
	out := 0
	for last := false; !last; {
		last = d.bits(1) == 1
		var err error
		switch d.bits(2) {
		case 0:
			out, err = d.stored(dst, out)
		case 1:
			if err = d.fixed(); err == nil {
				out, err = d.block(dst, out)
			}
		case 2:
			if err = d.dynamic(); err == nil {
				out, err = d.block(dst, out)
			}
		default:
			err = errDeflate
		}
		if err != nil {
			return err
		}
		if d.n < 0 {
			return errDeflate
		}
	}
	if out != len(dst) {
		return errShort
	}
	d.align()
	if d.pos+4 > len(src) || binary.BigEndian.Uint32(src[d.pos:]) != adler(dst) {
		return errDeflate
	}
	return nil
}

// refill takes bits until there are at least 48, or all that are left.
func (d *inflater) refill() {
	if d.pos+8 <= len(d.src) {
		d.buf |= binary.LittleEndian.Uint64(d.src[d.pos:]) << uint(d.n)
		d.pos += (63 - d.n) >> 3
		d.n |= 56
		return
	}
	for d.n <= 56 && d.pos < len(d.src) {
		d.buf |= uint64(d.src[d.pos]) << uint(d.n)
		d.pos++
		d.n += 8
	}
}

// bits takes k bits; past the end n becomes negative, and stays so.
func (d *inflater) bits(k int) uint32 {
	if d.n < k {
		if d.n < 0 {
			return 0
		}
		d.refill()
	}
	v := uint32(d.buf & (1<<uint(k) - 1))
	d.buf >>= uint(k)
	d.n -= k
	return v
}

// align gives back the bits up to the next byte, and the bytes behind them.
func (d *inflater) align() {
	d.pos -= max(d.n, 0) / 8
	d.buf, d.n = 0, min(d.n, 0)
}

func (d *inflater) stored(dst []byte, out int) (int, error) {
	d.align()
	if d.n < 0 || d.pos+4 > len(d.src) {
		return out, errDeflate
	}
	size, not := binary.LittleEndian.Uint16(d.src[d.pos:]), binary.LittleEndian.Uint16(d.src[d.pos+2:])
	d.pos += 4
	if size != ^not || int(size) > len(d.src)-d.pos {
		return out, errDeflate
	}
	if int(size) > len(dst)-out {
		return out, ErrTooLarge
	}
	copy(dst[out:], d.src[d.pos:d.pos+int(size)])
	d.pos += int(size)
	return out + int(size), nil
}

// fixed sets the tables of blocks that bring none along: RFC 1951, 3.2.6.
func (d *inflater) fixed() error {
	for i := range 288 {
		switch {
		case i < 144:
			d.lens[i] = 8
		case i < 256:
			d.lens[i] = 9
		case i < 280:
			d.lens[i] = 7
		default:
			d.lens[i] = 8
		}
	}
	if err := build(d.lit[:], litBits, d.lens[:288], litEntry); err != nil {
		return err
	}
	for i := range 32 {
		d.lens[i] = 5
	}
	return build(d.dist[:], distBits, d.lens[:32], distEntry)
}

// codeOrder is the order of the lengths of the code of lengths: 3.2.7.
var codeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads the tables of a block: 3.2.7.
func (d *inflater) dynamic() error {
	nlit, ndist, ncode := int(d.bits(5))+257, int(d.bits(5))+1, int(d.bits(4))+4
	if nlit > 286 || ndist > 30 {
		return errDeflate
	}
	clear(d.lens[:])
	for i := range ncode {
		d.lens[codeOrder[i]] = uint8(d.bits(3))
	}
	// The distances' table serves for a moment.
	if err := build(d.dist[:], distBits, d.lens[:19], func(i int) uint32 { return uint32(i)<<16 | kindLiteral }); err != nil {
		return err
	}
	clear(d.lens[:])
	for i := 0; i < nlit+ndist; {
		d.refill()
		e := d.dist[d.buf&(1<<distBits-1)]
		if e == 0 || d.n < 0 {
			return errDeflate
		}
		d.bits(int(e & 0xff))
		v, rep := e>>16, 1
		switch v {
		case 16:
			if i == 0 {
				return errDeflate
			}
			v, rep = uint32(d.lens[i-1]), int(d.bits(2))+3
		case 17:
			v, rep = 0, int(d.bits(3))+3
		case 18:
			v, rep = 0, int(d.bits(7))+11
		}
		if rep > nlit+ndist-i {
			return errDeflate
		}
		for range rep {
			d.lens[i] = uint8(v)
			i++
		}
	}
	if d.lens[256] == 0 {
		return errDeflate // such a block has no end
	}
	if err := build(d.lit[:], litBits, d.lens[:nlit], litEntry); err != nil {
		return err
	}
	return build(d.dist[:], distBits, d.lens[nlit:nlit+ndist], distEntry)
}

// Bases and extra bits of lengths and distances: 3.2.5.
var (
	lengthBase  = [29]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [29]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
)

func litEntry(i int) uint32 {
	switch {
	case i < 256:
		return uint32(i)<<16 | kindLiteral
	case i == 256:
		return kindEnd
	case i < 286:
		return uint32(lengthBase[i-257])<<16 | uint32(lengthExtra[i-257])<<8 | kindBase
	}
	return 0
}

func distEntry(i int) uint32 {
	switch {
	case i < 4:
		return uint32(i+1)<<16 | kindBase
	case i < 30:
		extra := i/2 - 1
		return uint32((2+i&1)<<extra+1)<<16 | uint32(extra)<<8 | kindBase
	}
	return 0
}

// build makes the table of a canonical code: 3.2.2. Unused codes have zero
// entries; a code with too many is an error.
func build(table []uint32, index int, lens []uint8, entry func(int) uint32) error {
	var count, next [maxCode + 1]int
	for _, l := range lens {
		count[l]++
	}
	count[0] = 0
	code, longest := 0, 0
	for l := 1; l <= maxCode; l++ {
		code = (code + count[l-1]) << 1
		next[l] = code
		if count[l] > 0 {
			longest = l
		}
		if code+count[l] > 1<<l {
			return errDeflate
		}
	}
	clear(table[:1<<index])
	sub := max(longest-index, 0) // index bits of second tables
	free := 1 << index
	for sym, l8 := range lens {
		l := int(l8)
		if l == 0 {
			continue
		}
		rev := int(bits.Reverse16(uint16(next[l])) >> (16 - l))
		next[l]++
		e := entry(sym)
		if e == 0 {
			continue // not used, and may have a code in the fixed tables
		}
		if l <= index {
			for i := rev; i < 1<<index; i += 1 << l {
				table[i] = e | uint32(l)
			}
			continue
		}
		first := &table[rev&(1<<index-1)]
		if *first == 0 {
			*first = uint32(free)<<16 | uint32(sub)<<8 | kindLink | uint32(index)
			clear(table[free : free+1<<sub])
			free += 1 << sub
		}
		at := int(*first >> 16)
		for i := rev >> index; i < 1<<sub; i += 1 << (l - index) {
			table[at+i] = e | uint32(l-index)
		}
	}
	return nil
}

// block decodes literals and matches up to the block's end.
func (d *inflater) block(dst []byte, out int) (int, error) {
	out, end, err := d.fast(dst, out)
	if end || err != nil {
		return out, err
	}
	return d.careful(dst, out)
}

// What fast needs of room: the input is read 8 bytes at a time, twice, and the
// output holds three literals and a match, written in steps of 8 bytes.
const (
	roomIn  = 16
	roomOut = 3 + 258 + 32
)

// fast is block as long as neither the input nor the output ends soon, so that
// both need no attention, and bits are taken for several codes at a time. It
// reports whether it came to the block's end. Its variables are copies of the
// inflater's, so that they are kept in registers.
func (d *inflater) fast(dst []byte, out int) (_ int, end bool, err error) {
	if d.n < 0 {
		return out, false, errDeflate
	}
	src, pos, buf, n := d.src, d.pos, d.buf, uint(d.n)
	lit, dist := &d.lit, &d.dist
	for pos+roomIn <= len(src) && out+roomOut <= len(dst) {
		buf |= binary.LittleEndian.Uint64(src[pos:]) << (n & 63)
		pos += int(63-n) >> 3
		n |= 56
		e := lit[buf&(1<<litBits-1)]
		before := out
		for e&kindMask == kindLiteral && out < before+3 {
			buf >>= e & 63
			n -= uint(e & 63)
			dst[out] = byte(e >> 16)
			out++
			e = lit[buf&(1<<litBits-1)]
		}
		switch out - before {
		case 3:
			continue
		case 1, 2: // 34 bits are left at least, and a match may take 48
			buf |= binary.LittleEndian.Uint64(src[pos:]) << (n & 63)
			pos += int(63-n) >> 3
			n |= 56
		}
		if e&kindMask == kindLink {
			buf >>= litBits
			n -= litBits
			e = lit[(e>>16+uint32(buf)&(1<<(e>>8&15)-1))%uint32(len(lit))]
		}
		buf >>= e & 63
		n -= uint(e & 63)
		if e&kindMask != kindBase {
			if e&kindMask == kindLiteral {
				dst[out] = byte(e >> 16)
				out++
				continue
			}
			if end = e&kindMask == kindEnd; !end {
				err = errDeflate
			}
			break
		}
		extra := e >> 8 & 15
		length := int(e>>16) + int(buf&(1<<extra-1))
		buf >>= extra
		n -= uint(extra)
		f := dist[buf&(1<<distBits-1)]
		if f&kindMask == kindLink {
			buf >>= distBits
			n -= distBits
			f = dist[(f>>16+uint32(buf)&(1<<(f>>8&15)-1))%uint32(len(dist))]
		}
		buf >>= f & 63
		n -= uint(f & 63)
		extra = f >> 8 & 15
		back := int(f>>16) + int(buf&(1<<extra-1))
		buf >>= extra
		n -= uint(extra)
		if f&kindMask != kindBase || back > out {
			err = errDeflate
			break
		}
		match(dst, out, back, length)
		out += length
	}
	d.pos, d.buf, d.n = pos, buf, int(n)
	return out, end, err
}

// careful is block up to the ends of the input and the output.
func (d *inflater) careful(dst []byte, out int) (int, error) {
	src, pos, buf, n := d.src, d.pos, d.buf, d.n
	var err error
	for {
		if n < 48 {
			if pos+8 <= len(src) {
				buf |= binary.LittleEndian.Uint64(src[pos:]) << (uint(n) & 63)
				pos += (63 - n) >> 3
				n |= 56
			} else {
				for ; n <= 56 && pos < len(src); n += 8 {
					buf |= uint64(src[pos]) << (uint(n) & 63)
					pos++
				}
			}
		}
		e := d.lit[buf&(1<<litBits-1)]
		if e&kindMask == kindLink {
			buf >>= litBits
			n -= litBits
			e = d.lit[(e>>16+uint32(buf)&(1<<(e>>8&15)-1))%uint32(len(d.lit))]
		}
		buf >>= e & 63
		n -= int(e & 63)
		if e&kindMask == kindLiteral {
			if out >= len(dst) || n < 0 {
				err = overrun(n)
				break
			}
			dst[out] = byte(e >> 16)
			out++
			continue
		}
		if e&kindMask == kindEnd && n >= 0 {
			break
		}
		extra := e >> 8 & 15
		length := int(e>>16) + int(buf&(1<<extra-1))
		buf >>= extra
		n -= int(extra)
		f := d.dist[buf&(1<<distBits-1)]
		if f&kindMask == kindLink {
			buf >>= distBits
			n -= distBits
			f = d.dist[(f>>16+uint32(buf)&(1<<(f>>8&15)-1))%uint32(len(d.dist))]
		}
		buf >>= f & 63
		n -= int(f & 63)
		extra = f >> 8 & 15
		back := int(f>>16) + int(buf&(1<<extra-1))
		buf >>= extra
		n -= int(extra)
		if e&kindMask != kindBase || f&kindMask != kindBase || n < 0 || back > out {
			err = errDeflate
			break
		}
		if length > len(dst)-out {
			err = ErrTooLarge
			break
		}
		match(dst, out, back, length)
		out += length
	}
	d.pos, d.buf, d.n = pos, buf, n
	return out, err
}

// overrun is the error of a literal that there is no room for, or no code.
func overrun(n int) error {
	if n < 0 {
		return errDeflate
	}
	return ErrTooLarge
}

// match copies length bytes from back bytes before out, which may overlap.
func match(dst []byte, out, back, length int) {
	if back >= 8 && len(dst)-out >= length+16 {
		// In steps of 8 bytes, two for most; what is written too far is written again.
		from, to := dst[out-back:][:length+16], dst[out:][:length+16]
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
		binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
		for len(from) > 32 {
			from, to = from[8:], to[8:]
			binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
		}
		return
	}
	if back >= length {
		copy(dst[out:out+length], dst[out-back:])
		return
	}
	for i := out; i < out+length; i++ {
		dst[i] = dst[i-back]
	}
}

// adler is the checksum of RFC 1950, of 8 bytes at a time: hash/adler32 takes
// three times as long, a seventh of everything.
func adler(p []byte) uint32 {
	const (
		modulus = 65521
		lanes   = 0x00ff00ff00ff00ff // every other byte, with room for sums
	)
	a, b := uint64(1), uint64(0)
	for len(p) > 0 {
		part := p[:min(len(p), 1<<20)] // the sums stay far below 64 bits
		p = p[len(part):]
		for ; len(part) >= 8; part = part[8:] {
			x := binary.LittleEndian.Uint64(part)
			even, odd := x&lanes, x>>8&lanes
			// The upper 16 bits of each product are a sum of the lanes, with weights: a
			// byte counts in b as often as bytes follow, and once itself.
			b += 8*a + (even*0x0008000600040002)>>48 + (odd*0x0007000500030001)>>48
			a += ((even + odd) * 0x0001000100010001) >> 48
		}
		for _, c := range part {
			a += uint64(c)
			b += a
		}
		a, b = a%modulus, b%modulus
	}
	return uint32(b<<16 | a)
}
