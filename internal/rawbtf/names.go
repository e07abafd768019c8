package rawbtf

import (
	"bytes"
	"hash/maphash"
)

// names is an index of the types by name: chains of the types whose names have the same hash. It
// is not sorted, which would take most of the time of making it.
type names struct {
	seed  maphash.Seed
	heads []uint32 // by the low bits of the hash, a type's id or 0
	next  []uint32 // by id, the next type of the chain or 0
}

// indexed returns the index. Whoever asks first makes it, which takes longer than to look for a few names once.
func (r *Blob) indexed() *names {
	r.once.Do(func() {
		size := 1
		for 2*size < len(r.At) { // about half of the types have a name
			size *= 2
		}
		x := &names{maphash.MakeSeed(), make([]uint32, size), make([]uint32, len(r.At))}
		for id := len(r.At) - 1; id > 0; id-- { // backwards: chains begin with the lowest id
			if off := r.At[id]; r.named(off) {
				head := &x.heads[maphash.Bytes(x.seed, r.Name(r.Word(off)))&uint64(size-1)]
				x.next[id], *head = *head, uint32(id)
			}
		}
		r.names.Store(x)
	})
	return r.names.Load()
}

// named reports whether the type at an offset can be used by a name that it has.
func (r *Blob) named(off uint32) bool {
	switch r.Kind(off) {
	case Int, Struct, Union, Enum, Enum64, Typedef, Float, Func, Var:
		return r.Word(off) != 0
	}
	return false
}

// Find returns the types of a name that can be used by it, in the order of their ids: integers,
// structs, unions, enums, typedefs, floats, functions and variables.
func (r *Blob) Find(name string) (ids []uint32) {
	if name == "" {
		return nil
	}
	x := r.indexed()
	for id := x.heads[maphash.String(x.seed, name)&uint64(len(x.heads)-1)]; id != 0; id = x.next[id] {
		if string(r.Name(r.Word(r.At[id]))) == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// findAll calls found with the types that Find returns for some names. For a few names it takes a fraction of
// the time that making the index takes, which pays for those who come back.
func (r *Blob) findAll(list []string, back bool, found func(id uint32)) {
	if back || len(list) > fewNames || r.names.Load() != nil {
		for _, name := range list {
			for _, id := range r.Find(name) {
				found(id)
			}
		}
		return
	}
	var by [256][]string // by first byte
	for _, name := range list {
		if name != "" {
			by[name[0]] = append(by[name[0]], name)
		}
	}
	for id := 1; id < len(r.At) && len(list) > 0; id++ {
		off := r.At[id]
		s := r.Strings[min(uint64(r.Word(off)), uint64(len(r.Strings))):]
		if len(s) == 0 {
			continue
		}
		for _, name := range by[s[0]] {
			if rest, ok := bytes.CutPrefix(s, []byte(name)); ok && (len(rest) == 0 || rest[0] == 0) && r.named(off) {
				found(uint32(id))
				break
			}
		}
	}
}

// fewNames are looked for without an index.
const fewNames = 64
