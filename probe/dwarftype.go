package probe

import (
	"debug/dwarf"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/elffile"
)

// signatureAt reads the type of the function that begins at pc.
func signatureAt(d *dwarf.Data, pc uint64) (*signature, error) {
	r := &entries{d.Reader(), maxUnitEntries}
	cu, err := r.SeekPC(pc)
	if err != nil {
		return nil, err
	}
	if cu == nil {
		return nil, dwarf.ErrUnknownPC
	}
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag == dwarf.TagCompileUnit {
			return nil, notFound("no function begins at %#x", pc)
		}
		if e.Tag == dwarf.TagSubprogram {
			if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok && low == pc {
				return readSignature(d, r, e)
			}
			err = r.skip(e)
		} else if e.Tag != dwarf.TagNamespace && e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagClassType {
			err = r.skip(e)
		}
		if err != nil {
			return nil, err
		}
	}
}

// maxUnitEntries is how many entries are read for one function: units of real programs have
// a tenth of that.
const maxUnitEntries = 3 << 17

// entries reads so many entries, and no more.
type entries struct {
	*dwarf.Reader
	left int
}

// Next is that of the Reader.
func (r *entries) Next() (*dwarf.Entry, error) {
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("DWARF entries: %w", elffile.ErrTooLarge)
	}
	return r.Reader.Next()
}

// skip passes the children of the entry that was read last.
func (r *entries) skip(e *dwarf.Entry) error {
	if !e.Children {
		return nil
	}
	if next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset); ok && next > e.Offset {
		r.Seek(next)
		return nil
	}
	for depth := 1; depth > 0; {
		child, err := r.Next()
		switch {
		case err != nil || child == nil:
			return err
		case child.Tag == 0:
			depth--
		case child.Children:
			depth++
		}
	}
	return nil
}

func readSignature(d *dwarf.Data, r *entries, fn *dwarf.Entry) (*signature, error) {
	c := &dwarfConverter{d: d, done: map[dwarf.Type]btf.Type{}}
	sig := &signature{}
	if off, ok := attrOf(d, fn, dwarf.AttrType).(dwarf.Offset); ok {
		t, err := c.at(off)
		if err != nil {
			return nil, err
		}
		sig.ret = t
	}
	if !fn.Children {
		return sig, nil
	}
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag == 0 {
			return sig, nil
		}
		if e.Tag == dwarf.TagFormalParameter {
			name, _ := attrOf(d, e, dwarf.AttrName).(string)
			off, ok := attrOf(d, e, dwarf.AttrType).(dwarf.Offset)
			if !ok {
				return nil, errors.New("a parameter has no type")
			}
			t, err := c.at(off)
			if err != nil {
				return nil, err
			}
			p := btf.FuncParam{Name: name, Type: t}
			// Go marks its results so.
			if v, _ := e.Val(dwarf.AttrVarParam).(bool); v {
				sig.results = append(sig.results, p)
			} else {
				sig.params = append(sig.params, p)
			}
		}
		if err := r.skip(e); err != nil {
			return nil, err
		}
	}
}

// attrOf reads an attribute, from the declaration or the abstract instance
// where the entry itself refers to one.
func attrOf(d *dwarf.Data, e *dwarf.Entry, a dwarf.Attr) any {
	for range 4 {
		if v := e.Val(a); v != nil {
			return v
		}
		off, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			if off, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
				return nil
			}
		}
		r := d.Reader()
		r.Seek(off)
		next, err := r.Next()
		if err != nil || next == nil {
			return nil
		}
		e = next
	}
	return nil
}

// dwarfConverter turns DWARF types into BTF's.
type dwarfConverter struct {
	d    *dwarf.Data
	done map[dwarf.Type]btf.Type
}

// maxDWARFTypes bounds the types of one function's arguments: what lies behind
// more pointers is left as a forward declaration.
const maxDWARFTypes = 4096

func (c *dwarfConverter) at(off dwarf.Offset) (btf.Type, error) {
	t, err := c.d.Type(off)
	if err != nil {
		return nil, err
	}
	return c.convert(t), nil
}

