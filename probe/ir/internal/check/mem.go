package check

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// place is an object in memory: off bytes from the address base, of a C type.
type place struct {
	base *typed.Node
	off  int64
	typ  btf.Type
	user bool
	bits *btf.Member // the bit field, nil for other objects; typ is its declared type
}

// memory determines the types of operations that read or address memory.
func (c *checker) memory(e *ir.Expr, args []*typed.Node) (*typed.Node, error) {
	// A number is an address where the probe is: the arguments of user functions and probes
	// are the user's, though no type may say that they are pointers.
	user := c.pp.UserRegs
	switch e.Op {
	case ir.OpDeref:
		return deref(e.Type, args[0], user)
	case ir.OpStr, ir.OpBuf:
		return buffer(e.Op, e.Type, args, user)
	case ir.OpPerCPU:
		return c.perCPU(args[0], args[1])
	case ir.OpKptr, ir.OpUptr:
		return addressSpace(args[0], e.Op == ir.OpUptr)
	case ir.OpOffset:
		return offsetOf(args[0], e.Str)
	}
	if e.Op == ir.OpIndex && !inPlace(args[0]) {
		return indexValue(args[0], args[1])
	}
	if e.Op == ir.OpMember && isAggregate(args[0].Type) && !inPlace(args[0]) {
		return memberOfValue(args[0], e.Str)
	}
	p, err := placeOf(args[0])
	if err != nil {
		return nil, err
	}
	if len(args) == 2 {
		p, err = index(p, args[0].Type.Kind == ir.KindPtr, args[1])
	} else {
		p, err = member(p, e.Str)
	}
	if err != nil {
		return nil, err
	}
	if e.Op == ir.OpAddrOf {
		if p.bits != nil {
			return nil, errors.New("a bit field has no address")
		}
		return address(p, ir.PtrType(p.typ, p.user)), nil
	}
	return valueAt(p)
}

// placeOf returns the object to which e points, or from which e's value was read.
func placeOf(e *typed.Node) (place, error) {
	switch {
	case e.Type.Kind == ir.KindPtr && e.Type.Elem == nil:
		return place{}, fmt.Errorf("%s is %s: cast it to a pointer to a type first", shortString(e),
			e.Type)
	case e.Type.Kind == ir.KindPtr:
		return place{base: e, typ: e.Type.Elem, user: e.Type.User}, nil
	case e.Op == ir.OpBuf && e.Type.Elem != nil: // an aggregate in memory
		return place{base: e.Args[0], typ: e.Type.Elem, user: e.Args[0].Type.User}, nil
	case e.Op == ir.OpStr:
		return place{base: e.Args[0], typ: charArray(e.Type.Size), user: e.Args[0].Type.User}, nil
	}
	return place{}, fmt.Errorf("%s is %s: it has no members", shortString(e), e.Type)
}

// isAggregate reports whether values of a type are bytes that a C type divides.
func isAggregate(t ir.Type) bool { return t.Kind == ir.KindBytes && t.Elem != nil }

// memberOfValue returns a member of an aggregate that is a value of the program's own, not in memory that
// it reads.
func memberOfValue(a *typed.Node, path string) (*typed.Node, error) {
	value := &typed.Node{Type: ir.PtrType(a.Type.Elem, false)} // its address
	p, err := member(place{base: value, typ: a.Type.Elem}, path)
	if err != nil {
		return nil, err
	}
	if p.base != value {
		return nil, fmt.Errorf("%s of a value: it leads through a pointer; read the pointer first", path)
	}
	t, err := FromBTF(p.typ, false)
	if err != nil {
		return nil, err
	}
	if p.bits == nil {
		return partOf(a, p.off, t)
	}
	at, low, size, err := wordOf(p, t)
	if err != nil {
		return nil, err
	}
	word, err := partOf(a, at, ir.IntType(size, false))
	if err != nil {
		return nil, err
	}
	wide := ir.IntType(8, t.Signed)
	x := typed.New(ir.OpCast, wide, word)
	width := int64(p.bits.BitfieldSize)
	x = typed.New(ir.OpShl, wide, x, constOf(wide, uint64(64-low-width)))
	x = typed.New(ir.OpShr, wide, x, constOf(wide, uint64(64-width)))
	return convert(x, t)
}

