package stack

import (
	"bytes"
	"encoding/binary"
	"errors"
)

var errShortCFI = errors.New("call frame information ends too early")

// dwarfReader reads little-endian DWARF data. After an error every read
// returns 0 and err stays set.
type dwarfReader struct {
	b      []byte
	pos    int
	err    error
	narrow bool // addresses have 32 bits
}

func (r *dwarfReader) fail() {
	if r.err == nil {
		r.err = errShortCFI
	}
	r.pos = len(r.b)
}

func (r *dwarfReader) more() bool { return r.pos < len(r.b) && r.err == nil }

func (r *dwarfReader) u8() uint8 {
	if r.pos >= len(r.b) {
		r.fail()
		return 0
	}
	v := r.b[r.pos]
	r.pos++
	return v
}

func (r *dwarfReader) take(n uint64) []byte {
	if n > uint64(len(r.b)-r.pos) {
		r.fail()
		return nil
	}
	b := r.b[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *dwarfReader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *dwarfReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *dwarfReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// address reads an address.
func (r *dwarfReader) address() uint64 {
	if r.narrow {
		return uint64(r.u32())
	}
	return r.u64()
}

// uleb reads an unsigned LEB128 number; bits above the 64th are dropped.
func (r *dwarfReader) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if shift < 64 {
			v |= uint64(c&0x7f) << shift
		}
		if c&0x80 == 0 {
			return v
		}
	}
}

// sleb reads a signed LEB128 number.
func (r *dwarfReader) sleb() int64 {
	var v int64
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if shift < 64 {
			v |= int64(c&0x7f) << shift
		}
		if c&0x80 == 0 {
			if shift+7 < 64 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

func (r *dwarfReader) cstring() string {
	n := bytes.IndexByte(r.b[r.pos:], 0)
	if n < 0 {
		r.fail()
		return ""
	}
	s := string(r.b[r.pos : r.pos+n])
	r.pos += n + 1
	return s
}

// Pointer encodings of .eh_frame: Linux Standard Base 5.0 core, 10.5.1.
const (
	ehAbs      = 0x00
	ehULEB     = 0x01
	ehUData2   = 0x02
	ehUData4   = 0x03
	ehUData8   = 0x04
	ehSLEB     = 0x09
	ehSData2   = 0x0a
	ehSData4   = 0x0b
	ehSData8   = 0x0c
	ehPCRel    = 0x10
	ehTextRel  = 0x20
	ehDataRel  = 0x30
	ehFuncRel  = 0x40
	ehAligned  = 0x50
	ehIndirect = 0x80
	ehOmit     = 0xff
)

// pointer reads an encoded pointer. base is the address of the reader's first byte;
// textBase and dataBase are the origins of relative encodings. Indirect pointers are
// returned as the address of the pointer: only personality routines are indirect, and they
// are not called here.
func (r *dwarfReader) pointer(enc uint8, base, dataBase uint64) (uint64, bool) {
	if enc == ehOmit {
		return 0, false
	}
	at := base + uint64(r.pos)
	var v uint64
	switch enc & 0x0f {
	case ehAbs:
		v = r.address()
	case ehUData8, ehSData8:
		v = r.u64()
	case ehULEB:
		v = r.uleb()
	case ehUData2:
		v = uint64(r.u16())
	case ehUData4:
		v = uint64(r.u32())
	case ehSLEB:
		v = uint64(r.sleb())
	case ehSData2:
		v = uint64(int64(int16(r.u16())))
	case ehSData4:
		v = uint64(int64(int32(r.u32())))
	default:
		return 0, false
	}
	switch enc & 0x70 {
	case ehAbs:
	case ehPCRel:
		v += at
	case ehDataRel:
		v += dataBase
	default: // text, function and aligned are not used on the machines here
		return 0, false
	}
	if r.narrow {
		v = uint64(uint32(v))
	}
	return v, r.err == nil
}
