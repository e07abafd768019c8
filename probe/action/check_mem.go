package action

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
)

// place is an object in memory: at off bytes from the address base, of a C type.
type place struct {
	base *Expr
	off  int64
	typ  btf.Type
	user bool
	bits *btf.Member // the bit field it is, nil otherwise; typ is its declared type
}

// memory types the operations that read or address memory.
func (c *checker) memory(e *Expr, args []*Expr) (*Expr, error) {
	switch e.Op {
	case OpDeref:
		return c.deref(e, args[0])
	case OpStr, OpBuf:
		return c.buffer(e, args)
	case OpPerCPU:
		return c.perCPU(e, args)
	case OpKptr, OpUptr:
		return addressSpace(e, args[0])
	case OpOffset:
		return c.offsetOf(e, args[0])
	}
	if e.Op == OpIndex && !inPlace(args[0]) {
		return c.indexValue(e, args)
	}
	p, err := placeOf(args[0])
	if err != nil {
		return nil, err
	}
	if len(args) == 2 {
		p, err = c.index(p, args[0].Type.Kind == KindPtr, args[1])
	} else {
		p, err = c.member(p, e.Str)
	}
	if err != nil {
		return nil, err
	}
	if e.Op == OpAddrOf {
		if p.bits != nil {
			return nil, errors.New("a bit field has no address")
		}
		return address(p, PtrType(p.typ, p.user)), nil
	}
	return c.valueAt(p, e)
}

// placeOf is the object that e points to, or that e's value was read from.
func placeOf(e *Expr) (place, error) {
	switch {
	case e.Type.Kind == KindPtr && e.Type.Elem == nil:
		return place{}, fmt.Errorf("%s is %s: cast it to a pointer to a type first", shortString(e), e.Type)
	case e.Type.Kind == KindPtr:
		return place{base: e, typ: e.Type.Elem, user: e.Type.User}, nil
	case e.Op == OpBuf && e.Type.Elem != nil: // an aggregate in memory
		return place{base: e.Args[0], typ: e.Type.Elem, user: e.Args[0].Type.User}, nil
	case e.Op == OpStr:
		return place{base: e.Args[0], typ: charArray(e.Type.Size), user: e.Args[0].Type.User}, nil
	}
	return place{}, fmt.Errorf("%s is %s: it has no members", shortString(e), e.Type)
}

func charArray(n int) btf.Type {
	return &btf.Array{Index: uint32BTF(), Type: charBTF(), Nelems: uint32(n)}
}

func charBTF() btf.Type   { return &btf.Int{Name: "char", Size: 1, Encoding: btf.Char} }
func uint32BTF() btf.Type { return &btf.Int{Name: "unsigned int", Size: 4} }

// step is a step of a member path: a name, or an index in brackets.
type step struct {
	name  string
	index int64
}

