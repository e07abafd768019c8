package probe

import (
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/btf"
)

// kernelFuncs calls f with the name of each function that the kernel's BTF knows.
// Making each type only to look at its name takes a second; the headers of
// 150,000 types are read in a few milliseconds.
func (e *Env) kernelFuncs(f func(name []byte)) error {
	if b, err := fs.ReadFile(e.root, "sys/kernel/btf/vmlinux"); err == nil {
		r, err := newBTFBlob(b)
		if err != nil {
			return fmt.Errorf("kernel BTF: %w", err)
		}
		for _, name := range r.funcs {
			f(name)
		}
		return nil
	}
	spec, err := e.BTF() // given by the caller, or from BTFHub's tree
	if err != nil {
		return err
	}
	for typ, err := range spec.All() {
		if err != nil {
			return err
		}
		if fn, ok := typ.(*btf.Func); ok {
			f([]byte(fn.Name))
		}
	}
	return nil
}

// funcs yields the functions, by id.
func (r *btfBlob) funcs(yield func(id uint32, name []byte) bool) {
	for id := 1; id < len(r.at); id++ {
		if off := r.at[id]; r.kind(off) == btfFunc && !yield(uint32(id), r.name(r.word(off))) {
			return
		}
	}
}

// loadTrampolines finds the kernel's functions by name: their ids for a
// trampoline for many of them, 0 of those that it does not take.
func (e *Env) loadTrampolines() (map[string]uint32, error) {
	b, err := fs.ReadFile(e.root, "sys/kernel/btf/vmlinux")
	if err != nil {
		return e.specTrampolines()
	}
	r, err := newBTFBlob(b)
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	out := make(map[string]uint32, len(r.at)/3)
	names := string(r.strings) // one for all
	for id, b := range r.funcs {
		name := ""
		if at := r.word(r.at[id]); len(b) > 0 {
			name = names[at : at+uint32(len(b))]
		}
		if _, again := out[name]; again || !r.traceable(id) {
			id = 0 // of namesakes, a name does not say which one is meant
		}
		out[name] = id
	}
	return out, nil
}

// specTrampolines is the same by types that the caller gave, or that are from
// BTFHub's tree.
func (e *Env) specTrampolines() (map[string]uint32, error) {
	spec, err := e.BTF()
	if err != nil {
		return nil, err
	}
	out := map[string]uint32{}
	for typ, err := range spec.All() {
		if err != nil {
			return nil, err
		}
		fn, ok := typ.(*btf.Func)
		if !ok {
			continue
		}
		id, err := spec.TypeID(fn)
		if err != nil {
			return nil, err
		}
		proto, ok := fn.Type.(*btf.FuncProto)
		if _, again := out[fn.Name]; again || !ok || !traceableProto(proto) {
			id = 0
		}
		out[fn.Name] = uint32(id)
	}
	return out, nil
}

// traceableProto is btfBlob.traceable of a type.
func traceableProto(p *btf.FuncProto) bool {
	size := func(t btf.Type) (n int, aggregate bool) {
		switch u := btf.UnderlyingType(t).(type) {
		case *btf.Void:
			return 0, false
		case *btf.Pointer:
			return 8, false
		case *btf.Int:
			return int(u.Size), false
		case *btf.Enum:
			return int(u.Size), false
		case *btf.Struct:
			return int(u.Size), true
		case *btf.Union:
			return int(u.Size), true
		}
		return -1, false
	}
	if n, aggregate := size(p.Return); n < 0 || aggregate || len(p.Params) > maxRawArgs {
		return false
	}
	for _, a := range p.Params {
		if n, _ := size(a.Type); n <= 0 || n > 16 {
			return false
		}
	}
	return true
}

// traceable says whether a trampoline can hold a function's arguments and value,
// as btf_distill_func_proto of kernel/bpf/btf.c decides.
func (r *btfBlob) traceable(id uint32) bool {
	proto := r.word(r.at[id] + 8)
	if proto == 0 || uint64(proto) >= uint64(len(r.at)) {
		return false
	}
	off := r.at[proto]
	if r.kind(off) != btfFuncProto || r.vlen(off) > maxRawArgs {
		return false
	}
	if size, aggregate := r.size(r.word(off + 8)); size < 0 || aggregate {
		return false
	}
	for i := range uint32(r.vlen(off)) {
		if size, _ := r.size(r.word(off + btfType + 8*i + 4)); size <= 0 || size > 16 {
			return false
		}
	}
	return true
}

// size is the size of an argument of a type: 0 of void, negative where it can
// be none.
func (r *btfBlob) size(id uint32) (size int64, aggregate bool) {
	for range 32 { // qualifiers and typedefs
		if id == 0 {
			return 0, false
		}
		if uint64(id) >= uint64(len(r.at)) {
			break
		}
		off := r.at[id]
		switch r.kind(off) {
		case btfPtr:
			return 8, false
		case btfInt, btfEnum, btfEnum64:
			return int64(r.word(off + 8)), false
		case btfStruct, btfUnion:
			return int64(r.word(off + 8)), true
		case btfTypedef, btfVolatile, btfConst, btfRestrict, btfTypeTag:
			id = r.word(off + 8)
		default:
			return -1, false
		}
	}
	return -1, false
}
