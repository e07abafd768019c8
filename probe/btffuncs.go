package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/btf"
)

// kernelFuncs are the names of the functions that the kernel's BTF knows.
// Making each type only to look at its name takes a second; the headers of
// 150,000 types are read in a few milliseconds.
func (e *Env) kernelFuncs() ([]string, error) {
	if b, err := fs.ReadFile(e.root, "sys/kernel/btf/vmlinux"); err == nil {
		if names, err := btfFuncs(b); err == nil {
			return names, nil
		}
	}
	spec, err := e.BTF() // given by the caller, or from BTFHub's tree
	if err != nil {
		return nil, err
	}
	var names []string
	for typ, err := range spec.All() {
		if err != nil {
			return nil, err
		}
		if fn, ok := typ.(*btf.Func); ok {
			names = append(names, fn.Name)
		}
	}
	return names, nil
}

// errBTF is a blob that is not as Documentation/bpf/btf.rst has it.
var errBTF = errors.New("BTF: truncated or damaged")

// btfFuncs reads the names of functions from a blob of BTF.
func btfFuncs(b []byte) ([]string, error) {
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint16(b) != 0xeb9f {
		return nil, errBTF
	}
	section := func(off, n uint32) []byte {
		from := uint64(le.Uint32(b[4:])) + uint64(off) // behind the header
		if from > uint64(len(b)) || uint64(n) > uint64(len(b))-from {
			return nil
		}
		return b[from : from+uint64(n)]
	}
	types, text := section(le.Uint32(b[8:]), le.Uint32(b[12:])), section(le.Uint32(b[16:]), le.Uint32(b[20:]))
	var out []string
	for len(types) >= 12 {
		name, info := le.Uint32(types), le.Uint32(types[4:])
		kind, vlen := info>>24&0x1f, info&0xffff
		extra, ok := btfExtra(kind, vlen)
		if !ok || 12+extra > len(types) {
			return nil, fmt.Errorf("%w: a type of kind %d", errBTF, kind)
		}
		if kind == btfKindFunc {
			if uint64(name) >= uint64(len(text)) {
				return nil, errBTF
			}
			s, _, _ := bytes.Cut(text[name:], []byte{0})
			out = append(out, string(s))
		}
		types = types[12+extra:]
	}
	if len(out) == 0 {
		return nil, errBTF
	}
	return out, nil
}

const btfKindFunc = 12 // BTF_KIND_FUNC

// btfExtra is the number of bytes behind the header of a type (include/uapi/linux/btf.h).
func btfExtra(kind, vlen uint32) (int, bool) {
	n := int(vlen)
	switch kind {
	case 1, 14, 17: // int, var, decl_tag
		return 4, true
	case 3: // array
		return 12, true
	case 4, 5, 15, 19: // struct, union, datasec, enum64
		return 12 * n, true
	case 6, 13: // enum, func_proto
		return 8 * n, true
	case 2, 7, 8, 9, 10, 11, btfKindFunc, 16, 18: // ptr, fwd, typedef, qualifiers, float, type_tag
		return 0, true
	}
	return 0, false
}
