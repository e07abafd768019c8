package probe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
)

// BTFNeeds names what a program uses of a kernel's types.
type BTFNeeds struct {
	// Types are structs, unions, enums, typedefs and integers by name, without
	// keyword.
	Types []string
	// Funcs are functions whose prototypes are used.
	Funcs []string
	// Members are the names of the members that are used, of whatever struct.
	// Anonymous members are kept where one inside them is.
	Members []string
	// Enumerators are the names of enumerators: the enums that have one of them
	// are kept, those without a name too.
	Enumerators []string
}

// MinimalBTF reduces a kernel's BTF, or a part of it, to what is needed: structs
// keep their sizes, and of their members those that are named, at their offsets.
// The result is BTF again, some kilobytes, to be embedded in a program for
// kernels without their own (EnvOptions.BTF, or a file of EnvOptions.BTFDir). It
// depends on nothing but its arguments; names that are not there are no error.
func MinimalBTF(raw []byte, need *BTFNeeds) ([]byte, error) {
	r, err := newBTFBlob(raw)
	if err != nil {
		return nil, fmt.Errorf("minimal BTF: %w", err)
	}
	m := &minBTF{btfBlob: r, members: map[string]bool{}, kept: map[uint32][]int{}}
	for _, name := range need.Members {
		m.members[name] = true
	}
	m.roots(need)
	for len(m.work) > 0 {
		id := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		if err := m.visit(id); err != nil {
			return nil, fmt.Errorf("minimal BTF: type %d: %w", id, err)
		}
	}
	return m.write(), nil
}

// MinimalBTF returns what is needed of the kernel's types, many times faster than
// BTF, which indexes all of them. If BTF was called before, it returns that.
func (e *Env) MinimalBTF(need *BTFNeeds) (*btf.Spec, error) {
	if spec := e.btfHere.Load(); spec != nil {
		return spec, nil
	}
	raw, done, err := e.rawBTF()
	if err != nil {
		return nil, e.noBTF(err)
	}
	defer done()
	small, err := MinimalBTF(raw, need)
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(small))
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	return spec, nil
}

// CaptureBTF returns what is needed of the kernel's types as BTF to be kept, and
// its path in a tree of BTFHub's layout (EnvOptions.BTFDir).
func (e *Env) CaptureBTF(need *BTFNeeds) (raw []byte, path string, err error) {
	all, done, err := e.rawBTF()
	if err != nil {
		return nil, "", e.noBTF(err)
	}
	defer done()
	if raw, err = MinimalBTF(all, need); err != nil {
		return nil, "", err
	}
	id, version := e.osRelease()
	for _, s := range []*string{&id, &version} {
		if *s == "" {
			*s = "unknown"
		}
	}
	return raw, fmt.Sprintf("%s/%s/%s/%s.btf", id, version, e.hubArch(), e.release), nil
}

// rawBTF gives the kernel's BTF, or its replacement in a tree, until done is called.
func (e *Env) rawBTF() (raw []byte, done func(), err error) {
	if e.live {
		if raw, done, ok := kernel.MapBTF(maxBTF); ok {
			return raw, done, nil
		}
	}
	b, err := fs.ReadFile(e.root, "sys/kernel/btf/vmlinux")
	if err != nil && e.btfDir != nil {
		b, err = e.hubBTF()
	}
	return b, func() {}, err
}

// Kinds of BTF types (include/uapi/linux/btf.h).
const (
	btfInt = iota + 1
	btfPtr
	btfArray
	btfStruct
	btfUnion
	btfEnum
	btfFwd
	btfTypedef
	btfVolatile
	btfConst
	btfRestrict
	btfFunc
	btfFuncProto
	btfVar
	btfDatasec
	btfFloat
	btfDeclTag
	btfTypeTag
	btfEnum64
)

// btfHeader is the size of struct btf_header, btfType of struct btf_type.
const (
	btfMagic  = 0xeb9f
	btfHeader = 24
	btfType   = 12
)

// btfBlob is a BTF blob with the places of its types.
type btfBlob struct {
	order   binary.ByteOrder
	types   []byte
	strings []byte
	at      []uint32 // by type id: the type's offset in types; id 0 is void
}

func newBTFBlob(raw []byte) (*btfBlob, error) {
	if len(raw) < btfHeader {
		return nil, fmt.Errorf("%d bytes are no BTF", len(raw))
	}
	r := &btfBlob{order: binary.LittleEndian}
	if r.order.Uint16(raw) != btfMagic {
		r.order = binary.BigEndian
	}
	size := r.order.Uint32(raw[4:])
	if r.order.Uint16(raw) != btfMagic || raw[2] != 1 || size < btfHeader || uint64(size) > uint64(len(raw)) {
		return nil, fmt.Errorf("not BTF of version 1")
	}
	part := func(off int) ([]byte, error) {
		start := uint64(size) + uint64(r.order.Uint32(raw[off:]))
		end := start + uint64(r.order.Uint32(raw[off+4:]))
		if end > uint64(len(raw)) {
			return nil, fmt.Errorf("a section ends at byte %d of %d", end, len(raw))
		}
		return raw[start:end], nil
	}
	var err error
	if r.types, err = part(8); err != nil {
		return nil, err
	}
	if r.strings, err = part(16); err != nil {
		return nil, err
	}
	return r, r.index()
}

