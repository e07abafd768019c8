package types

import (
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/probe/script/syntax"
)

// System describes the machine that a script is compiled for. All methods are called from the
// goroutine of Check.
type System interface {
	// Type returns a type by its name in scripts: "struct task_struct", "u32". Nil if there is
	// none.
	Type(name string) btf.Type
	// TypeIn returns a type of the program, or of the kernel module, that an attach point is in, by
	// its name as for Type. It precedes that of Type. Nil if there is none.
	TypeIn(p *syntax.AttachPoint, name string) btf.Type
	// Enumerator returns the enum with an enumerator of a name, and the enumerator's value. e
	// is nil if there is none.
	Enumerator(name string) (e *btf.Enum, value uint64)
	// Args returns the fields of args at an attach point. The return value's field is named
	// "$retval". Nil if the arguments are not known.
	Args(p *syntax.AttachPoint) *btf.Struct
	// Func returns a function of the kernel, or nil. Its type is a [btf.FuncProto]. Scripts may
	// call it if its linkage is global or external.
	Func(name string) *btf.Func
	// Variable returns the type of one of the kernel's per-CPU variables, or nil.
	Variable(name string) btf.Type
	// Has reports whether the kernel supports a feature of the language: loop,
	// map_lookup_percpu_elem, get_func_ip, d_path, ktime_get_tai_ns.
	Has(feature string) bool
}

// nothing is a System without types that has all features.
type nothing struct{}

var _ System = nothing{}

func (nothing) Type(string) btf.Type                        { return nil }
func (nothing) TypeIn(*syntax.AttachPoint, string) btf.Type { return nil }
func (nothing) Enumerator(string) (*btf.Enum, uint64)       { return nil, 0 }
func (nothing) Args(*syntax.AttachPoint) *btf.Struct        { return nil }
func (nothing) Func(string) *btf.Func                       { return nil }
func (nothing) Variable(string) btf.Type                    { return nil }
func (nothing) Has(string) bool                             { return true }

// retvalField is the name of the return value's field in the result of Args.
const retvalField = "$retval"

// deepest is the largest nesting of qualifiers, typedefs, dimensions and structs that is
// followed in BTF.
const deepest = 64

// FromBTF returns the type of a value of the kernel. Arrays of one-byte integers become
// strings, whether they are of char or not, since BTF does not tell.
func FromBTF(t btf.Type) Type { return fromBTFAt(t, false, 0) }

// fromC returns the type of a value that the script itself declares. Of its arrays only those
// of char become strings, with one more byte, since they need not end with a 0.
func fromC(t btf.Type) Type { return fromBTFAt(t, true, 0) }

func fromBTFAt(t btf.Type, own bool, depth int) Type {
	if depth > deepest {
		return Type{}
	}
	switch u := btf.UnderlyingType(t).(type) {
	case nil, *btf.Void:
		return simple(Void, 0)
	case *btf.Int:
		if u.Encoding == btf.Bool {
			return simple(Bool, 1)
		}
		return integer(uint64(u.Size), ctype.Signed(u))
	case *btf.Enum:
		return enum(uint64(u.Size), u.Name, u)
	case *btf.Pointer:
		return pointer(fromBTFAt(u.Target, own, depth+1), NoSpace)
	case *btf.Array:
		e := fromBTFAt(u.Type, own, depth+1)
		i, _ := btf.UnderlyingType(u.Type).(*btf.Int)
		switch {
		case i == nil || e.Kind != Integer || i.Size != 1:
		case !own:
			return text(uint64(u.Nelems))
		case i.Name == "char":
			return text(uint64(u.Nelems) + 1)
		}
		return array(uint64(u.Nelems), e)
	case *btf.Struct:
		return Type{Kind: C, Size: uint64(u.Size), Name: "struct " + u.Name, BTF: u}
	case *btf.Union:
		return Type{Kind: C, Size: uint64(u.Size), Name: "union " + u.Name, BTF: u}
	case *btf.FuncProto:
		return simple(Void, 0)
	}
	return Type{}
}

// members returns the members of a struct or union, nil for other types.
func members(t btf.Type) []btf.Member {
	switch t := t.(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}

// place is a member of a struct, and its offset in bits.
type place struct {
	member *btf.Member
	offset btf.Bits
}

// member finds a member by its name, also in unnamed structs and unions, and its offset in
// bits. The names of a type are indexed at the first look.
func (c *checker) member(t btf.Type, name string) (*btf.Member, btf.Bits) {
	if len(members(t)) == 0 {
		return nil, 0
	}
	index, ok := c.members[t]
	if !ok {
		index = make(map[string]place, len(members(t)))
		addMembers(index, t, 0, 0)
		c.members[t] = index
	}
	p := index[name]
	return p.member, p.offset
}

// addMembers adds the members of a type that is at an offset. The first one of a name is found.
func addMembers(index map[string]place, t btf.Type, at btf.Bits, depth int) {
	list := members(t)
	for i := range list {
		m := &list[i]
		switch {
		case m.Name != "":
			if _, have := index[m.Name]; !have {
				index[m.Name] = place{m, at + m.Offset}
			}
		case depth < deepest:
			addMembers(index, btf.UnderlyingType(m.Type), at+m.Offset, depth+1)
		}
	}
}

// alignof returns the alignment of a C type in bytes.
func alignof(t btf.Type) int { return alignofAt(t, map[btf.Type]int{}) }

// alignofAt visits each struct once, however many others contain it.
func alignofAt(t btf.Type, known map[btf.Type]int) int {
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		return int(u.Size)
	case *btf.Enum:
		return int(u.Size)
	case *btf.Pointer:
		return 8
	case *btf.Array:
		return alignofAt(u.Type, known)
	case *btf.Struct, *btf.Union:
		if a, ok := known[u]; ok {
			return a
		}
		known[u] = 1
		a := 1
		for _, m := range members(u) {
			a = max(a, alignofAt(m.Type, known))
		}
		known[u] = a
		return a
	}
	return 1
}

// tags returns the type tags of a pointer's target.
func tags(t btf.Type) []string {
	var list []string
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return nil
	}
	for u, n := p.Target, 0; n < deepest; n++ {
		switch v := u.(type) {
		case *btf.TypeTag:
			list = append(list, v.Value)
			u = v.Type
		case *btf.Const:
			u = v.Type
		case *btf.Volatile:
			u = v.Type
		default:
			return list
		}
	}
	return list
}
