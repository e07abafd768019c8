package dwarf

import (
	"bytes"
	"encoding/binary"
)

// cursor reads a section. A read past the end sets bad and returns zero. Readers check bad
// where necessary.
type cursor struct {
	b   []byte
	off int
	be  bool
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || c.off < 0 || n > len(c.b)-c.off {
		c.bad = true
		c.off = len(c.b)
		return nil
	}
	b := c.b[c.off : c.off+n]
	c.off += n
	return b
}

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.b)-c.off) {
		c.bad, c.off = true, len(c.b)
		return
	}
	c.off += int(n)
}

func (c *cursor) u8() uint8 {
	if c.off >= len(c.b) {
		c.bad = true
		return 0
	}
	v := c.b[c.off]
	c.off++
	return v
}

func (c *cursor) order() binary.ByteOrder {
	if c.be {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (c *cursor) u16() uint16 {
	b := c.take(2)
	if b == nil {
		return 0
	}
	return c.order().Uint16(b)
}

func (c *cursor) u24() uint32 {
	b := c.take(3)
	if b == nil {
		return 0
	}
	if c.be {
		return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	}
	return uint32(b[2])<<16 | uint32(b[1])<<8 | uint32(b[0])
}

func (c *cursor) u32() uint32 {
	b := c.take(4)
	if b == nil {
		return 0
	}
	if !c.be {
		return binary.LittleEndian.Uint32(b)
	}
	return binary.BigEndian.Uint32(b)
}

func (c *cursor) u64() uint64 {
	b := c.take(8)
	if b == nil {
		return 0
	}
	if !c.be {
		return binary.LittleEndian.Uint64(b)
	}
	return binary.BigEndian.Uint64(b)
}

// uint reads n bytes: 1, 2, 4 or 8.
func (c *cursor) uint(n int) uint64 {
	switch n {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.bad = true
	return 0
}

func (c *cursor) uleb() uint64 {
	v, next := leb(c.b, c.off)
	c.moveTo(next)
	return v
}

// moveTo moves to the offset behind a number. An offset beyond the end means that the number
// was truncated.
func (c *cursor) moveTo(next int) {
	if next > len(c.b) {
		c.bad, next = true, len(c.b)
	}
	c.off = next
}

// leb reads an unsigned LEB128 number at b[i:] and returns the offset behind it, which is
// len(b)+1 if the number, or what came before it, is truncated.
func leb(b []byte, i int) (v uint64, next int) {
	if i < len(b) {
		if v = uint64(b[i]); v < 0x80 {
			return v, i + 1
		}
	}
	return longLEB(b, i)
}

func longLEB(b []byte, i int) (v uint64, next int) {
	for shift := 0; shift < 70 && i < len(b); shift += 7 {
		x := b[i]
		i++
		if shift < 64 {
			v |= uint64(x&0x7f) << shift
		}
		if x < 0x80 {
			return v, i
		}
	}
	return 0, len(b) + 1
}

func (c *cursor) sleb() int64 {
	v, next := sleb(c.b, c.off)
	c.moveTo(next)
	return v
}

// sleb is leb for signed numbers.
func sleb(b []byte, i int) (v int64, next int) {
	for shift := 0; shift < 70 && i < len(b); shift += 7 {
		x := b[i]
		i++
		if shift < 64 {
			v |= int64(x&0x7f) << shift
		}
		if x < 0x80 {
			if x&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v, i
		}
	}
	return 0, len(b) + 1
}

// str reads a NUL-terminated string.
func (c *cursor) str() []byte {
	if c.off > len(c.b) {
		c.bad = true
		return nil
	}
	i := bytes.IndexByte(c.b[c.off:], 0)
	if i < 0 {
		c.bad, c.off = true, len(c.b)
		return nil
	}
	s := c.b[c.off : c.off+i]
	c.off += i + 1
	return s
}

// strAt returns the string at an offset of a string section.
func strAt(b []byte, off uint64) []byte {
	if off >= uint64(len(b)) {
		return nil
	}
	b = b[off:]
	i := bytes.IndexByte(b[:min(len(b), maxString)], 0)
	if i < 0 {
		return nil
	}
	return b[:i]
}

// maxString bounds names and paths; C++ names of 20,000 bytes exist.
const maxString = 1 << 16
