package cdecl

import "github.com/cilium/ebpf/btf"

// info contains what the layout of a type needs of another one.
type info struct {
	size  uint64 // bytes
	align uint64 // bytes
	depth int    // nesting of types
	whole bool   // the size is known
}

// field contains what the layout of a struct needs of a member.
type field struct {
	info
	bits  uint64 // of a bit field
	isBit bool
	named bool
	attrs attrs
}

// layout places the members of a struct or union like GCC and clang for the System V ABI of
// x86-64, and for AAPCS64: bit fields follow the previous one, unless they would span more
// units of their type than their type does.
type layout struct {
	union        bool
	packed       bool
	alignUnnamed bool
	align        uint64 // bytes, at least 1
	next         uint64 // the bit offset after the last member
	size         uint64 // in bits, so far
}

// place returns the member's offset in bits.
func (l *layout) place(f *field) uint64 {
	packed := l.packed || f.attrs.packed
	if f.isBit && f.bits == 0 {
		packed = false // a zero-width bit field ends a unit, even in packed structs
	}
	want := l.wanted(f, packed) // bits
	if !f.isBit || f.named || l.alignUnnamed {
		l.align = max(l.align, want/8)
		if f.isBit && !packed {
			l.align = max(l.align, f.align)
		}
	}
	at := uint64(0)
	if !l.union {
		at = roundUp(l.next, want)
	}
	bits := f.size * 8
	if f.isBit {
		if bits = f.bits; !packed && bits > 0 && spans(at, bits, f.align*8) > f.size/f.align {
			at = roundUp(at, f.align*8)
		}
	}
	l.next = at + bits
	l.size = max(l.size, l.next)
	return at
}

// wanted returns the alignment of a member, in bits.
func (l *layout) wanted(f *field, packed bool) uint64 {
	own := f.attrs.align * 8
	switch {
	case f.isBit && f.bits == 0:
		return max(own, f.align*8)
	case f.isBit:
		return max(own, 1)
	case packed:
		return max(own, 8) // an attribute counts; the type's own alignment does not
	}
	return max(own, f.align*8)
}

// spans returns the number of units that a bit field touches.
func spans(at, bits, unit uint64) uint64 { return (at%unit + bits + unit - 1) / unit }

// end returns the size in bytes.
func (l *layout) end() uint64 { return roundUp(l.size, l.align*8) / 8 }

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// infoOf returns the info of a type that was read, or resolved.
func (s *state) infoOf(t btf.Type) info {
	if i, ok := s.infos[t]; ok {
		return i
	}
	switch t := t.(type) {
	case *btf.Int:
		return info{uint64(t.Size), min(uint64(t.Size), 16), 0, true}
	case *btf.Float:
		return info{uint64(t.Size), uint64(t.Size), 0, true}
	case *btf.Enum:
		return info{uint64(t.Size), uint64(t.Size), 0, true}
	case *btf.Pointer:
		return info{8, 8, 1, true}
	}
	return info{}
}

// resolvedInfo computes the alignment of a type that Resolve returned: BTF contains only sizes
// and offsets.
func (s *state) resolvedInfo(t btf.Type, depth int) info {
	if i, ok := s.infos[t]; ok || t == nil || depth > maxDepth {
		return i // types nested deeper are unknown
	}
	inner := func(t btf.Type) info {
		i := s.resolvedInfo(t, depth+1)
		i.depth++
		return i
	}
	var i info
	switch t := t.(type) {
	case *btf.Typedef:
		i = inner(t.Type)
	case *btf.Const:
		i = inner(t.Type)
	case *btf.Volatile:
		i = inner(t.Type)
	case *btf.Restrict:
		i = inner(t.Type)
	case *btf.TypeTag:
		i = inner(t.Type)
	case *btf.Array:
		i = inner(t.Type)
		i.size *= uint64(t.Nelems)
	case *btf.Struct:
		i = s.natural(uint64(t.Size), t.Members, depth)
	case *btf.Union:
		i = s.natural(uint64(t.Size), t.Members, depth)
	default:
		return s.infoOf(t)
	}
	if i.size > maxSize {
		i.whole = false
	}
	s.infos[t] = i
	return i
}

// natural returns the alignment of a struct that follows from its members, unless their
// offsets, or its size, show that it has another one.
func (s *state) natural(size uint64, members []btf.Member, depth int) info {
	i := info{size: size, align: 1, whole: true}
	for _, m := range members {
		of := s.resolvedInfo(m.Type, depth+1)
		i.depth = max(i.depth, of.depth+1)
		if of.align == 0 || m.BitfieldSize == 0 && uint64(m.Offset)%(of.align*8) != 0 {
			of.align = 1 // the struct is packed
		}
		i.align = max(i.align, of.align)
	}
	for size%i.align != 0 {
		i.align /= 2
	}
	return i
}