// partOf returns the part of a value that begins at an offset.
func partOf(a *typed.Node, off int64, t ir.Type) (*typed.Node, error) {
	if t.Size == 0 || off+int64(t.Size) > int64(a.Type.Size) {
		return nil, fmt.Errorf("%d bytes at %d of %s, which has %d", t.Size, off, a.Type, a.Type.Size)
	}
	view := ir.Type{
		Kind: ir.KindTuple, Size: a.Type.Size, Fields: []ir.Field{{Offset: int(off), Type: t}},
	}
	return typed.New(ir.OpElem, t, typed.New(ir.OpCast, view, a)), nil
}

func charArray(n int) btf.Type {
	return &btf.Array{Index: Uint32BTF(), Type: charBTF(), Nelems: uint32(n)}
}

func charBTF() btf.Type   { return &btf.Int{Name: "char", Size: 1, Encoding: btf.Char} }
func Uint32BTF() btf.Type { return &btf.Int{Name: "unsigned int", Size: 4} }

// step is a step of a member path: a name, or an index in brackets.
type step struct {
	name  string
	index int64
}

// ParsePath splits a path such as "a.b[2].c->d": a name, then members and indexes.
func ParsePath(s string) ([]step, error) {
	var steps []step
	for rest := "." + s; rest != ""; {
		if len(steps) == 64 {
			return nil, fmt.Errorf("path %q: more than 64 steps", s)
		}
		if rest[0] == '[' {
			n := strings.IndexByte(rest, ']')
			if n < 0 {
				return nil, fmt.Errorf("path %q: no ]", s)
			}
			i, err := strconv.ParseUint(rest[1:n], 0, 31)
			if err != nil {
				return nil, fmt.Errorf("path %q: index %q", s, rest[1:n])
			}
			steps = append(steps, step{index: int64(i)})
			rest = rest[n+1:]
			continue
		}
		name, ok := strings.CutPrefix(rest, "->")
		if !ok {
			if name, ok = strings.CutPrefix(rest, "."); !ok {
				return nil, fmt.Errorf("path %q: %q", s, rest)
			}
		}
		n := strings.IndexAny(name, ".[-")
		if n < 0 {
			n = len(name)
		}
		if n == 0 {
			return nil, fmt.Errorf("path %q: empty name", s)
		}
		steps = append(steps, step{name: name[:n]})
		rest = name[n:]
	}
	return steps, nil
}

// member follows a path from an object, also through pointers.
func member(p place, path string) (place, error) {
	steps, err := ParsePath(path)
	if err != nil {
		return p, err
	}
	for _, s := range steps {
		if ptr, ok := ctype.Underlying(p.typ).(*btf.Pointer); ok {
			if p, err = follow(p, ptr); err != nil {
				return p, err
			}
		}
		if s.name != "" {
			p, err = field(p, s.name)
		} else {
			p, err = index(p, false, constOf(ir.Int64Type(), uint64(s.index)))
		}
		if err != nil {
			return p, fmt.Errorf("path %q: %w", path, err)
		}
	}
	return p, nil
}

// follow returns the object to which a pointer in memory points.
func follow(p place, ptr *btf.Pointer) (place, error) {
	user := p.user || ctype.Tagged(ptr, "user")
	if _, void := ctype.Underlying(ptr.Target).(*btf.Void); void {
		return p, errors.New("a void pointer points to nothing that has members; cast it first")
	}
	load := typed.NewLoad(ir.PtrType(ptr.Target, user), p.base, p.off)
	return place{base: load, typ: ptr.Target, user: user}, nil
}

// field returns a member by name, including those of anonymous members.
func field(p place, name string) (place, error) {
	var members []btf.Member
	switch t := ctype.Underlying(p.typ).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	default:
		return p, fmt.Errorf("%s is not a struct and has no member %q", ctype.String(p.typ), name)
	}
	m, off := kernel.Member(members, name)
	if m == nil {
		return p, fmt.Errorf("%s has no member %q%s", ctype.String(p.typ), name,
			nearMember(members, name))
	}
	out := place{base: p.base, typ: m.Type, user: p.user}
	if m.BitfieldSize == 0 {
		out.off = p.off + int64(off/8)
		return out, nil
	}
	copied := *m
	copied.Offset = off
	out.off, out.bits = p.off, &copied
	return out, nil
}

