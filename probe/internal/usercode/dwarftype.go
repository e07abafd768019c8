package usercode

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/internal/elffile"
)

// Types converts the DWARF types of a file's functions to BTF's. Several functions share them.
// Their memory, and the number of entries read, is bounded for all together.
type Types struct {
	d       *dwarf.Data
	err     error // why d is nil
	machine elf.Machine
	done    map[dwarf.Ref]*madeType // types that others may refer to, and base types
	odd     map[btf.Type]oddity     // types in done that are not passed as their members say
	made    int                     // the number of them that are not base types
	cut     bool                    // a type was left as a forward declaration
	path    typePath                // path to the type that is being read
	open    []btf.Member            // members of structures that are being read
	steps   int                     // steps left, for signature
}

// madeType is a type, also while it is being made.
type madeType struct {
	t    btf.Type
	open int // its depth in the path while it is being made, else 0
}

// typePath is the depth of a type inside of others, and the depths of the last type with a
// name of its own and of the last pointer.
type typePath struct{ depth, named, pointer int }

const (
	// maxDWARFTypes bounds the types of one function's arguments. Structures behind further
	// pointers are left as forward declarations.
	maxDWARFTypes = 4096
	// maxTypeDepth bounds the nesting of types. maxUnnamed bounds the nesting of types without
	// a name of their own, such as pointers to pointers, which are spelled out.
	maxTypeDepth, maxUnnamed = 2 * maxDWARFTypes, 64
	// maxValueParts bounds the parts of values that are examined, for all functions.
	maxValueParts = 16 << 20
)

// NewTypes reads the types of a file's functions from its DWARF, which is used until the last use
// of the result.
func NewTypes(debug *Debug) *Types {
	d, err := debug.whole()
	return &Types{
		d: d, err: err, machine: debug.machine, done: map[dwarf.Ref]*madeType{}, odd: map[btf.Type]oddity{},
		steps: maxValueParts,
	}
}

// SignatureAt returns the type of the function that begins at pc.
func (c *Types) SignatureAt(pc uint64) (*Signature, error) {
	if c.err != nil {
		return nil, c.err
	}
	var fn dwarf.Entry
	if err := c.d.FunctionAt(pc, &fn); err != nil {
		return nil, err
	}
	var sig *Signature
	err := c.complete(func() (err error) {
		sig, err = c.signature(&fn, pc)
		return err
	})
	return sig, err
}

// complete calls read, which reads types: twice if they are incomplete since others were read before.
func (c *Types) complete(read func() error) error {
	for shared := len(c.done) > 0; ; shared = false {
		c.cut, c.path, c.open = false, typePath{}, c.open[:0]
		err := read()
		if err == nil && !c.cut {
			return nil
		}
		// Incomplete types are not shared. Then the types are read anew, so that where they
		// are cut off does not depend on the functions before.
		clear(c.done)
		clear(c.odd)
		if c.made = 0; err != nil || !shared {
			return err
		}
	}
}

// keywords are the words before the names of types in C.
var keywords = map[uint32]string{
	dwarf.TagStructType: "struct ", dwarf.TagClassType: "struct ", dwarf.TagUnionType: "union ",
	dwarf.TagEnumerationType: "enum ",
}

// Named returns the types of the file by their names as C has them: "struct s", "size_t". It leaves
// out those that the file does not have. Of several types of a name it returns the first.
func (c *Types) Named(names []string) (map[string]btf.Type, error) {
	if c.err != nil {
		return nil, c.err
	}
	bare, left := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		left[name] = true
		bare[name[strings.LastIndexByte(name, ' ')+1:]] = true
		bare[name] = true // "unsigned long"
	}
	found := map[string]btf.Type{}
	err := c.d.NamedTypes(bare, func(name string, e *dwarf.Entry) bool {
		if name = keywords[e.Tag] + name; !left[name] {
			return true
		}
		delete(left, name)
		at := e.Ref()
		err := c.complete(func() (err error) {
			t, err := c.at(at)
			if err == nil {
				found[name] = t
			}
			return err
		})
		return err == nil && len(left) > 0
	})
	return found, err
}

// These are approximate costs in bytes, without names: of a type, what it costs more if it is
// kept in done, of a member or value, and of an argument.
const typeCost, madeCost, partCost, argCost = 64, 112, 64, 832

// at returns the type at r.
func (c *Types) at(r dwarf.Ref) (btf.Type, error) {
	if have := c.done[r]; have != nil {
		// Consumers follow types through their parts and stop at pointers and names.
		if have.open > 0 && (c.path.named < have.open || c.path.pointer < have.open) {
			return nil, errors.New("a type is made of itself")
		}
		return have.t, nil
	}
	var e dwarf.Entry
	if err := e.Read(r); err != nil {
		return nil, err
	}
	above := c.path
	if c.path.depth++; c.path.depth > maxTypeDepth || c.path.depth-c.path.named > maxUnnamed {
		return nil, fmt.Errorf("types in types: %w", elffile.ErrTooLarge)
	}
	t, err := c.convert(&e)
	if have := c.done[r]; have != nil && err == nil {
		have.open, err = 0, c.d.Spend(madeCost)
	}
	c.path = above
	return t, err
}

