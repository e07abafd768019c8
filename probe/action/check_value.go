package action

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe"
)

// bytesConst types constant bytes.
func bytesConst(e *Expr) (*Expr, error) {
	t := e.Type
	if t.Kind == KindAuto {
		t = BytesType(len(e.Str))
	}
	if t.Kind != KindBytes || t.Size < len(e.Str) {
		return nil, fmt.Errorf("%d bytes do not fit %s", len(e.Str), t)
	}
	if err := validType(t, 0); err != nil {
		return nil, err
	}
	return &Expr{Op: OpBytes, Type: t, Str: e.Str, Pos: e.Pos}, nil
}

// enumerator is the value of a kernel enumerator.
func (c *checker) enumerator(e *Expr) (*Expr, error) {
	if c.plan.BTF == nil {
		return nil, unsupported("enumerator "+e.Str, Version{}, noBTF)
	}
	name := e.Str
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		t, err := lookupType(c.plan.BTF, name[:i])
		if err != nil {
			return nil, err
		}
		en, ok := underlying(t).(*btf.Enum)
		if !ok {
			return nil, fmt.Errorf("%s is no enum", btfName(t))
		}
		if x := enumValue(en, name[i+1:]); x != nil {
			return x, nil
		}
		names := make([]string, len(en.Values))
		for i, v := range en.Values {
			names[i] = v.Name
		}
		return nil, fmt.Errorf("%s has no %q%s", btfName(en), name[i+1:], near.Hint(name[i+1:], names))
	}
	for t, err := range c.plan.BTF.All() {
		if err != nil {
			return nil, err
		}
		if en, ok := t.(*btf.Enum); ok {
			if x := enumValue(en, name); x != nil {
				return x, nil
			}
		}
	}
	return nil, fmt.Errorf("the kernel's BTF has no enumerator %q", name)
}

// enumValue is an enum's value by name, nil if it has none of that name.
func enumValue(en *btf.Enum, name string) *Expr {
	for _, v := range en.Values {
		if v.Name == name {
			return constOf(IntType(int(en.Size), en.Signed), v.Value)
		}
	}
	return nil
}

// sizeof is the size of a kernel type.
func (c *checker) sizeof(e *Expr) (*Expr, error) {
	t, err := c.kernelType(e.Str)
	if err != nil {
		return nil, err
	}
	n, err := btf.Sizeof(t)
	if err != nil {
		return nil, err
	}
	return constOf(Uint64Type(), uint64(n)), nil
}

// addressSpace types kptr and uptr: the same pointer into the other memory.
func addressSpace(e, a *Expr) (*Expr, error) {
	if !a.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not an address", shortString(a), a.Type)
	}
	t := PtrType(nil, e.Op == OpUptr)
	if a.Type.Kind == KindPtr {
		t.Elem = a.Type.Elem
	}
	return &Expr{Op: OpCast, Type: t, Args: []*Expr{a}, Pos: e.Pos}, nil
}

// offsetOf is where a member is in what a pointer points to.
func (c *checker) offsetOf(e, a *Expr) (*Expr, error) {
	p, err := placeOf(a)
	if err != nil {
		return nil, err
	}
	m, err := c.member(p, e.Str)
	switch {
	case err != nil:
		return nil, err
	case m.base != p.base:
		return nil, fmt.Errorf("path %q leads through a pointer", e.Str)
	case m.bits != nil:
		return nil, errors.New("a bit field has no offset in bytes")
	}
	return constOf(Uint64Type(), uint64(m.off)), nil
}

// inPlace says whether e stands for something in memory, of which a part can
// be read there; other values are computed as a whole.
func inPlace(e *Expr) bool {
	return e.Type.Kind == KindPtr || e.Op == OpStr || e.Op == OpBuf && e.Type.Elem != nil
}

// elementType is the type of the elements of bytes, text, or a tuple of equal types.
func elementType(t Type) (Type, error) {
	switch t.Kind {
	case KindString:
		return IntType(1, false), nil
	case KindBytes:
		if t.Format == FormatKstack {
			return u64.WithFormat(FormatKsym), nil
		}
		if t.Format == FormatUstack {
			return u64.WithFormat(FormatUsym), nil
		}
		if elem, ok := arrayOf(t.Elem); ok {
			et, err := fromBTF(elem, false)
			if err != nil || !et.Scalar() || et.Kind == KindBool {
				return Type{}, fmt.Errorf("elements of %s cannot be picked from a value: use its address", btfName(elem))
			}
			return et, nil
		}
		return IntType(1, false), nil
	case KindTuple:
		first := t.Fields[0].Type
		for i, f := range t.Fields {
			if !f.Type.Equal(first) || f.Offset != i*first.Size {
				return Type{}, errors.New("a tuple of different types is not an array; use elem")
			}
		}
		return first, nil
	}
	return Type{}, fmt.Errorf("%s is no array", t)
}

// indexValue types an element of a value.
func (c *checker) indexValue(e *Expr, args []*Expr) (*Expr, error) {
	a, i := args[0], args[1]
	if !i.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not an index", shortString(i), i.Type)
	}
	t, err := elementType(a.Type)
	if err != nil {
		return nil, err
	}
	n := int64(a.Type.Size / t.Size)
	if isConst(i) {
		if i.Int < 0 || i.Int >= n {
			return nil, fmt.Errorf("index %d of %d elements", i.Int, n)
		}
		if a.Type.Kind == KindTuple {
			return c.elem(&Expr{Op: OpElem, Int: i.Int, Pos: e.Pos}, a)
		}
	}
	if !t.Scalar() {
		return nil, fmt.Errorf("elements of %s: the index must be constant", t)
	}
	if i, err = convert(i, Uint64Type()); err != nil {
		return nil, err
	}
	return &Expr{Op: OpIndex, Type: t, Args: []*Expr{a, i}, Pos: e.Pos}, nil
}