// index returns an element of the array at p or, for a pointer, the i-th object.
func index(p place, pointer bool, i *typed.Node) (place, error) {
	elem := p.typ
	limit := int64(-1)
	if a, ok := ctype.Underlying(p.typ).(*btf.Array); ok {
		elem = a.Type
		if a.Nelems > 0 { // zero is a flexible array
			limit = int64(a.Nelems)
		}
	} else if ptr, ok := ctype.Underlying(p.typ).(*btf.Pointer); ok && !pointer {
		var err error
		if p, err = follow(p, ptr); err != nil {
			return p, err
		}
		elem = ptr.Target
	} else if !pointer {
		return p, fmt.Errorf("%s is not an array", ctype.String(p.typ))
	}
	size, err := btf.Sizeof(elem)
	if err != nil || size == 0 {
		return p, fmt.Errorf("element %s has no size", ctype.String(elem))
	}
	out := place{base: p.base, off: p.off, typ: elem, user: p.user}
	if i.Const() {
		if limit >= 0 && (i.Int < 0 || i.Int >= limit) {
			return p, fmt.Errorf("index %d of %s", i.Int, ctype.String(p.typ))
		}
		out.off += i.Int * int64(size)
		return out, nil
	}
	n, err := convertNumber(i, ir.Int64Type())
	if err != nil {
		return p, err
	}
	step, err := arith(ir.OpMul, ir.Int64Type(), n, constOf(ir.Int64Type(), uint64(size)))
	if err != nil {
		return p, err
	}
	base, err := convert(p.base, ir.Uint64Type())
	if err != nil {
		return p, err
	}
	sum, err := arith(ir.OpAdd, ir.Uint64Type(), base, step)
	if err != nil {
		return p, err
	}
	if out.base, err = convert(sum, ir.PtrType(nil, p.user)); err != nil {
		return p, err
	}
	return out, nil
}

// address returns the address of an object, as a pointer of type t.
func address(p place, t ir.Type) *typed.Node {
	if p.off == 0 {
		return typed.New(ir.OpCast, t, p.base)
	}
	off := constOf(ir.Uint64Type(), uint64(p.off))
	return typed.New(ir.OpAdd, t, p.base, off)
}

// valueAt returns the value of an object.
func valueAt(p place) (*typed.Node, error) {
	if p.bits != nil {
		return bitsAt(p)
	}
	t, err := FromBTF(p.typ, false)
	if err != nil {
		return nil, err
	}
	// Pointers in a user-space structure point to user space, too.
	if t.Kind == ir.KindPtr && p.user {
		t.User = true
	}
	switch {
	case t.Scalar():
		return typed.NewLoad(t, p.base, p.off), nil
	case t.Kind == ir.KindString:
		if t.Size == 0 { // a flexible array
			t.Size = ir.DefaultString
		}
		return typed.New(ir.OpStr, t, address(p, ir.PtrType(charBTF(), p.user))), nil
	}
	if t.Size > ir.MaxMemory {
		t.Size = ir.MaxMemory // only its members and address can be used
	}
	return typed.New(ir.OpBuf, t, address(p, ir.PtrType(p.typ, p.user))), nil
}

// bitsAt returns the value of a bit field.
func bitsAt(p place) (*typed.Node, error) {
	t, err := FromBTF(p.typ, false)
	if err != nil || !t.Scalar() {
		return nil, fmt.Errorf("bit field of type %s", ctype.String(p.typ))
	}
	at, low, size, err := wordOf(p, t)
	if err != nil {
		return nil, err
	}
	width := int64(p.bits.BitfieldSize)
	out := typed.NewLoad(t, p.base, at)
	out.Bits = &typed.BitField{Size: size, Shl: uint8(64 - low - width), Shr: uint8(64 - width)}
	return out, nil
}

// wordOf returns the smallest aligned word that contains a bit field of a type: its offset and size
// in bytes, and the offset of the field's lowest bit in it.
func wordOf(p place, t ir.Type) (at, low int64, bytes int, err error) {
	size := int64(t.Size)
	first, width := int64(p.bits.Offset), int64(p.bits.BitfieldSize)
	for ; size <= 8; size *= 2 {
		word := first / (size * 8) * size
		if low = first - word*8; low+width <= size*8 {
			return p.off + word, low, int(size), nil
		}
	}
	return 0, 0, 0, errors.New("bit field across 64-bit words")
}

