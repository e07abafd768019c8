package output

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
)

// deepest is how many structs and arrays within each other are printed.
const deepest = 32

// memory returns a C value of the kernel's types, or of the script's, from its bytes.
func (o *Options) memory(t btf.Type, b []byte, depth int) any {
	if t == nil || depth > deepest {
		return fmt.Sprintf("%x", b)
	}
	switch u := ctype.Underlying(t).(type) {
	case *btf.Struct:
		return o.record(u.Members, b, depth)
	case *btf.Union:
		return o.record(u.Members, b, depth)
	case *btf.Array:
		return o.array(u, b, depth)
	case *btf.Pointer:
		n := number(b, false)
		return Symbol{"0x" + strconv.FormatUint(n, 16), n}
	case *btf.Enum:
		n := number(b, u.Signed)
		for _, v := range u.Values {
			if v.Value == n {
				return Symbol{v.Name, n}
			}
		}
		return Symbol{strconv.FormatUint(n, 10), n}
	case *btf.Int:
		if u.Encoding == btf.Bool {
			return number(b, false) != 0
		}
		if ctype.Signed(t) {
			return int64(number(b, true))
		}
		return number(b, false)
	case *btf.Float:
		return nil // the language has no such numbers
	}
	return fmt.Sprintf("%x", b)
}

func (o *Options) record(members []btf.Member, b []byte, depth int) any {
	r := make(Record, 0, len(members))
	for _, m := range members {
		if m.BitfieldSize > 0 {
			n := bits(b, uint(m.Offset), uint(m.BitfieldSize), ctype.Signed(m.Type))
			if ctype.Signed(m.Type) {
				r = append(r, Field{m.Name, int64(n)})
			} else {
				r = append(r, Field{m.Name, n})
			}
			continue
		}
		size, err := btf.Sizeof(m.Type)
		at := int(m.Offset.Bytes())
		if err != nil || at+size > len(b) {
			r = append(r, Field{m.Name, nil})
			continue
		}
		r = append(r, Field{m.Name, o.memory(m.Type, b[at:at+size], depth+1)})
	}
	return r
}

// array returns an array; one of bytes is text, as BTF does not tell them apart.
func (o *Options) array(a *btf.Array, b []byte, depth int) any {
	size, err := btf.Sizeof(a.Type)
	if err != nil || size == 0 || size*int(a.Nelems) > len(b) {
		return fmt.Sprintf("%x", b)
	}
	if i, ok := ctype.Underlying(a.Type).(*btf.Int); ok && i.Size == 1 && i.Encoding != btf.Bool {
		for n, c := range b {
			if c == 0 {
				b = b[:n]
				break
			}
		}
		return o.safe(string(b))
	}
	list := make(List, a.Nelems)
	for i := range list {
		list[i] = o.memory(a.Type, b[i*size:][:size], depth+1)
	}
	return list
}

// number returns an integer of up to 8 bytes, in little-endian order.
func number(b []byte, signed bool) uint64 {
	return bits(b, 0, uint(8*min(len(b), 8)), signed)
}

// bits returns the bits of a field, at an offset in bits.
func bits(b []byte, offset, width uint, signed bool) uint64 {
	var w [16]byte
	if first := int(offset / 8); first < len(b) {
		copy(w[:], b[first:])
	}
	if width == 0 || width > 64 {
		return 0
	}
	shift := offset % 8
	n := binary.LittleEndian.Uint64(w[:]) >> shift
	if shift > 0 {
		n |= binary.LittleEndian.Uint64(w[8:]) << (64 - shift)
	}
	n <<= 64 - width
	if signed {
		return uint64(int64(n) >> (64 - width))
	}
	return n >> (64 - width)
}