// sameBits says whether two types are an integer and bytes of its width, which
// are cast into each other in memory's order.
func sameBits(a, b Type) bool {
	return a.Size == b.Size && (a.Kind == KindInt && b.Kind == KindBytes || a.Kind == KindBytes && b.Kind == KindInt)
}

// perCPULookup is the first kernel with bpf_map_lookup_percpu_elem.
var perCPULookup = Version{5, 19}

// mapCPU types a read of what one CPU holds.
func (c *checker) mapCPU(e *Expr, args []*Expr) (*Expr, error) {
	m := e.Map
	if m == nil {
		return nil, errors.New("missing map")
	}
	switch kernelKind(m) {
	case ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.PerCPUArray:
	default:
		return nil, fmt.Errorf("map %s is not per CPU", m.Name)
	}
	out := &Expr{Op: OpMapCPU, Type: m.Value, Map: m, Int: e.Int, Pos: e.Pos}
	switch m.Agg {
	case AggNone:
		out.Int = 0
	case AggHist, AggLinear, AggSeries:
		return nil, fmt.Errorf("map %s: the program cannot read a %s", m.Name, m.Agg)
	default:
		out.Type = u64
		if e.Int < 0 || e.Int%8 != 0 || e.Int >= int64(aggSize(m)) {
			return nil, fmt.Errorf("map %s: no field at %d", m.Name, e.Int)
		}
	}
	if !out.Type.Scalar() || classesOf(m) != nil {
		return nil, fmt.Errorf("map %s: the program cannot read values of other CPUs", m.Name)
	}
	if !c.kern.AtLeast(perCPULookup) {
		return nil, unsupported("reading other CPUs' values", perCPULookup, "on Linux "+c.plan.Kernel+
			" a program reaches only what its own CPU has of a map (bpf_map_lookup_percpu_elem is missing): let the reader add the CPUs up")
	}
	var key *Expr
	if len(args) == 2 {
		key = args[0]
	}
	key, err := c.keyOf(m, key)
	if err != nil {
		return nil, err
	}
	cpu, err := convertNumber(args[len(args)-1], u32)
	if err != nil {
		return nil, err
	}
	if key != nil {
		out.Args = append(out.Args, key)
	}
	out.Args = append(out.Args, cpu)
	return out, nil
}

// kernelAddr is the address of a kernel symbol. BTF has the types of variables
// that are per CPU, and since Linux 6.16, built with a recent pahole, of others.
func (c *checker) kernelAddr(e *Expr) (*Expr, error) {
	addr, ok := c.plan.Symbols[e.Str]
	if !ok {
		return nil, fmt.Errorf("the plan does not name the kernel symbol %q: see ResolveSymbols", e.Str)
	}
	t := PtrType(nil, false)
	if c.plan.BTF != nil {
		types, _ := c.plan.BTF.AnyTypesByName(e.Str)
		for _, x := range types {
			if v, ok := x.(*btf.Var); ok {
				t.Elem = v.Type
			}
		}
	}
	return constOf(t, addr), nil
}

// userAddr is the address of a symbol of the probe's file: the distance from
// the probed instruction, which the plan names, and where that instruction is.
func (c *checker) userAddr(e *Expr) (*Expr, error) {
	if !c.pp.UserRegs || c.pp.Returns && c.pp.Go == nil {
		return nil, fmt.Errorf("%s is not at an instruction of a file: uaddr needs one", c.targetName())
	}
	ip, err := c.register(c.specialReg("ip"), u64)
	if err != nil {
		return nil, err
	}
	var sum *Expr
	first := uint64(0)
	for i, s := range c.pp.Sites {
		d, ok := c.plan.Symbols[siteSymbol(s, e.Str)]
		if !ok {
			return nil, fmt.Errorf("the plan does not name the symbol %q of %s: see ResolveSymbols", e.Str, s.Path)
		}
		if i == 0 {
			first = d
			sum = constOf(u64, d)
		} else if d != first {
			probe, err := c.cookie(&Expr{Op: OpBuiltin, Str: "probe", Type: u64})
			if err != nil {
				return nil, err
			}
			is := &Expr{Op: OpEq, Type: BoolType(), Args: []*Expr{probe, constOf(u64, uint64(uint32(s.Cookie)))}}
			sum = &Expr{Op: OpCond, Type: u64, Args: []*Expr{is, constOf(u64, d), sum}}
		}
	}
	if sum == nil {
		return nil, fmt.Errorf("%s has no sites", c.targetName())
	}
	addr := &Expr{Op: OpAdd, Type: u64, Args: []*Expr{ip, sum}, Pos: e.Pos}
	return convert(addr, PtrType(&btf.Int{Name: "unsigned long", Size: 8}, true))
}

// siteSymbol is the name under which Plan.Symbols has the distance of a symbol
// from a site in the same file.
func siteSymbol(s probe.Site, symbol string) string {
	return fmt.Sprintf("%s+%#x:%s", s.Path, s.Offset, symbol)
}

// noBTF is the cause of what needs the kernel's types.
const noBTF = "the plan has no BTF: CONFIG_DEBUG_INFO_BTF is off, or give probe.EnvOptions a BTF tree"
