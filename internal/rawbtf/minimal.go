package rawbtf

import (
	"bytes"
	"fmt"
)

// Needs lists what a program uses of a kernel's types.
type Needs struct {
	// Types are the names of structs, unions, enums, typedefs and integers, without keyword.
	Types []string
	// Funcs are the names of functions with prototypes that are used.
	Funcs []string
	// Members are the names of members that are used, of any struct. An anonymous member is
	// kept if one inside it is.
	Members []string
	// Enumerators are the names of enumerators. The enums that have one of them are kept, even
	// those without a name.
	Enumerators []string
}

// Minimal reduces a kernel's BTF, or a part of it, to what is needed. Structs keep their
// sizes, and those of their members that need lists, at their offsets. The result is BTF of
// some kilobytes. It depends only on the arguments. Names that do not exist are no error.
func Minimal(raw []byte, need *Needs) ([]byte, error) {
	r, err := New(raw)
	if err != nil {
		return nil, err
	}
	m := &minimizer{Blob: r, members: map[string]bool{}, kept: map[uint32][]int{}}
	for _, name := range need.Members {
		m.members[name] = true
	}
	m.roots(need)
	for len(m.work) > 0 {
		id := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		if err := m.visit(id); err != nil {
			return nil, fmt.Errorf("type %d: %w", id, err)
		}
	}
	return m.write(), nil
}

// minimizer marks the types that are needed, and writes them.
type minimizer struct {
	*Blob
	members map[string]bool
	kept    map[uint32][]int // members kept of structs and unions, by type id
	seen    []bool
	work    []uint32
}

// These are the kinds of what a name is needed for.
const (
	wantType = 1 << iota
	wantFunc
	wantEnumerator
)

// roots marks the types and functions that need lists. It searches the strings once for the
// names, and then compares only their offsets with those of the types.
func (m *minimizer) roots(need *Needs) {
	m.seen = make([]bool, len(m.At))
	wanted := m.offsets(need)
	for id, off := range m.At {
		if id == 0 {
			continue
		}
		want := uint8(wantType)
		switch m.Kind(off) {
		case Func:
			want = wantFunc
		case Int, Struct, Union, Enum, Enum64, Typedef, Float:
		default:
			continue
		}
		if name := m.Word(off); wanted[name]&want != 0 ||
			len(need.Enumerators) > 0 && m.enumerates(off, wanted) {
			m.mark(uint32(id))
		}
	}
}

// enumerates reports whether a type is an enum with an enumerator that is needed.
func (m *minimizer) enumerates(off uint32, wanted map[uint32]uint8) bool {
	size := uint32(8)
	switch m.Kind(off) {
	case Enum:
	case Enum64:
		size = 12
	default:
		return false
	}
	for i := range uint32(m.Vlen(off)) {
		if wanted[m.Word(off+TypeSize+size*i)]&wantEnumerator != 0 {
			return true
		}
	}
	return false
}

// offsets returns the offsets of the names in the strings, with what they are needed for.
func (m *minimizer) offsets(need *Needs) map[uint32]uint8 {
	names := map[string]uint8{}
	for _, n := range need.Types {
		names[n] |= wantType
	}
	for _, n := range need.Funcs {
		names[n] |= wantFunc
	}
	for _, n := range need.Enumerators {
		names[n] |= wantEnumerator
	}
	var maybe [256]uint64 // a bit for each length, by first byte: rejects most strings
	for n := range names {
		if n != "" {
			maybe[n[0]] |= 1 << (len(n) & 63)
		}
	}
	out := map[uint32]uint8{}
	for off := 1; off < len(m.Strings); {
		s := m.Strings[off:]
		n := bytes.IndexByte(s, 0)
		if n < 0 {
			n = len(s)
		}
		if n > 0 && maybe[s[0]]&(1<<(n&63)) != 0 {
			if want := names[string(s[:n])]; want != 0 {
				out[uint32(off)] = want
			}
		}
		off += n + 1
	}
	return out
}

func (m *minimizer) mark(id uint32) {
	if id != 0 && id < uint32(len(m.seen)) && !m.seen[id] {
		m.seen[id] = true
		m.work = append(m.work, id)
	}
}

