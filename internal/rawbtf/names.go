package rawbtf

import "hash/maphash"

// names is an index of the types by name: chains of the types whose names have the same hash. It
// is not sorted, which would take most of the time of making it.
type names struct {
	seed  maphash.Seed
	heads []uint32 // by the low bits of the hash, a type's id or 0
	next  []uint32 // by id, the next type of the chain or 0
}

// indexed returns the index, which it makes at the first call.
func (r *Blob) indexed() *names {
	r.once.Do(func() {
		x := &r.names
		size := 1
		for 2*size < len(r.At) { // about half of the types have a name
			size *= 2
		}
		x.seed, x.heads, x.next = maphash.MakeSeed(), make([]uint32, size), make([]uint32, len(r.At))
		for id := len(r.At) - 1; id > 0; id-- { // backwards: chains begin with the lowest id
			off := r.At[id]
			at := r.Word(off)
			if at == 0 {
				continue
			}
			switch r.Kind(off) {
			case Int, Struct, Union, Enum, Enum64, Typedef, Float, Func, Var:
				head := &x.heads[maphash.Bytes(x.seed, r.Name(at))&uint64(size-1)]
				x.next[id], *head = *head, uint32(id)
			}
		}
	})
	return &r.names
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
