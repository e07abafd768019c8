package rawbtf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Needs lists what a program uses of a kernel's types.
type Needs struct {
	// Types are the names of structs, unions, enums, typedefs and integers, without keyword.
	Types []string
	// Funcs are the names of functions with prototypes that are used.
	Funcs []string
	// Vars are the names of variables, with their types.
	Vars []string
	// Members are the names of members that are used, of any struct. An anonymous member is
	// kept if one inside it is.
	Members []string
	// Whole keeps all members. The structs, unions and functions behind a pointer in a struct are
	// kept if Members has its name; else it points to a declaration.
	Whole bool
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
	return r.Minimal(need)
}

// Minimal reduces the types as the function does.
func (r *Blob) Minimal(need *Needs) ([]byte, error) {
	m := &minimizer{Blob: r, whole: need.Whole, members: map[string]bool{}, kept: map[uint32][]int{}}
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
	whole   bool
	members map[string]bool
	kept    map[uint32][]int // members kept of structs and unions, by type id
	seen    []bool
	work    []uint32
}

// roots marks what need lists.
func (m *minimizer) roots(need *Needs) {
	m.seen = make([]bool, len(m.At))
	for _, list := range []struct {
		names  []string
		wanted func(kind uint32) bool
	}{
		{need.Types, func(kind uint32) bool { return kind != Func && kind != Var }},
		{need.Funcs, func(kind uint32) bool { return kind == Func }},
		{need.Vars, func(kind uint32) bool { return kind == Var }},
	} {
		m.findAll(list.names, m.whole, func(id uint32) {
			if list.wanted(m.Kind(m.At[id])) {
				m.mark(id)
			}
		})
	}
	if len(need.Enumerators) > 0 {
		m.enums(need.Enumerators)
	}
}

// enums marks the enums with one of the enumerators. It searches the strings once for the names,
// and then compares only their offsets with those of the enumerators.
func (m *minimizer) enums(enumerators []string) {
	wanted := m.offsets(enumerators)
	for id := 1; id < len(m.At); id++ {
		if m.enumerates(m.At[id], wanted) {
			m.mark(uint32(id))
		}
	}
}

// enumerates reports whether a type is an enum with an enumerator that is needed.
func (m *minimizer) enumerates(off uint32, wanted map[uint32]bool) bool {
	size := uint32(8)
	switch m.Kind(off) {
	case Enum:
	case Enum64:
		size = 12
	default:
		return false
	}
	for i := range uint32(m.Vlen(off)) {
		if wanted[m.Word(off+TypeSize+size*i)] {
			return true
		}
	}
	return false
}