// make records a type that is not complete yet.
func (c *Types) make(e *dwarf.Entry, t btf.Type) {
	c.done[e.Ref()] = &madeType{t, c.path.depth}
	c.made++
	if _, ok := t.(*btf.Pointer); ok {
		c.path.pointer = c.path.depth
	} else {
		c.path.named = c.path.depth
	}
}

// typeOf returns the type of an entry, void if it has none.
func (c *Types) typeOf(e *dwarf.Entry) (btf.Type, error) {
	if r, ok := e.Link(dwarf.Type); ok {
		return c.at(r)
	}
	return &btf.Void{}, nil
}

func (c *Types) convert(e *dwarf.Entry) (t btf.Type, err error) {
	name := e.Text(dwarf.Name)
	if err := c.d.Spend(typeCost + len(name)); err != nil {
		return nil, err
	}
	switch e.Tag {
	case dwarf.TagBaseType:
		t, err = baseType(e, name)
		c.done[e.Ref()] = &madeType{t: t}
		return t, err
	case dwarf.TagConstType:
		t, err = c.typeOf(e)
		return &btf.Const{Type: t}, err
	case dwarf.TagVolatileType:
		t, err = c.typeOf(e)
		return &btf.Volatile{Type: t}, err
	case dwarf.TagRestrictType:
		t, err = c.typeOf(e)
		return &btf.Restrict{Type: t}, err
	case dwarf.TagAtomicType:
		return c.typeOf(e)
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReference:
		return c.pointer(e)
	case dwarf.TagMemberPointer:
		return c.memberPointer(e)
	case dwarf.TagUnspecifiedType:
		return unspecified(name), nil
	case dwarf.TagTypedef:
		td := &btf.Typedef{Name: name}
		c.make(e, td)
		td.Type, err = c.typeOf(e)
		return td, err
	case dwarf.TagArrayType:
		return c.array(e)
	case dwarf.TagEnumerationType:
		return c.enum(e, name)
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		return c.aggregate(e, name)
	case dwarf.TagSubroutineType:
		return &btf.FuncProto{Return: &btf.Void{}}, nil
	}
	return &btf.Void{}, nil
}

// intEncodings maps DWARF's encodings of integers to BTF's.
var intEncodings = map[int64]btf.IntEncoding{
	dwarf.EncodingAddress: 0, dwarf.EncodingUnsigned: 0, dwarf.EncodingUnsignedChar: 0,
	dwarf.EncodingSigned: btf.Signed, dwarf.EncodingSignedChar: btf.Signed,
	dwarf.EncodingBoolean: btf.Bool,
	dwarf.EncodingUTF:     0, dwarf.EncodingUCS: 0, dwarf.EncodingASCII: 0,
}

func baseType(e *dwarf.Entry, name string) (btf.Type, error) {
	enc, ok := e.Int(dwarf.Encoding)
	of, isInt := intEncodings[enc]
	switch {
	case !ok || e.Has(dwarf.BitOffset) && e.Has(dwarf.DataBitOffset):
		return nil, fmt.Errorf("malformed type %s", name)
	case isInt:
		return &btf.Int{Name: name, Size: e.Size(), Encoding: of}, nil
	case enc == dwarf.EncodingFloat, enc == dwarf.EncodingDecimalFloat:
		return &btf.Float{Name: name, Size: e.Size()}, nil
	case enc == dwarf.EncodingComplexFloat:
		return &btf.Void{}, nil
	}
	return nil, fmt.Errorf("type %s has the unknown encoding %d", name, enc)
}

func (c *Types) pointer(e *dwarf.Entry) (btf.Type, error) {
	p := &btf.Pointer{Target: &btf.Void{}}
	c.make(e, p)
	r, ok := e.Link(dwarf.Type)
	if !ok {
		return p, nil
	}
	if c.made > maxDWARFTypes {
		var to dwarf.Entry
		if err := to.Read(r); err != nil {
			return nil, err
		}
		if to.IsStructure() {
			c.cut = true
			name := to.Text(dwarf.Name)
			p.Target = &btf.Fwd{Name: name, Kind: btf.FwdStruct}
			return p, c.d.Spend(typeCost + len(name))
		}
	}
	t, err := c.at(r)
	p.Target = t
	return p, err
}