// parsePath splits "a.b[2].c->d": a name, then members and indexes.
func parsePath(s string) ([]step, error) {
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

// member follows a path from an object, through pointers where it leads there.
func (c *checker) member(p place, path string) (place, error) {
	steps, err := parsePath(path)
	if err != nil {
		return p, err
	}
	for _, s := range steps {
		if ptr, ok := underlying(p.typ).(*btf.Pointer); ok {
			if p, err = follow(p, ptr); err != nil {
				return p, err
			}
		}
		if s.name != "" {
			p, err = field(p, s.name)
		} else {
			p, err = c.index(p, false, constOf(Int64Type(), uint64(s.index)))
		}
		if err != nil {
			return p, fmt.Errorf("path %q: %w", path, err)
		}
	}
	return p, nil
}

// follow is the object that a pointer in memory points to.
func follow(p place, ptr *btf.Pointer) (place, error) {
	user := p.user || tagged(ptr, "user")
	if _, void := underlying(ptr.Target).(*btf.Void); void {
		return p, errors.New("a void pointer points to nothing that has members; cast it first")
	}
	load := &Expr{Op: opLoad, Type: PtrType(ptr.Target, user), Args: []*Expr{p.base}, Int: p.off}
	return place{base: load, typ: ptr.Target, user: user}, nil
}

// field is a member by name, also of anonymous members.
func field(p place, name string) (place, error) {
	var members []btf.Member
	switch t := underlying(p.typ).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	default:
		return p, fmt.Errorf("%s is no struct and has no member %q", btfName(p.typ), name)
	}
	m, off := kernel.Member(members, name)
	if m == nil {
		return p, fmt.Errorf("%s has no member %q%s", btfName(p.typ), name, nearMember(members, name))
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

// index is an element of the array at p, or, from a pointer, the i-th object.
func (c *checker) index(p place, pointer bool, i *Expr) (place, error) {
	elem := p.typ
	limit := int64(-1)
	if a, ok := underlying(p.typ).(*btf.Array); ok {
		elem = a.Type
		if a.Nelems > 0 { // zero is a flexible array
			limit = int64(a.Nelems)
		}
	} else if ptr, ok := underlying(p.typ).(*btf.Pointer); ok && !pointer {
		var err error
		if p, err = follow(p, ptr); err != nil {
			return p, err
		}
		elem = ptr.Target
	} else if !pointer {
		return p, fmt.Errorf("%s is no array", btfName(p.typ))
	}
	size, err := btf.Sizeof(elem)
	if err != nil || size == 0 {
		return p, fmt.Errorf("element %s has no size", btfName(elem))
	}
	out := place{base: p.base, off: p.off, typ: elem, user: p.user}
	if isConst(i) {
		if limit >= 0 && (i.Int < 0 || i.Int >= limit) {
			return p, fmt.Errorf("index %d of %s", i.Int, btfName(p.typ))
		}
		out.off += i.Int * int64(size)
		return out, nil
	}
	n, err := convertNumber(i, Int64Type())
	if err != nil {
		return p, err
	}
	step, err := c.arith(&Expr{Op: OpMul, Type: Int64Type()}, []*Expr{n, constOf(Int64Type(), uint64(size))})
	if err != nil {
		return p, err
	}
	base, err := convert(p.base, Uint64Type())
	if err != nil {
		return p, err
	}
	sum, err := c.arith(&Expr{Op: OpAdd, Type: Uint64Type()}, []*Expr{base, step})
	if err != nil {
		return p, err
	}
	if out.base, err = convert(sum, PtrType(nil, p.user)); err != nil {
		return p, err
	}
	return out, nil
}

// address is the address of an object, as a pointer of type t.
func address(p place, t Type) *Expr {
	if p.off == 0 {
		return &Expr{Op: OpCast, Type: t, Args: []*Expr{p.base}}
	}
	off := constOf(Uint64Type(), uint64(p.off))
	return &Expr{Op: OpAdd, Type: t, Args: []*Expr{p.base, off}}
}

// valueAt reads an object.
func (c *checker) valueAt(p place, e *Expr) (*Expr, error) {
	if p.bits != nil {
		return bitsAt(p, e.Pos)
	}
	t, err := fromBTF(p.typ, false)
	if err != nil {
		return nil, err
	}
	// What a user-space structure points to is in user space as well.
	if t.Kind == KindPtr && p.user {
		t.User = true
	}
	switch {
	case t.Scalar():
		return &Expr{Op: opLoad, Type: t, Args: []*Expr{p.base}, Int: p.off, Pos: e.Pos}, nil
	case t.Kind == KindString:
		if t.Size == 0 { // a flexible array
			t.Size = DefaultString
		}
		return &Expr{Op: OpStr, Type: t, Args: []*Expr{address(p, PtrType(charBTF(), p.user))}, Pos: e.Pos}, nil
	}
	if t.Size > maxMemory {
		t.Size = maxMemory // only its members and address can be used
	}
	return &Expr{Op: OpBuf, Type: t, Args: []*Expr{address(p, PtrType(p.typ, p.user))}, Pos: e.Pos}, nil
}

// bitsAt reads a bit field: the smallest aligned word that holds it.
func bitsAt(p place, pos Pos) (*Expr, error) {
	t, err := fromBTF(p.typ, false)
	if err != nil || !t.Scalar() {
		return nil, fmt.Errorf("bit field of type %s", btfName(p.typ))
	}
	size := int64(t.Size)
	first, width := int64(p.bits.Offset), int64(p.bits.BitfieldSize)
	for {
		word := first / (size * 8) * size
		low := first - word*8
		if low+width <= size*8 {
			return &Expr{
				Op: opLoad, Type: t, Args: []*Expr{p.base}, Int: p.off + word, Pos: pos,
				bits: bitField{shl: uint8(64 - low - width), shr: uint8(64 - width)}, word: int(size),
			}, nil
		}
		if size *= 2; size > 8 {
			return nil, errors.New("bit field across 64-bit words")
		}
	}
}

// deref reads what a pointer points to.
func (c *checker) deref(e, a *Expr) (*Expr, error) {
	if a.Type.Kind != KindPtr && e.Type.Kind == KindAuto {
		return nil, fmt.Errorf("%s is %s, not a pointer", shortString(a), a.Type)
	}
	if e.Type.Kind == KindAuto {
		if a.Type.Elem == nil {
			return nil, fmt.Errorf("%s points to void: give a type to read", shortString(a))
		}
		p, err := placeOf(a)
		if err != nil {
			return nil, err
		}
		return c.valueAt(p, e)
	}
	ptr, err := asPointer(a)
	if err != nil {
		return nil, err
	}
	if err := validType(e.Type, 0); err != nil {
		return nil, err
	}
	if e.Type.Scalar() {
		return &Expr{Op: opLoad, Type: e.Type, Args: []*Expr{ptr}, Pos: e.Pos}, nil
	}
	op := OpBuf
	if e.Type.Kind == KindString {
		op = OpStr
	}
	return &Expr{Op: op, Type: e.Type, Args: []*Expr{ptr}, Pos: e.Pos}, nil
}

// asPointer makes a number a kernel pointer; pointers stay what they are.
func asPointer(e *Expr) (*Expr, error) {
	if e.Type.Kind == KindPtr {
		return e, nil
	}
	if !e.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not an address", shortString(e), e.Type)
	}
	return convert(e, PtrType(nil, false))
}

// buffer types str and buf. On a value that is text or bytes already they
// change the size.
func (c *checker) buffer(e *Expr, args []*Expr) (*Expr, error) {
	t := e.Type
	if t.Kind == KindAuto {
		t = StringType(DefaultString)
		if e.Op == OpBuf {
			return nil, errors.New("buf needs a size")
		}
	}
	if want := map[Op]Kind{OpStr: KindString, OpBuf: KindBytes}[e.Op]; t.Kind != want {
		return nil, fmt.Errorf("%s gives no %s", e.Op, t)
	}
	if err := validType(t, 0); err != nil {
		return nil, err
	}
	a := args[0]
	if a.Op == OpStr || a.Op == OpBuf {
		a = a.Args[0]
	} else if a.Type.Kind == KindString {
		return c.cast(&Expr{Op: OpCast, Type: t, Pos: e.Pos}, a)
	}
	ptr, err := asPointer(a)
	if err != nil {
		return nil, err
	}
	out := &Expr{Op: e.Op, Type: t, Args: []*Expr{ptr}, Pos: e.Pos}
	if len(args) == 2 {
		n, err := convertNumber(args[1], Uint64Type())
		if err != nil {
			return nil, err
		}
		out.Args = append(out.Args, n)
	}
	return out, nil
}

// perCPU is the address of a per-CPU variable on a CPU: the kernel adds that
// CPU's entry of __per_cpu_offset.
func (c *checker) perCPU(e *Expr, args []*Expr) (*Expr, error) {
	table, ok := c.plan.Symbols["__per_cpu_offset"]
	if !ok {
		return nil, unsupported("per-CPU address", Version{}, "the plan does not name the kernel symbol __per_cpu_offset (kptr_restrict?)")
	}
	ptr, err := asPointer(args[0])
	if err != nil {
		return nil, err
	}
	longs := constOf(PtrType(&btf.Int{Name: "unsigned long", Size: 8}, false), table)
	p, err := c.index(place{base: longs, typ: longs.Type.Elem}, true, args[1])
	if err != nil {
		return nil, err
	}
	off := &Expr{Op: opLoad, Type: Uint64Type(), Args: []*Expr{p.base}, Int: p.off}
	base, err := convert(ptr, Uint64Type())
	if err != nil {
		return nil, err
	}
	return convert(&Expr{Op: OpAdd, Type: Uint64Type(), Args: []*Expr{base, off}, Pos: e.Pos}, ptr.Type)
}

// arrayOf is the element of an array type.
func arrayOf(t btf.Type) (btf.Type, bool) {
	a, ok := underlying(t).(*btf.Array)
	if !ok {
		return nil, false
	}
	return a.Type, true
}