// offsets returns the offsets of names in the strings.
func (m *minimizer) offsets(list []string) map[uint32]bool {
	names := map[string]bool{}
	var maybe [256]uint64 // a bit for each length, by first byte: rejects most strings
	for _, n := range list {
		if n != "" {
			names[n] = true
			maybe[n[0]] |= 1 << (len(n) & 63)
		}
	}
	out := map[uint32]bool{}
	for off := 1; off < len(m.Strings); {
		s := m.Strings[off:]
		n := bytes.IndexByte(s, 0)
		if n < 0 {
			n = len(s)
		}
		if n > 0 && maybe[s[0]]&(1<<(n&63)) != 0 && names[string(s[:n])] {
			out[uint32(off)] = true
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
	case Ptr, Typedef, Volatile, Const, Restrict, Func, TypeTag, Var:
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
		if m.whole {
			for i := range m.Vlen(off) {
				at := body + uint32(12*i)
				if _, cut := m.cut(at); !cut {
					m.mark(m.Word(at + 4))
				}
			}
			return nil
		}
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
		return fmt.Errorf("unknown BTF kind %d", m.Kind(off))
	}
	return nil
}

// cut returns what the member at an offset points to, if that is not needed.
func (m *minimizer) cut(at uint32) (target uint32, ok bool) {
	id := m.Word(at + 4)
	if id == 0 || id >= uint32(len(m.At)) || m.Kind(m.At[id]) != Ptr || m.members[string(m.Name(m.Word(at)))] {
		return 0, false
	}
	for range maxNesting {
		if id = m.Word(m.At[id] + 8); id == 0 || id >= uint32(len(m.At)) {
			break
		}
		switch m.Kind(m.At[id]) {
		case Volatile, Const, Restrict, TypeTag:
		case Struct, Union, FuncProto:
			return id, true
		default:
			return 0, false
		}
	}
	return 0, false
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
	n, size := uint32(0), 0
	for id, ok := range m.seen {
		if ok {
			n++
			ids[id] = n
			extra, _ := Extra(Info(m.Word(m.At[id] + 4)))
			size += TypeSize + extra
		}
	}
	w := &writer{minimizer: m, ids: ids, out: make([]byte, 0, size), strs: []byte{0}, known: map[uint32]uint32{}, last: n, declared: map[uint32]uint32{}}
	for id, ok := range m.seen {
		if ok {
			w.one(uint32(id))
		}
	}
	for _, id := range w.tail {
		w.declaration(id)
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
	known map[uint32]uint32 // offsets of strings by their old ones

	last     uint32            // id
	declared map[uint32]uint32 // new ids of pointers to declarations, by what is declared
	tail     []uint32          // what is declared
}

func (w *writer) put(v uint32) {
	if w.big {
		w.out = binary.BigEndian.AppendUint32(w.out, v)
	} else {
		w.out = binary.LittleEndian.AppendUint32(w.out, v)
	}
}

func (w *writer) str(off uint32) {
	to, ok := w.known[off]
	if !ok {
		if s := w.Name(off); len(s) > 0 {
			to = uint32(len(w.strs))
			w.strs = append(append(w.strs, s...), 0)
		}
		w.known[off] = to
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
	case Ptr, Typedef, Volatile, Const, Restrict, Func, TypeTag, FuncProto, Var:
		w.id(w.Word(off + 8))
	default:
		w.put(w.Word(off + 8))
	}
	switch kind {
	case Int, Var:
		w.put(w.Word(body))
	case Array:
		w.id(w.Word(body))
		w.id(w.Word(body + 4))
		w.put(w.Word(body + 8))
	case Struct, Union:
		if w.whole {
			for i := range w.Vlen(off) {
				w.member(body + uint32(12*i))
			}
		}
		for _, i := range members {
			w.member(body + uint32(12*i))
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

func (w *writer) member(at uint32) {
	w.str(w.Word(at))
	id := w.Word(at + 4)
	if target, cut := w.cut(at); w.whole && cut && !w.seen[id] {
		w.put(w.declare(target))
	} else {
		w.id(id)
	}
	w.put(w.Word(at + 8))
}

// declare returns the id of a pointer to a declaration.
func (w *writer) declare(id uint32) uint32 {
	to, ok := w.declared[id]
	if !ok {
		w.last += 2
		to = w.last
		w.declared[id] = to
		w.tail = append(w.tail, id)
	}
	return to
}

// declaration writes the declaration of a struct or union, or void for others, and a pointer to
// it.
func (w *writer) declaration(id uint32) {
	off, named := w.At[id], uint32(0)
	if kind := w.Kind(off); kind != FuncProto && len(w.Name(w.Word(off))) > 0 {
		named = 1
		w.str(w.Word(off))
		info := uint32(Fwd) << 24
		if kind == Union {
			info |= 1 << 31 // kind_flag
		}
		w.put(info)
		w.put(0)
	} else { // ids go by pairs
		w.put(0)
		w.put(uint32(Ptr) << 24)
		w.put(0)
	}
	w.put(0)
	w.put(uint32(Ptr) << 24)
	w.put((w.declared[id] - 1) * named)
}