// deref returns the value to which a pointer points, as t if t is not the zero Type. A number
// is a pointer to user memory if user is set.
func deref(t ir.Type, a *typed.Node, user bool) (*typed.Node, error) {
	if t.Kind == ir.KindAuto {
		if a.Type.Kind != ir.KindPtr {
			return nil, fmt.Errorf("%s is %s, not a pointer", shortString(a), a.Type)
		}
		if a.Type.Elem == nil {
			return nil, fmt.Errorf("%s points to void: give a type to read", shortString(a))
		}
		p, err := placeOf(a)
		if err != nil {
			return nil, err
		}
		return valueAt(p)
	}
	ptr, err := asPointer(a, user)
	if err != nil {
		return nil, err
	}
	if err := t.Valid(); err != nil {
		return nil, err
	}
	switch {
	case t.Scalar():
		return typed.NewLoad(t, ptr, 0), nil
	case t.Kind == ir.KindString:
		return typed.New(ir.OpStr, t, ptr), nil
	}
	return typed.New(ir.OpBuf, t, ptr), nil
}

// asPointer converts a number to a pointer to user memory if user is set, else to the kernel's.
// Pointers do not change.
func asPointer(e *typed.Node, user bool) (*typed.Node, error) {
	if e.Type.Kind == ir.KindPtr {
		return e, nil
	}
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not an address", shortString(e), e.Type)
	}
	return convert(e, ir.PtrType(nil, user))
}

// buffer determines the types of str and buf. If the operand is already text or bytes, they
// change its size. A number is a pointer to user memory if user is set.
func buffer(op ir.Op, t ir.Type, args []*typed.Node, user bool) (*typed.Node, error) {
	kind := ir.KindString
	if op == ir.OpBuf {
		kind = ir.KindBytes
	}
	switch {
	case t.Kind == ir.KindAuto && op == ir.OpBuf:
		return nil, errors.New("buf needs a size")
	case t.Kind == ir.KindAuto:
		t = ir.StringType(ir.DefaultString)
	case t.Kind != kind:
		return nil, fmt.Errorf("%s gives no %s", op, t)
	}
	if err := t.Valid(); err != nil {
		return nil, err
	}
	a := args[0]
	if a.Op == ir.OpStr || a.Op == ir.OpBuf {
		a = a.Args[0]
	} else if a.Type.Kind == ir.KindString {
		return castTo(t, a)
	}
	ptr, err := asPointer(a, user)
	if err != nil {
		return nil, err
	}
	out := typed.New(op, t, ptr)
	if len(args) == 2 {
		n, err := convertNumber(args[1], ir.Uint64Type())
		if err != nil {
			return nil, err
		}
		out.Args = append(out.Args, n)
	}
	return out, nil
}

// perCPU returns the address of a per-CPU variable on a CPU. As the kernel does, it adds that
// CPU's entry of __per_cpu_offset.
func (c *checker) perCPU(variable, cpu *typed.Node) (*typed.Node, error) {
	table, ok := c.plan.Symbols["__per_cpu_offset"]
	if !ok {
		return nil, Unsupported("per-CPU address", ir.Version{},
			"the plan does not name the kernel symbol __per_cpu_offset (kptr_restrict?)")
	}
	ptr, err := asPointer(variable, false)
	if err != nil {
		return nil, err
	}
	longs := constOf(ir.PtrType(&btf.Int{Name: "unsigned long", Size: 8}, false), table)
	p, err := index(place{base: longs, typ: longs.Type.Elem}, true, cpu)
	if err != nil {
		return nil, err
	}
	off := typed.NewLoad(ir.Uint64Type(), p.base, p.off)
	base, err := convert(ptr, ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	return convert(typed.New(ir.OpAdd, ir.Uint64Type(), base, off), ptr.Type)
}

// arrayOf returns the type of an array's elements.
func arrayOf(t btf.Type) (btf.Type, bool) {
	a, ok := ctype.Underlying(t).(*btf.Array)
	if !ok {
		return nil, false
	}
	return a.Type, true
}