func (c *Types) array(e *dwarf.Entry) (btf.Type, error) {
	dims, err := e.Dimensions()
	if err != nil {
		return nil, err
	}
	t, err := c.typeOf(e)
	for i := len(dims) - 1; i >= 0; i-- {
		t = &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: t, Nelems: dims[i]}
	}
	if err == nil && e.Flag(dwarf.Vector) {
		err = c.mark(t, oddity{opaque: "a vector"})
	}
	return t, cmp.Or(err, c.d.Spend(typeCost*len(dims)))
}

func (c *Types) enum(e *dwarf.Entry, name string) (btf.Type, error) {
	t := &btf.Enum{Name: name, Size: e.Size()}
	of, typed := e.Link(dwarf.Type)
	if typed { // in C++ it may be signed without a negative enumerator
		i, err := c.at(of)
		if err != nil {
			return nil, err
		}
		t.Signed = ctype.Signed(i)
	}
	var kid dwarf.Entry
	for in := e.Inside(); ; {
		if ok, err := in.Next(&kid, dwarf.TagEnumerator); err != nil || !ok {
			return t, err
		}
		n, _ := kid.Int(dwarf.ConstValue)
		v := btf.EnumValue{Name: kid.Text(dwarf.Name), Value: uint64(n)}
		if err := c.d.Spend(partCost + len(v.Name)); err != nil { // 24 bytes, in a table that grows
			return nil, err
		}
		t.Signed = t.Signed || !typed && n < 0
		t.Values = append(t.Values, v)
	}
}

func (c *Types) aggregate(e *dwarf.Entry, name string) (t btf.Type, err error) {
	union := e.Tag == dwarf.TagUnionType
	var members *[]btf.Member
	kind := btf.FwdStruct
	if union {
		u := &btf.Union{Name: name, Size: e.Size()}
		t, members, kind = u, &u.Members, btf.FwdUnion
	} else {
		s := &btf.Struct{Name: name, Size: e.Size()}
		t, members = s, &s.Members
	}
	if e.Has(dwarf.Declaration) {
		return &btf.Fwd{Name: name, Kind: kind}, nil
	}
	c.make(e, t)
	var odd oddity
	if *members, err = c.members(e, union, &odd); err != nil {
		return nil, err
	}
	switch how, _ := e.Int(dwarf.Convention); how {
	case dwarf.PassedByAddress:
		odd.passed = byAddress
	case dwarf.PassedByContents:
		odd.passed = byContents
	}
	if odd.passed == 0 && isCxx(e.Language()) {
		if odd.passed, err = copied(e); err != nil {
			return nil, err
		}
	}
	if odd != (oddity{}) {
		err = c.mark(t, odd)
	}
	return t, err
}

// members reads the members of a structure or union. A class that it is derived from is a
// member without a name, so that the members of that are found like its own.
func (c *Types) members(e *dwarf.Entry, union bool, odd *oddity) ([]btf.Member, error) {
	var kid dwarf.Entry
	var last, at dwarf.Member // the member before, and this one
	first := len(c.open)
	for in := e.Inside(); ; last = at {
		ok, err := in.Next(&kid, dwarf.TagMember, dwarf.TagInheritance, dwarf.TagVariantPart)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if kid.Tag == dwarf.TagVariantPart || kid.Has(dwarf.Virtuality) {
			odd.opaque = "a type with variants"
			if kid.Tag == dwarf.TagInheritance {
				odd.opaque = "a class with virtual bases"
			}
			at = last
			continue
		}
		if kid.Flag(dwarf.Declaration) {
			at = last
			continue // a static member, before DWARF 5
		}
		m := btf.Member{Name: kid.Text(dwarf.Name)}
		if m.Type, err = c.typeOf(&kid); err != nil {
			return nil, err
		}
		if at, err = kid.Member(); err != nil {
			return nil, err
		}
		if m.Offset = btf.Bits(8 * at.Offset); at.Bits > 0 {
			m.Offset, m.BitfieldSize = btf.Bits(at.BitOffset), btf.Bits(at.Bits)
		}
		if !union && last.Bits == 0 && last.Offset == at.Offset && len(c.open) > first {
			empty(c.open[len(c.open)-1].Type)
		}
		cost := partCost + len(m.Name)
		if len(c.open) == cap(c.open) {
			cost += 2 * partCost * cap(c.open)
		}
		if err := c.d.Spend(cost); err != nil {
			return nil, err
		}
		c.open = append(c.open, m)
	}
	out := slices.Clone(c.open[first:])
	c.open = c.open[:first]
	if n, ok := e.Int(dwarf.ByteSize); ok && !union && n == last.Offset && len(out) > 0 {
		empty(out[len(out)-1].Type)
	}
	return out, nil
}

// empty sets an array's length to 0 if a member of that type occupies no space. Some compilers
// describe x[0] like x[1].
func empty(t btf.Type) {
	if a, ok := t.(*btf.Array); ok {
		if n, err := btf.Sizeof(a.Type); err != nil || n != 0 {
			a.Nelems = 0
		}
	}
}
