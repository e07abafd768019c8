package env

import (
	"strings"

	"github.com/cilium/ebpf/btf"
)

// SyscallType returns the type and the size of an argument of a system call, which is in a
// slot of 8 bytes and marked unsigned whatever its type is
// (syscall_enter_define_fields, kernel/trace/trace_syscalls.c). ok is false if the
// declaration does not name a narrower integer.
func (f *Field) SyscallType() (t btf.Type, size int, ok bool) {
	i, ok := knownInt(f.Type)
	if !ok || i.size >= f.Size {
		return nil, 0, false
	}
	return cType(f.Type, i.size, i.signed), i.size, true
}

// BTFType returns a type made from the C declaration alone. Names that are typedefs there
// become integers of that name.
func (f *Field) BTFType() btf.Type {
	if f.Elems < 0 && !f.DataLoc && !f.RelLoc {
		return cType(f.Type, f.Size, f.Signed)
	}
	size := elementSize(f.Type)
	n := f.Elems
	if f.DataLoc || f.RelLoc {
		n = 0
	} else if n > 0 && f.Size%n == 0 {
		size = f.Size / n
	} else if n == 0 && size > 0 {
		n = f.Size / size
	}
	return &btf.Array{
		Index:  &btf.Int{Name: "unsigned int", Size: 4},
		Type:   cType(f.Type, max(size, 1), f.Signed),
		Nelems: uint32(n),
	}
}

// cInt is what an integer type's name alone says, on the 64-bit machines that this package
// supports.
type cInt struct {
	size   int
	signed bool
}

var cInts = map[string]cInt{
	"char": {1, true}, "bool": {1, false}, "u8": {1, false}, "__u8": {1, false}, "s8": {1, true},
	"short": {2, true}, "u16": {2, false}, "__u16": {2, false}, "s16": {2, true},
	"umode_t": {2, false}, "uint16_t": {2, false}, "__be16": {2, false}, "__le16": {2, false},
	"int": {4, true}, "u32": {4, false}, "__u32": {4, false}, "s32": {4, true}, "unsigned": {4, false},
	"uint32_t": {4, false}, "__be32": {4, false}, "__le32": {4, false}, "uint": {4, false},
	"pid_t": {4, true}, "uid_t": {4, false}, "gid_t": {4, false}, "qid_t": {4, false},
	"key_t": {4, true}, "key_serial_t": {4, true}, "clockid_t": {4, true}, "timer_t": {4, true},
	"mqd_t": {4, true}, "rwf_t": {4, true}, "long": {8, true}, "long long": {8, true},
	"u64": {8, false}, "__u64": {8, false}, "s64": {8, true}, "uint64_t": {8, false},
	"__be64": {8, false}, "__le64": {8, false}, "size_t": {8, false}, "ssize_t": {8, true},
	"loff_t": {8, true}, "off_t": {8, true}, "aio_context_t": {8, false},
}

// knownInt returns the C integer type of that name; ok is false for unknown typedefs.
func knownInt(t string) (i cInt, ok bool) {
	t = strings.TrimPrefix(t, "const ")
	base, unsigned := strings.CutPrefix(t, "unsigned ")
	if i, ok = cInts[base]; ok && unsigned {
		i.signed = false
	}
	return i, ok
}

// elementSize returns the size of a C type as an array element, 1 if it is not known.
func elementSize(t string) int {
	if i, ok := knownInt(t); ok {
		return i.size
	}
	if strings.HasSuffix(t, "*") {
		return 8
	}
	return 1
}

func cType(t string, size int, signed bool) btf.Type {
	t = strings.TrimSpace(t)
	if base, ok := strings.CutSuffix(t, "*"); ok {
		return &btf.Pointer{Target: cPointee(strings.TrimSpace(base))}
	}
	if rest, ok := strings.CutPrefix(t, "const "); ok {
		return &btf.Const{Type: cType(rest, size, signed)}
	}
	if name, ok := strings.CutPrefix(t, "enum "); ok {
		return &btf.Enum{Name: name, Size: uint32(size), Signed: signed}
	}
	for _, p := range []string{"struct ", "union "} {
		if name, ok := strings.CutPrefix(t, p); ok {
			return &btf.Struct{Name: name, Size: uint32(size)}
		}
	}
	i := &btf.Int{Name: t, Size: uint32(size)}
	switch {
	case t == "bool":
		i.Encoding = btf.Bool
	case signed:
		i.Encoding = btf.Signed
	}
	return i
}

// cPointee returns the type that a pointer points to. Structs are forward declarations,
// which a reader with BTF looks up by name.
func cPointee(t string) btf.Type {
	if base, ok := strings.CutSuffix(t, "const"); ok && strings.HasSuffix(base, "*") {
		return &btf.Const{Type: cPointee(strings.TrimSpace(base))}
	}
	if base, ok := strings.CutSuffix(t, "*"); ok {
		return &btf.Pointer{Target: cPointee(strings.TrimSpace(base))}
	}
	if rest, ok := strings.CutPrefix(t, "const "); ok {
		return &btf.Const{Type: cPointee(rest)}
	}
	if name, ok := strings.CutPrefix(t, "struct "); ok {
		return &btf.Fwd{Name: name, Kind: btf.FwdStruct}
	}
	if name, ok := strings.CutPrefix(t, "union "); ok {
		return &btf.Fwd{Name: name, Kind: btf.FwdUnion}
	}
	if t == "void" || t == "" {
		return &btf.Void{}
	}
	return cType(t, elementSize(t), cInts[t].signed)
}
