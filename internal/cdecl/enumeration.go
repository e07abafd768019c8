package cdecl

import (
	"math"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
)

// enumeration reads an enum, by its tag or by its values.
func (p *parser) enumeration(sp *spec) {
	begin := p.tok
	p.next()
	var a attrs
	for p.attribute(&a) {
	}
	e := &tagged{kind: Enum, typ: &btf.Enum{}}
	at := p.tok
	if sp.unnamed = at.kind != isWord || keyword(at.text); !sp.unnamed {
		p.next()
		e = p.tag(Enum, at)
	}
	if p.err != nil {
		return
	}
	var fixed btf.Type
	if p.tok.is(":") && p.beginsType(p.peek()) {
		p.next()
		fixed = p.specifiers(false).typ
	}
	sp.typ = e.typ
	switch {
	case p.tok.is("{"):
		sp.body = true
		p.enumerate(e, at, fixed, a)
	case sp.unnamed:
		p.stop(p.tok, "after %s comes %v, neither a name nor values: write one of them",
			begin.text, &p.tok)
	case !e.defined:
		sp.typ = p.otherEnum(e, at)
	}
}

// otherEnum returns an enum that the text has not defined. C requires the definition before
// the use, for its size.
func (p *parser) otherEnum(e *tagged, at token) btf.Type {
	if e.resolved == nil && p.opts.Resolve != nil && !e.open {
		e.resolved = p.resolve(Enum, at)
	}
	if e.resolved == nil {
		if !p.tok.is(";") { // GNU C allows such a declaration
			p.stop(at, "enum %s is not defined: define it before", quote(at.text))
		}
		return e.typ
	}
	return e.resolved
}

// enumerate reads the values of an enum.
func (p *parser) enumerate(e *tagged, at token, fixed btf.Type, a attrs) {
	if !p.begin(e, at) {
		return
	}
	defer p.leave()
	e.open = true
	first := len(p.decls.Constants)
	enum := e.typ.(*btf.Enum)
	p.next()
	next := Value{Size: 4}
	for p.err == nil && !p.tok.is("}") {
		next = p.enumerator(enum, next)
		if len(enum.Values) > maxMembers {
			p.stop(p.tok, "there are more than %d values here: make it several enums", maxMembers)
		}
		if !p.take(",") {
			break
		}
	}
	p.want("}", "an enum's values")
	for p.attribute(&a) {
	}
	if p.err != nil {
		return
	}
	if a.align > 0 {
		p.stop(a.at, "an enum with an alignment is not known here: align what is of its type")
		return
	}
	p.underlying(enum, p.decls.Constants[first:], fixed, a.packed, at)
	e.open, e.defined = false, true
}

// enumerator reads one value, and returns the value after it.
func (p *parser) enumerator(enum *btf.Enum, v Value) Value {
	at := p.tok
	if at.kind != isWord || keyword(at.text) {
		p.stop(at, "the name of a value is wanted here, not %v: write one", &p.tok)
		return v
	}
	if _, ok := p.values[at.text]; ok {
		p.stop(at, "%s is enumerated before: give one of them another name", quote(at.text))
		return v
	}
	var a attrs
	for p.next(); p.attribute(&a); {
	}
	if p.take("=") {
		v = p.expression()
	} else if v.Size == 0 {
		p.stop(at, "the value before %s is the largest there is: write its value", quote(at.text))
	}
	if p.err != nil {
		return v
	}
	if p.fits(v) {
		v = Value{Bits: v.Bits, Size: 4}
	}
	p.values[at.text] = v
	enum.Values = append(enum.Values, btf.EnumValue{Name: at.text, Value: v.Bits})
	p.decls.Constants = append(p.decls.Constants, Constant{at.text, v, enum, at.pos})
	return v.after()
}

// fits reports whether an int holds a value. Such enumerators have type int, whatever the type
// of their expression.
func (p *parser) fits(v Value) bool {
	if v.Unsigned {
		return v.Bits <= math.MaxInt32
	}
	n := int64(v.Bits)
	return n >= math.MinInt32 && n <= math.MaxInt32
}