// visit marks the types that a type refers to.
func (m *minimizer) visit(id uint32) error {
	off := m.At[id]
	body := off + TypeSize
	switch m.Kind(off) {
	case Ptr, Typedef, Volatile, Const, Restrict, Func, TypeTag:
		m.mark(m.Word(off + 8))
	case Array:
		m.mark(m.Word(body))
		m.mark(m.Word(body + 4))
	case FuncProto:
		m.mark(m.Word(off + 8))
		for i := range m.Vlen(off) {
			m.mark(m.Word(body + uint32(8*i+4)))
		}
	case Struct, Union:
		m.kept[id] = nil
		for i := range m.Vlen(off) {
			at := body + uint32(12*i)
			name := m.Name(m.Word(at))
			if len(name) == 0 && !m.uses(m.Word(at+4), 0) || len(name) > 0 && !m.members[string(name)] {
				continue
			}
			m.kept[id] = append(m.kept[id], i)
			m.mark(m.Word(at + 4))
		}
	case Int, Enum, Enum64, Fwd, Float:
	default:
		return fmt.Errorf("kind %d is no type", m.Kind(off))
	}
	return nil
}

// maxNesting bounds the nesting of anonymous members.
const maxNesting = 32

// uses reports whether an anonymous member contains a member that is needed.
func (m *minimizer) uses(id uint32, depth int) bool {
	if id == 0 || id >= uint32(len(m.At)) || depth > maxNesting {
		return false
	}
	off := m.At[id]
	if k := m.Kind(off); k != Struct && k != Union {
		return false
	}
	for i := range m.Vlen(off) {
		at := off + TypeSize + uint32(12*i)
		name := m.Name(m.Word(at))
		if len(name) > 0 && m.members[string(name)] || len(name) == 0 && m.uses(m.Word(at+4), depth+1) {
			return true
		}
	}
	return false
}

// write writes the marked types, in their original order.
func (m *minimizer) write() []byte {
	ids := make([]uint32, len(m.At)) // new id by old
	n := uint32(0)
	for id, ok := range m.seen {
		if ok {
			n++
			ids[id] = n
		}
	}
	w := &writer{minimizer: m, ids: ids, strs: []byte{0}, known: map[string]uint32{"": 0}}
	for id, ok := range m.seen {
		if ok {
			w.one(uint32(id))
		}
	}
	out := make([]byte, headerSize, headerSize+len(w.out)+len(w.strs))
	m.order.PutUint16(out, Magic)
	out[2] = 1
	for i, v := range []int{headerSize, 0, len(w.out), len(w.out), len(w.strs)} {
		m.order.PutUint32(out[4+4*i:], uint32(v))
	}
	return append(append(out, w.out...), w.strs...)
}

type writer struct {
	*minimizer
	ids   []uint32
	out   []byte
	strs  []byte
	known map[string]uint32
}

func (w *writer) put(v uint32) {
	var b [4]byte
	w.order.PutUint32(b[:], v)
	w.out = append(w.out, b[:]...)
}

func (w *writer) str(off uint32) {
	s := string(w.Name(off))
	to, ok := w.known[s]
	if !ok {
		to = uint32(len(w.strs))
		w.known[s] = to
		w.strs = append(append(w.strs, s...), 0)
	}
	w.put(to)
}

// id writes a reference to a type. One that is out of range was already so before.
func (w *writer) id(old uint32) {
	if old < uint32(len(w.ids)) {
		old = w.ids[old]
	}
	w.put(old)
}

func (w *writer) one(id uint32) {
	off := w.At[id]
	info, kind, body := w.Word(off+4), w.Kind(off), off+TypeSize
	members, cut := w.kept[id]
	if cut {
		info = info&^0xffffff | uint32(len(members))
	}
	w.str(w.Word(off))
	w.put(info)
	switch kind {
	case Ptr, Typedef, Volatile, Const, Restrict, Func, TypeTag, FuncProto:
		w.id(w.Word(off + 8))
	default:
		w.put(w.Word(off + 8))
	}
	switch kind {
	case Int:
		w.put(w.Word(body))
	case Array:
		w.id(w.Word(body))
		w.id(w.Word(body + 4))
		w.put(w.Word(body + 8))
	case Struct, Union:
		for _, i := range members {
			at := body + uint32(12*i)
			w.str(w.Word(at))
			w.id(w.Word(at + 4))
			w.put(w.Word(at + 8))
		}
	case FuncProto:
		for i := range w.Vlen(off) {
			w.str(w.Word(body + uint32(8*i)))
			w.id(w.Word(body + uint32(8*i+4)))
		}
	case Enum:
		for i := range w.Vlen(off) {
			w.str(w.Word(body + uint32(8*i)))
			w.put(w.Word(body + uint32(8*i+4)))
		}
	case Enum64:
		for i := range w.Vlen(off) {
			at := body + uint32(12*i)
			w.str(w.Word(at))
			w.put(w.Word(at + 4))
			w.put(w.Word(at + 8))
		}
	}
}