func (c *dwarfConverter) convert(t dwarf.Type) btf.Type {
	if have, ok := c.done[t]; ok {
		return have
	}
	size := func() uint32 { return uint32(max(t.Size(), 0)) }
	switch v := t.(type) {
	case *dwarf.IntType:
		return &btf.Int{Name: v.Name, Size: size(), Encoding: btf.Signed}
	case *dwarf.CharType:
		return &btf.Int{Name: v.Name, Size: size(), Encoding: btf.Char}
	case *dwarf.BoolType:
		return &btf.Int{Name: v.Name, Size: size(), Encoding: btf.Bool}
	case *dwarf.UintType:
		return &btf.Int{Name: v.Name, Size: size()}
	case *dwarf.UcharType:
		return &btf.Int{Name: v.Name, Size: size()}
	case *dwarf.AddrType:
		return &btf.Int{Name: v.Name, Size: size()}
	case *dwarf.FloatType:
		return &btf.Float{Name: v.Name, Size: size()}
	case *dwarf.QualType:
		return c.qualified(v)
	case *dwarf.PtrType:
		return c.pointer(v)
	case *dwarf.TypedefType:
		td := &btf.Typedef{Name: v.Name}
		c.done[t] = td
		td.Type = c.convert(v.Type)
		return td
	case *dwarf.ArrayType:
		return &btf.Array{
			Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: c.convert(v.Type), Nelems: uint32(max(v.Count, 0)),
		}
	case *dwarf.EnumType:
		e := &btf.Enum{Name: v.EnumName, Size: size()}
		for _, x := range v.Val {
			e.Signed = e.Signed || x.Val < 0
			e.Values = append(e.Values, btf.EnumValue{Name: x.Name, Value: uint64(x.Val)})
		}
		return e
	case *dwarf.StructType:
		return c.aggregate(v)
	case *dwarf.FuncType:
		return &btf.FuncProto{Return: &btf.Void{}}
	}
	return &btf.Void{}
}

func (c *dwarfConverter) qualified(v *dwarf.QualType) btf.Type {
	inner := c.convert(v.Type)
	switch v.Qual {
	case "const":
		return &btf.Const{Type: inner}
	case "volatile":
		return &btf.Volatile{Type: inner}
	case "restrict":
		return &btf.Restrict{Type: inner}
	}
	return inner
}

func (c *dwarfConverter) pointer(v *dwarf.PtrType) btf.Type {
	p := &btf.Pointer{Target: &btf.Void{}}
	c.done[v] = p
	if s, ok := v.Type.(*dwarf.StructType); ok && len(c.done) > maxDWARFTypes {
		p.Target = &btf.Fwd{Name: s.StructName, Kind: btf.FwdStruct}
		return p
	}
	if v.Type != nil {
		p.Target = c.convert(v.Type)
	}
	return p
}

func (c *dwarfConverter) aggregate(v *dwarf.StructType) btf.Type {
	if v.Incomplete {
		kind := btf.FwdStruct
		if v.Kind == "union" {
			kind = btf.FwdUnion
		}
		return &btf.Fwd{Name: v.StructName, Kind: kind}
	}
	size := uint32(max(v.ByteSize, 0))
	if v.Kind == "union" {
		u := &btf.Union{Name: v.StructName, Size: size}
		c.done[v] = u
		u.Members = c.members(v)
		return u
	}
	s := &btf.Struct{Name: v.StructName, Size: size}
	c.done[v] = s
	s.Members = c.members(v)
	return s
}

func (c *dwarfConverter) members(v *dwarf.StructType) []btf.Member {
	var out []btf.Member
	for _, f := range v.Field {
		m := btf.Member{Name: f.Name, Type: c.convert(f.Type), Offset: btf.Bits(f.ByteOffset * 8)}
		if f.BitSize > 0 {
			m.BitfieldSize = btf.Bits(f.BitSize)
			m.Offset = btf.Bits(f.DataBitOffset)
			if f.DataBitOffset == 0 && f.ByteOffset > 0 {
				// DWARF 3: the offset counts from the storage unit's high end.
				m.Offset = btf.Bits(f.ByteOffset*8 + f.ByteSize*8 - f.BitOffset - f.BitSize)
			}
		}
		out = append(out, m)
	}
	return out
}