// index finds the types: they are of different sizes, one behind the other.
func (r *btfBlob) index() error {
	r.at = make([]uint32, 1, len(r.types)/20+1)
	for off := 0; off < len(r.types); {
		if len(r.types)-off < btfType {
			return fmt.Errorf("type %d is cut", len(r.at))
		}
		extra, ok := r.extra(uint32(off))
		if !ok || len(r.types)-off-btfType < extra {
			return fmt.Errorf("type %d of kind %d is cut or unknown", len(r.at), r.kind(uint32(off)))
		}
		r.at = append(r.at, uint32(off))
		off += btfType + extra
	}
	return nil
}

func (r *btfBlob) word(off uint32) uint32 { return r.order.Uint32(r.types[off:]) }

// kind and vlen are read with the bits that Linux 7.2 gave them, zero before.
func (r *btfBlob) kind(off uint32) uint32 { return r.word(off+4) >> 24 & 0x7f }
func (r *btfBlob) vlen(off uint32) int    { return int(r.word(off+4) & 0xffffff) }

// extra is the size of what follows a type's struct btf_type.
func (r *btfBlob) extra(off uint32) (int, bool) {
	switch r.kind(off) {
	case btfInt, btfVar, btfDeclTag:
		return 4, true
	case btfArray:
		return 12, true
	case btfStruct, btfUnion, btfDatasec, btfEnum64:
		return 12 * r.vlen(off), true
	case btfEnum, btfFuncProto:
		return 8 * r.vlen(off), true
	case btfPtr, btfFwd, btfTypedef, btfVolatile, btfConst, btfRestrict, btfFunc, btfFloat, btfTypeTag:
		return 0, true
	}
	return 0, false
}

