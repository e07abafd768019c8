package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// bytesConst returns constant bytes of the type t or, if that is the zero Type, of a type
// with their size.
func bytesConst(s string, t ir.Type) (*typed.Node, error) {
	if t.Kind == ir.KindAuto {
		t = ir.BytesType(len(s))
	}
	if t.Kind != ir.KindBytes || t.Size < len(s) {
		return nil, fmt.Errorf("%d bytes do not fit %s", len(s), t)
	}
	if err := t.Valid(); err != nil {
		return nil, err
	}
	return &typed.Node{Op: ir.OpBytes, Type: t, Str: s}, nil
}

// enumerator returns the value of a kernel's enumerator, NAME or ENUM.NAME.
func (c *checker) enumerator(name string) (*typed.Node, error) {
	if c.plan.BTF == nil {
		return nil, Unsupported("enumerator "+name, ir.Version{}, noBTF)
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		t, err := lookupType(c.plan.BTF, name[:i])
		if err != nil {
			return nil, err
		}
		en, ok := ctype.Underlying(t).(*btf.Enum)
		if !ok {
			return nil, fmt.Errorf("%s is not an enum", ctype.String(t))
		}
		if x := enumValue(en, name[i+1:]); x != nil {
			return x, nil
		}
		names := make([]string, len(en.Values))
		for i, v := range en.Values {
			names[i] = v.Name
		}
		return nil, fmt.Errorf("%s has no %q%s", ctype.String(en), name[i+1:],
			near.Hint(name[i+1:], names))
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

// enumValue returns an enum's value by name, nil if it has no such name.
func enumValue(en *btf.Enum, name string) *typed.Node {
	for _, v := range en.Values {
		if v.Name == name {
			return constOf(ir.IntType(int(en.Size), en.Signed), v.Value)
		}
	}
	return nil
}

// sizeof returns the size of a kernel type in bytes.
func (c *checker) sizeof(name string) (*typed.Node, error) {
	t, err := c.kernelType(name)
	if err != nil {
		return nil, err
	}
	n, err := btf.Sizeof(t)
	if err != nil {
		return nil, err
	}
	return constOf(ir.Uint64Type(), uint64(n)), nil
}

// addressSpace returns a pointer with the same address and type to user memory (uptr) or
// kernel memory (kptr).
func addressSpace(a *typed.Node, user bool) (*typed.Node, error) {
	if !a.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not an address", shortString(a), a.Type)
	}
	t := ir.PtrType(nil, user)
	if a.Type.Kind == ir.KindPtr {
		t.Elem = a.Type.Elem
	}
	return typed.New(ir.OpCast, t, a), nil
}

// offsetOf returns the offset in bytes of a member of the object to which a pointer points.
func offsetOf(a *typed.Node, path string) (*typed.Node, error) {
	p, err := placeOf(a)
	if err != nil {
		return nil, err
	}
	m, err := member(p, path)
	switch {
	case err != nil:
		return nil, err
	case m.base != p.base:
		return nil, fmt.Errorf("path %q leads through a pointer", path)
	case m.bits != nil:
		return nil, errors.New("a bit field has no offset in bytes")
	}
	return constOf(ir.Uint64Type(), uint64(m.off)), nil
}

// inPlace reports whether e stands for an object in memory, so that a part of it can be read
// there. Other values are computed as a whole.
func inPlace(e *typed.Node) bool {
	return e.Type.Kind == ir.KindPtr || e.Op == ir.OpStr || e.Op == ir.OpBuf && e.Type.Elem != nil
}

// elementType returns the type of the elements of bytes, text, or a tuple of equal types.
func elementType(t ir.Type) (ir.Type, error) {
	switch t.Kind {
	case ir.KindString:
		return ir.IntType(1, false), nil
	case ir.KindBytes:
		if t.Format == ir.FormatKstack {
			return ir.Uint64Type().WithFormat(ir.FormatKsym), nil
		}
		if t.Format == ir.FormatUstack {
			return ir.Uint64Type().WithFormat(ir.FormatUsym), nil
		}
		if elem, ok := arrayOf(t.Elem); ok {
			et, err := FromBTF(elem, false)
			if err != nil || !et.Scalar() || et.Kind == ir.KindBool {
				return ir.Type{}, fmt.Errorf("an element that is %s can be picked from a value by a constant index alone: use its address",
					ctype.String(elem))
			}
			return et, nil
		}
		return ir.IntType(1, false), nil
	case ir.KindTuple:
		first := t.Fields[0].Type
		for i, f := range t.Fields {
			if !f.Type.Equal(first) || f.Offset != i*first.Size {
				return ir.Type{}, errors.New("a tuple of different types is not an array; use elem")
			}
		}
		return first, nil
	}
	return ir.Type{}, fmt.Errorf("%s is not an array", t)
}

// indexValue returns an element of a value.
func indexValue(a, i *typed.Node) (*typed.Node, error) {
	if !i.Type.Scalar() {
		return nil, fmt.Errorf("%s is %s, not an index", shortString(i), i.Type)
	}
	if elem, ok := arrayOf(a.Type.Elem); ok && i.Const() {
		if t, err := FromBTF(elem, false); err == nil && isAggregate(t) {
			if i.Int < 0 {
				return nil, fmt.Errorf("index %d of %s", i.Int, ctype.String(a.Type.Elem))
			}
			return partOf(a, min(i.Int, 1<<32)*int64(t.Size), t)
		}
	}
	t, err := elementType(a.Type)
	if err != nil {
		return nil, err
	}
	n := int64(a.Type.Size / t.Size)
	if i.Const() {
		if i.Int < 0 || i.Int >= n {
			return nil, fmt.Errorf("index %d of %d elements", i.Int, n)
		}
		if a.Type.Kind == ir.KindTuple {
			return elem("", i.Int, a)
		}
	}
	if !t.Scalar() {
		return nil, fmt.Errorf("elements of %s: the index must be constant", t)
	}
	if i, err = convert(i, ir.Uint64Type()); err != nil {
		return nil, err
	}
	return typed.New(ir.OpIndex, t, a, i), nil
}

// sameBits reports whether two types are an integer and bytes of its width. A cast between
// them keeps the bytes in memory's order.
func sameBits(a, b ir.Type) bool {
	return a.Size == b.Size && (a.Kind == ir.KindInt && b.Kind == ir.KindBytes ||
		a.Kind == ir.KindBytes && b.Kind == ir.KindInt)
}

// PerCPULookup is the first kernel with bpf_map_lookup_percpu_elem.
var PerCPULookup = ir.Version{5, 19}

// mapCPU determines the type of a read of one CPU's value in a map.
func (c *checker) mapCPU(e *ir.Expr, args []*typed.Node) (*typed.Node, error) {
	m := e.Map
	if m == nil {
		return nil, errors.New("missing map")
	}
	switch kernelKind(m) {
	case ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.PerCPUArray:
	default:
		return nil, fmt.Errorf("map %s is not per CPU", m.Name)
	}
	out := &typed.Node{Op: ir.OpMapCPU, Type: m.Value, Map: m, Int: e.Int}
	switch m.Agg {
	case ir.AggNone:
		out.Int = 0
	case ir.AggHist, ir.AggLinear, ir.AggSeries:
		return nil, fmt.Errorf("map %s: the program cannot read a %s", m.Name, m.Agg)
	default:
		out.Type = ir.Uint64Type()
		if e.Int < 0 || e.Int%8 != 0 || e.Int >= int64(AggSize(m)) {
			return nil, fmt.Errorf("map %s: no field at %d", m.Name, e.Int)
		}
	}
	if !out.Type.Scalar() || ClassesOf(m) != nil {
		return nil, fmt.Errorf("map %s: the program cannot read values of other CPUs", m.Name)
	}
	if !c.kern.AtLeast(PerCPULookup) {
		return nil, Unsupported("reading other CPUs' values", PerCPULookup, "on Linux "+c.plan.Kernel+
			" a program reaches only what its own CPU has of a map (bpf_map_lookup_percpu_elem is missing): let the reader add the CPUs up")
	}
	var key *typed.Node
	if len(args) == 2 {
		key = args[0]
	}
	key, err := c.keyOf(m, key)
	if err != nil {
		return nil, err
	}
	cpu, err := convertNumber(args[len(args)-1], ir.IntType(4, false))
	if err != nil {
		return nil, err
	}
	if key != nil {
		out.Args = append(out.Args, key)
	}
	out.Args = append(out.Args, cpu)
	return out, nil
}

// kernelAddr returns the address of a kernel symbol. BTF has the types of per-CPU variables
// and, since Linux 6.16 if the kernel was built with a recent pahole, of other variables.
func (l *locator) kernelAddr(name string) (*typed.Node, error) {
	addr, ok := l.plan.Symbols[name]
	if !ok {
		return nil, fmt.Errorf("the plan does not name the kernel symbol %q: see bpf.Resolve", name)
	}
	t := ir.PtrType(nil, false)
	if l.plan.BTF != nil {
		types, _ := l.plan.BTF.AnyTypesByName(name)
		for _, x := range types {
			if v, ok := x.(*btf.Var); ok {
				t.Elem = v.Type
			}
		}
	}
	return constOf(t, addr), nil
}

// userAddr returns the address of a symbol of the probe's file: the address of the probed
// instruction plus the distance from it, which the plan has.
func (l *locator) userAddr(name string) (*typed.Node, error) {
	if !l.pp.UserRegs || l.pp.Returns && l.pp.Go == nil {
		return nil, fmt.Errorf("%s is not at an instruction of a file: uaddr needs one", l.targetName())
	}
	ip, err := l.register(l.specialReg("ip"), ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	var sum *typed.Node
	first := uint64(0)
	for i, s := range l.pp.Sites {
		d, ok := l.plan.Symbols[SiteSymbol(s, name)]
		if !ok {
			return nil, fmt.Errorf("the plan does not name the symbol %q of %s: see bpf.Resolve", name,
				s.Path)
		}
		if i == 0 {
			first = d
			sum = constOf(ir.Uint64Type(), d)
		} else if d != first {
			probe, err := l.cookie("probe", ir.Uint64Type())
			if err != nil {
				return nil, err
			}
			is := typed.New(ir.OpEq, ir.BoolType(), probe,
				constOf(ir.Uint64Type(), uint64(uint32(s.Cookie))))
			sum = typed.New(ir.OpCond, ir.Uint64Type(), is, constOf(ir.Uint64Type(), d), sum)
		}
	}
	if sum == nil {
		return nil, fmt.Errorf("%s has no sites", l.targetName())
	}
	addr := typed.New(ir.OpAdd, ir.Uint64Type(), ip, sum)
	return convert(addr, ir.PtrType(&btf.Int{Name: "unsigned long", Size: 8}, true))
}

// SiteSymbol returns the name by which Plan.Symbols has the distance of a symbol from a site
// in the same file.
func SiteSymbol(s probe.Site, symbol string) string {
	return fmt.Sprintf("%s+%#x:%s", s.Path, s.Offset, symbol)
}

// noBTF is the reason for errors about the kernel's types.
const noBTF = "the plan has no BTF: CONFIG_DEBUG_INFO_BTF is off, or give probe.EnvOptions a BTF tree"