// after returns the value of the enumerator after one with value v, with size 0 if there is
// none.
func (v Value) after() Value {
	switch {
	case v.Unsigned && v.Bits == math.MaxUint64:
		return Value{}
	case !v.Unsigned && v.Bits == math.MaxInt64:
		return Value{Bits: v.Bits + 1, Size: 8, Unsigned: true}
	case v.Bits == math.MaxInt32 && v.Size == 4:
		return Value{Bits: v.Bits + 1, Size: 4, Unsigned: true}
	case v.Unsigned && v.Bits == math.MaxUint32:
		return Value{Bits: v.Bits + 1, Size: 8}
	}
	v.Bits++
	return v
}

// underlying sets the integer type of an enum like GCC and clang: unsigned int, int or one of
// 64 bits, the first that holds all values; if it is packed, the smallest.
func (p *parser) underlying(e *btf.Enum, cs []Constant, fixed btf.Type, packed bool, at token) {
	var low int64
	var high uint64
	for _, c := range cs {
		if c.Value.Negative() {
			low = min(low, int64(c.Value.Bits))
		} else {
			high = max(high, c.Value.Bits)
		}
	}
	if fixed != nil {
		i, ok := btf.UnderlyingType(fixed).(*btf.Int)
		if !ok || i.Size > 8 {
			p.stop(at, "an enum's type is not an integer of up to 64 bits: make it one")
			return
		}
		e.Size, e.Signed = i.Size, ctype.Signed(i)
		return
	}
	e.Signed = low < 0
	for _, size := range []uint32{1, 2, 4, 8} {
		if e.Size = size; size < 4 && !packed {
			continue
		}
		bits := size * 8
		fits := size == 8 || high < 1<<bits
		if e.Signed {
			fits = low >= -1<<(bits-1) && high < 1<<(bits-1)
		}
		if fits {
			return
		}
	}
	p.stop(at, "no integer holds the negative values of this enum and its largest: make one of "+
		"them smaller")
}

// typedef defines the name of a type.
func (p *parser) typedef(d declarator, a attrs) {
	name := d.name.text
	old := p.typedefs[name]
	if old != nil && !p.implied[name] {
		if !same(btf.Type(old.(*btf.Typedef).Type), d.typ, 0) {
			p.stop(d.name, "typedef %s is defined twice, and not alike: take one of them out", quote(name))
		}
		return
	}
	t := &btf.Typedef{Name: name, Type: d.typ}
	p.hold(t, d.typ)
	if a.align > 0 {
		i := p.infos[t]
		i.align = a.align
		p.infos[t], p.aligned[t] = i, a.align
	}
	p.typedefs[name] = t
	delete(p.implied, name)
	p.decls.Types = append(p.decls.Types, Type{Typedef, name, t, d.name.pos})
	p.decls.byName[tag{Typedef, name}] = t
}

// same reports whether types are the same: C allows a typedef to be repeated.
func same(a, b btf.Type, depth int) bool {
	if a == b {
		return true
	}
	if depth > maxDepth {
		return false
	}
	inner := func(a, b btf.Type) bool { return same(a, b, depth+1) }
	switch a := a.(type) {
	case *btf.Typedef:
		b, ok := b.(*btf.Typedef)
		return ok && a.Name == b.Name && inner(a.Type, b.Type)
	case *btf.Pointer:
		b, ok := b.(*btf.Pointer)
		return ok && inner(a.Target, b.Target)
	case *btf.Const:
		b, ok := b.(*btf.Const)
		return ok && inner(a.Type, b.Type)
	case *btf.Volatile:
		b, ok := b.(*btf.Volatile)
		return ok && inner(a.Type, b.Type)
	case *btf.Array:
		b, ok := b.(*btf.Array)
		return ok && a.Nelems == b.Nelems && inner(a.Type, b.Type)
	case *btf.FuncProto:
		b, ok := b.(*btf.FuncProto)
		if !ok || len(a.Params) != len(b.Params) || !inner(a.Return, b.Return) {
			return false
		}
		for i := range a.Params {
			if !inner(a.Params[i].Type, b.Params[i].Type) {
				return false
			}
		}
		return true
	case *btf.Int:
		b, ok := b.(*btf.Int)
		return ok && a.Name == b.Name
	}
	return false
}
