package rawbtf

import "iter"

// MaxArgs is MAX_BPF_FUNC_ARGS, the maximum number of arguments in the context of a raw
// tracepoint, and for a trampoline.
const MaxArgs = 12

// Funcs is an iterator over the functions, by id.
func (r *Blob) Funcs(yield func(id uint32, name []byte) bool) { r.Named(Func)(yield) }

// Named returns an iterator over the types of a kind, by id.
func (r *Blob) Named(kind uint32) iter.Seq2[uint32, []byte] {
	return func(yield func(id uint32, name []byte) bool) {
		for id := 1; id < len(r.At); id++ {
			if off := r.At[id]; r.Kind(off) == kind && !yield(uint32(id), r.Name(r.Word(off))) {
				return
			}
		}
	}
}

// Traceable reports whether a trampoline supports a function's arguments and return value, by
// the rules of btf_distill_func_proto in kernel/bpf/btf.c.
func (r *Blob) Traceable(id uint32) bool {
	proto := r.Word(r.At[id] + 8)
	if proto == 0 || uint64(proto) >= uint64(len(r.At)) {
		return false
	}
	off := r.At[proto]
	if r.Kind(off) != FuncProto || r.Vlen(off) > MaxArgs {
		return false
	}
	if size, aggregate := r.size(r.Word(off + 8)); size < 0 || aggregate {
		return false
	}
	for i := range uint32(r.Vlen(off)) {
		if size, _ := r.size(r.Word(off + TypeSize + 8*i + 4)); size <= 0 || size > 16 {
			return false
		}
	}
	return true
}

// size returns the size of an argument of a type: 0 for void, negative for types that
// arguments cannot have.
func (r *Blob) size(id uint32) (size int64, aggregate bool) {
	for range 32 { // qualifiers and typedefs
		if id == 0 {
			return 0, false
		}
		if uint64(id) >= uint64(len(r.At)) {
			break
		}
		off := r.At[id]
		switch r.Kind(off) {
		case Ptr:
			return 8, false
		case Int, Enum, Enum64:
			return int64(r.Word(off + 8)), false
		case Struct, Union:
			return int64(r.Word(off + 8)), true
		case Typedef, Volatile, Const, Restrict, TypeTag:
			id = r.Word(off + 8)
		default:
			return -1, false
		}
	}
	return -1, false
}

// Trampolines returns the functions by name, with their ids for a trampoline for many
// functions. The id is 0 for those that it does not support.
func (r *Blob) Trampolines() map[string]uint32 {
	out := make(map[string]uint32, len(r.At)/3)
	names := string(r.Strings) // one string for all
	for id, b := range r.Funcs {
		name := ""
		if at := r.Word(r.At[id]); len(b) > 0 {
			name = names[at : at+uint32(len(b))]
		}
		if _, again := out[name]; again || !r.Traceable(id) {
			id = 0 // the name of several functions does not identify one
		}
		out[name] = id
	}
	return out
}