// name is the string at an offset, without a copy.
func (r *btfBlob) name(off uint32) []byte {
	if uint64(off) >= uint64(len(r.strings)) {
		return nil
	}
	s := r.strings[off:]
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// minBTF marks what is needed, and writes it.
type minBTF struct {
	*btfBlob
	members map[string]bool
	kept    map[uint32][]int // by type id: the members kept, of structs and unions
	seen    []bool
	work    []uint32
}

// What a name is wanted as.
const (
	wantType = 1 << iota
	wantFunc
	wantEnumerator
)

// roots marks the types and functions that are named. The names are looked for
// once, in the strings; of the types, the names' offsets are compared.
func (m *minBTF) roots(need *BTFNeeds) {
	m.seen = make([]bool, len(m.at))
	wanted := m.offsets(need)
	for id, off := range m.at {
		if id == 0 {
			continue
		}
		want := uint8(wantType)
		switch m.kind(off) {
		case btfFunc:
			want = wantFunc
		case btfInt, btfStruct, btfUnion, btfEnum, btfEnum64, btfTypedef, btfFloat:
		default:
			continue
		}
		if name := m.word(off); wanted[name]&want != 0 || len(need.Enumerators) > 0 && m.enumerates(off, wanted) {
			m.mark(uint32(id))
		}
	}
}

// enumerates says whether a type is an enum with an enumerator that is wanted.
func (m *minBTF) enumerates(off uint32, wanted map[uint32]uint8) bool {
	size := uint32(8)
	switch m.kind(off) {
	case btfEnum:
	case btfEnum64:
		size = 12
	default:
		return false
	}
	for i := range uint32(m.vlen(off)) {
		if wanted[m.word(off+btfType+size*i)]&wantEnumerator != 0 {
			return true
		}
	}
	return false
}

// offsets are where in the strings the names are, and what they are wanted as.
func (m *minBTF) offsets(need *BTFNeeds) map[uint32]uint8 {
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
	var maybe [256]uint64 // by first byte, a bit by length: most strings end here
	for n := range names {
		if n != "" {
			maybe[n[0]] |= 1 << (len(n) & 63)
		}
	}
	out := map[uint32]uint8{}
	for off := 1; off < len(m.strings); {
		s := m.strings[off:]
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

func (m *minBTF) mark(id uint32) {
	if id != 0 && id < uint32(len(m.seen)) && !m.seen[id] {
		m.seen[id] = true
		m.work = append(m.work, id)
	}
}

// visit marks what a type refers to.
func (m *minBTF) visit(id uint32) error {
	off := m.at[id]
	body := off + btfType
	switch m.kind(off) {
	case btfPtr, btfTypedef, btfVolatile, btfConst, btfRestrict, btfFunc, btfTypeTag:
		m.mark(m.word(off + 8))
	case btfArray:
		m.mark(m.word(body))
		m.mark(m.word(body + 4))
	case btfFuncProto:
		m.mark(m.word(off + 8))
		for i := range m.vlen(off) {
			m.mark(m.word(body + uint32(8*i+4)))
		}
	case btfStruct, btfUnion:
		m.kept[id] = nil
		for i := range m.vlen(off) {
			at := body + uint32(12*i)
			name := m.name(m.word(at))
			if len(name) == 0 && !m.uses(m.word(at+4), 0) || len(name) > 0 && !m.members[string(name)] {
				continue
			}
			m.kept[id] = append(m.kept[id], i)
			m.mark(m.word(at + 4))
		}
	case btfInt, btfEnum, btfEnum64, btfFwd, btfFloat:
	default:
		return fmt.Errorf("kind %d is no type", m.kind(off))
	}
	return nil
}

// maxNesting bounds how deep anonymous members are followed.
const maxNesting = 32

// uses says whether an anonymous member has one that is named.
func (m *minBTF) uses(id uint32, depth int) bool {
	if id == 0 || id >= uint32(len(m.at)) || depth > maxNesting {
		return false
	}
	off := m.at[id]
	if k := m.kind(off); k != btfStruct && k != btfUnion {
		return false
	}
	for i := range m.vlen(off) {
		at := off + btfType + uint32(12*i)
		name := m.name(m.word(at))
		if len(name) > 0 && m.members[string(name)] || len(name) == 0 && m.uses(m.word(at+4), depth+1) {
			return true
		}
	}
	return false
}

// write writes what is marked, in the order that it was in.
func (m *minBTF) write() []byte {
	ids := make([]uint32, len(m.at)) // new id by old
	n := uint32(0)
	for id, ok := range m.seen {
		if ok {
			n++
			ids[id] = n
		}
	}
	w := &btfWriter{minBTF: m, ids: ids, strs: []byte{0}, known: map[string]uint32{"": 0}}
	for id, ok := range m.seen {
		if ok {
			w.one(uint32(id))
		}
	}
	out := make([]byte, btfHeader, btfHeader+len(w.out)+len(w.strs))
	m.order.PutUint16(out, btfMagic)
	out[2] = 1
	for i, v := range []int{btfHeader, 0, len(w.out), len(w.out), len(w.strs)} {
		m.order.PutUint32(out[4+4*i:], uint32(v))
	}
	return append(append(out, w.out...), w.strs...)
}

type btfWriter struct {
	*minBTF
	ids   []uint32
	out   []byte
	strs  []byte
	known map[string]uint32
}

func (w *btfWriter) put(v uint32) {
	var b [4]byte
	w.order.PutUint32(b[:], v)
	w.out = append(w.out, b[:]...)
}

func (w *btfWriter) str(off uint32) {
	s := string(w.name(off))
	to, ok := w.known[s]
	if !ok {
		to = uint32(len(w.strs))
		w.known[s] = to
		w.strs = append(append(w.strs, s...), 0)
	}
	w.put(to)
}

// id writes a reference to a type; one out of range was not there before either.
func (w *btfWriter) id(old uint32) {
	if old < uint32(len(w.ids)) {
		old = w.ids[old]
	}
	w.put(old)
}

func (w *btfWriter) one(id uint32) {
	off := w.at[id]
	info, kind, body := w.word(off+4), w.kind(off), off+btfType
	members, cut := w.kept[id]
	if cut {
		info = info&^0xffffff | uint32(len(members))
	}
	w.str(w.word(off))
	w.put(info)
	switch kind {
	case btfPtr, btfTypedef, btfVolatile, btfConst, btfRestrict, btfFunc, btfTypeTag, btfFuncProto:
		w.id(w.word(off + 8))
	default:
		w.put(w.word(off + 8))
	}
	switch kind {
	case btfInt:
		w.put(w.word(body))
	case btfArray:
		w.id(w.word(body))
		w.id(w.word(body + 4))
		w.put(w.word(body + 8))
	case btfStruct, btfUnion:
		for _, i := range members {
			at := body + uint32(12*i)
			w.str(w.word(at))
			w.id(w.word(at + 4))
			w.put(w.word(at + 8))
		}
	case btfFuncProto:
		for i := range w.vlen(off) {
			w.str(w.word(body + uint32(8*i)))
			w.id(w.word(body + uint32(8*i+4)))
		}
	case btfEnum:
		for i := range w.vlen(off) {
			w.str(w.word(body + uint32(8*i)))
			w.put(w.word(body + uint32(8*i+4)))
		}
	case btfEnum64:
		for i := range w.vlen(off) {
			at := body + uint32(12*i)
			w.str(w.word(at))
			w.put(w.word(at + 4))
			w.put(w.word(at + 8))
		}
	}
}
