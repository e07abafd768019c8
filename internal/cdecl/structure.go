package cdecl

import "github.com/cilium/ebpf/btf"

// tagged is a struct, union or enum with a tag.
type tagged struct {
	kind     Kind
	at       token    // its first use
	typ      btf.Type // its members are set when they are defined
	open     bool     // its definition is being read
	defined  bool
	resolved btf.Type // the caller's type, to use instead of typ
}

// member is a member of a struct that is being read.
type member struct {
	declarator
	isBit bool
	bits  uint64
}

// tag returns the type with a tag, which may be defined later.
func (p *parser) tag(kind Kind, at token) *tagged {
	e := p.tags[at.text]
	if e == nil {
		e = &tagged{kind: kind, at: at}
		switch kind {
		case Union:
			e.typ = &btf.Union{Name: at.text}
		case Enum:
			e.typ = &btf.Enum{Name: at.text}
		default:
			e.typ = &btf.Struct{Name: at.text}
		}
		p.tags[at.text] = e
		p.forward[e.typ] = e
		p.order = append(p.order, e)
	}
	if e.kind != kind {
		p.stop(at, "%s is a %v here, and a %v at %v: give one of them another name", quote(at.text), kind,
			e.kind, e.at.pos)
	}
	return e
}

// structure reads a struct or union, with its tag or its members.
func (p *parser) structure(sp *spec) {
	kind := Struct
	if p.tok.text == "union" {
		kind = Union
	}
	begin := p.tok
	p.next()
	var a attrs
	for p.attribute(&a) {
	}
	e := &tagged{kind: kind, typ: btf.Type(&btf.Struct{})}
	if kind == Union {
		e.typ = &btf.Union{}
	}
	at := p.tok
	if sp.unnamed = at.kind != isWord || keyword(at.text); !sp.unnamed {
		p.next()
		e = p.tag(kind, at)
	}
	if p.err != nil {
		return
	}
	if sp.typ = e.typ; !p.tok.is("{") {
		if sp.unnamed {
			p.stop(p.tok, "after %s comes %v, neither a name nor members: write one of them",
				begin.text, &p.tok)
		}
		if e.resolved != nil {
			sp.typ = e.resolved
		}
		return
	}
	sp.body = true
	p.define(e, at, a)
}

// define reads the members of a struct.
func (p *parser) define(e *tagged, at token, a attrs) {
	if !p.begin(e, at) {
		return
	}
	defer p.leave()
	e.open = true
	p.next()
	var ms []member
	for p.err == nil && !p.tok.is("}") {
		if p.tok.kind == isEnd {
			p.stop(at, "this %v has no end: write a } after its members", e.kind)
			return
		}
		ms = p.members(ms)
	}
	p.next()
	for p.attribute(&a) {
	}
	p.lay(e, ms, a)
	e.open, e.defined = false, true
}

// begin checks that a type may be defined, and adds it to the types in order.
func (p *parser) begin(e *tagged, at token) bool {
	switch {
	case e.defined || e.open:
		p.stop(at, "%v %s is defined twice, first at %v: take one of them out", e.kind, quote(at.text),
			e.at.pos)
		return false
	case e.resolved != nil:
		p.stop(at, "%v %s is defined here, and was needed at %v: define it before", e.kind,
			quote(at.text), e.at.pos)
		return false
	}
	if !p.enter() {
		return false
	}
	if e.at.text != "" { // it has a tag
		e.at = at
		p.decls.Types = append(p.decls.Types, Type{e.kind, at.text, e.typ, at.pos})
		p.decls.byName[tag{e.kind, at.text}] = e.typ
	}
	return true
}

// members reads the members of one declaration.
func (p *parser) members(ms []member) []member {
	if p.take(";") || p.assertion() {
		return ms
	}
	begin := p.tok
	sp := p.specifiers(false)
	if p.err != nil {
		return ms
	}
	if p.tok.is(";") {
		p.next()
		if sp.body && sp.unnamed {
			d := declarator{name: token{pos: begin.pos}, typ: sp.typ, attrs: sp.attrs}
			ms = append(ms, member{declarator: d})
		}
		return ms // otherwise it only declares a type
	}
	for p.err == nil {
		ms = append(ms, p.member(&sp))
		if len(ms) > maxMembers {
			p.stop(begin, "there are more than %d members here: make it several structs", maxMembers)
		}
		if !p.take(",") {
			break
		}
	}
	if !p.tok.is("}") { // compilers accept a missing last semicolon, with a warning
		p.want(";", "a member")
	}
	return ms
}

func (p *parser) member(sp *spec) member {
	m := member{declarator: declarator{name: token{pos: p.tok.pos}, typ: sp.typ}}
	if !p.tok.is(":") {
		m.declarator = p.declarator(sp.typ, named)
	}
	if at := p.tok; p.take(":") {
		v := p.expression()
		if p.err == nil && (v.Negative() || v.Bits > 64) {
			p.stop(at, "a bit field can't have %v bits: write as many as its type has, or fewer", v)
		}
		m.isBit, m.bits = true, v.Bits
	}
	for p.attribute(&m.attrs) {
	}
	m.attrs = m.attrs.merge(sp.attrs)
	if p.err == nil {
		m.typ = p.complete(m.typ, m.name)
	}
	if p.err == nil && m.isBit {
		p.checkBits(&m)
	}
	return m
}

// checkBits returns an error for bit fields that C does not allow.
func (p *parser) checkBits(m *member) {
	most := uint64(0)
	switch t := btf.UnderlyingType(m.typ).(type) {
	case *btf.Int:
		if most = uint64(t.Size) * 8; t.Encoding == btf.Bool {
			most = 1
		}
	case *btf.Enum:
		most = uint64(t.Size) * 8
	}
	switch {
	case most == 0 || most > 64:
		p.stop(m.name, "a bit field's type is not an integer of up to 64 bits: make it one")
	case m.bits > most:
		p.stop(m.name, "a bit field of %d bits has a type of %d: make it no more", m.bits, most)
	case m.bits == 0 && m.name.text != "":
		p.stop(m.name, "bit field %s has no bits: leave out its name, or give it some",
			quote(m.name.text))
	}
}

// lay sets the members of a struct, with their offsets.
func (p *parser) lay(e *tagged, ms []member, a attrs) {
	l := layout{
		union: e.kind == Union, packed: a.packed, align: max(a.align, 1),
		alignUnnamed: p.machine.alignUnnamed,
	}
	names := map[string]bool{}
	var out []btf.Member
	depth := 0
	for i := range ms {
		m := &ms[i]
		if m.open && !l.union && i+1 < len(ms) {
			p.stop(m.name, "array %s has no size, and more members after it: give it a size, or make it "+
				"the last", quote(m.name.text))
		}
		p.unique(names, m.name, m.typ)
		at := p.place(&l, m, e.kind)
		if p.err != nil {
			return
		}
		depth = max(depth, p.infoOf(m.typ).depth)
		if m.name.text != "" || !m.isBit {
			out = append(out, btf.Member{
				Name: m.name.text, Type: m.typ, Offset: btf.Bits(at), BitfieldSize: btf.Bits(m.bits),
			})
		}
	}
	size := l.end()
	if size > maxSize {
		p.stop(e.at, "the %v is larger than %d bytes: make it smaller", e.kind, maxSize)
		return
	}
	switch t := e.typ.(type) {
	case *btf.Struct:
		t.Size, t.Members = uint32(size), out
	case *btf.Union:
		t.Size, t.Members = uint32(size), out
	}
	p.infos[e.typ] = info{size, l.align, depth + 1, true}
}

// place returns the bit offset of a member.
func (p *parser) place(l *layout, m *member, kind Kind) uint64 {
	f := field{
		info: p.infoOf(m.typ), attrs: m.attrs, named: m.name.text != "", isBit: m.isBit, bits: m.bits,
	}
	f.align = max(f.align, 1)
	at := l.place(&f)
	if l.size > maxSize*8 || l.align > maxSize {
		p.stop(m.name, "the %v is larger than %d bytes here: make it smaller", kind, maxSize)
	}
	return at
}

// unique returns an error for two members of the same name, including those inside of a member
// without a name.
func (p *parser) unique(names map[string]bool, at token, t btf.Type) {
	if at.text != "" {
		if names[at.text] {
			p.stop(at, "there are two members %s: give one of them another name", quote(at.text))
		}
		names[at.text] = true
		return
	}
	var inner []btf.Member
	switch t := t.(type) {
	case *btf.Struct:
		inner = t.Members
	case *btf.Union:
		inner = t.Members
	}
	for _, m := range inner {
		p.unique(names, token{text: m.Name, pos: at.pos, kind: isWord}, m.Type)
	}
}

// complete returns a type with a known size. If the text declares a type and does not define
// it, complete calls Options.Resolve.
func (p *parser) complete(t btf.Type, at token) btf.Type {
	if p.err != nil || p.infoOf(t).whole {
		return t
	}
	switch t := t.(type) {
	case *btf.Typedef:
		if of := p.complete(t.Type, at); of != t.Type {
			t.Type = of
		}
		i := p.infoOf(t.Type)
		if i.depth++; p.aligned[t] > 0 {
			i.align = p.aligned[t]
		}
		p.infos[t] = i
	case *btf.Const:
		if of := p.complete(t.Type, at); of != t.Type {
			t.Type = of
		}
		p.infos[t] = p.infoOf(t.Type)
	case *btf.Volatile:
		if of := p.complete(t.Type, at); of != t.Type {
			t.Type = of
		}
		p.infos[t] = p.infoOf(t.Type)
	case *btf.Struct, *btf.Union:
		return p.completeTag(t, at)
	case *btf.Void:
		p.stop(at, "void has no size: make it a pointer, or another type")
	case *btf.FuncProto:
		p.stop(at, "a function has no size: make it a pointer to one")
	default:
		p.stop(at, "the size of this type is not known: take another one")
	}
	return t
}

func (p *parser) completeTag(t btf.Type, at token) btf.Type {
	e := p.forward[t]
	switch {
	case e == nil:
		p.stop(at, "type %s, which was looked up, has no size that is known: declare it in the text",
			quote(t.TypeName()))
	case e.open:
		p.stop(at, "%v %s is in itself: make it a pointer there", e.kind, quote(e.at.text))
	case e.resolved != nil:
		return e.resolved
	default:
		if p.opts.Resolve != nil {
			e.resolved = p.resolve(e.kind, e.at)
		}
		if e.resolved != nil && p.infoOf(e.resolved).whole {
			return e.resolved
		}
		if p.err == nil {
			p.stop(at, "%v %s is not defined: define it before, or have a pointer to it here", e.kind,
				quote(e.at.text))
		}
	}
	return t
}

// finish looks up types that were declared and never defined, and replaces references to them.
// A type that is not found stays a forward declaration.
func (s *state) finish() {
	found := map[btf.Type]btf.Type{}
	for _, e := range s.order {
		if e.defined || s.err != nil {
			continue
		}
		if e.resolved == nil && s.opts.Resolve != nil {
			e.resolved = s.resolve(e.kind, e.at)
		}
		if e.resolved == nil {
			e.resolved = &btf.Fwd{Name: e.at.text, Kind: btf.FwdKind(e.kind)}
		}
		found[e.typ] = e.resolved
	}
	if len(found) == 0 {
		return
	}
	for _, t := range s.made {
		put(t, found)
	}
}

// put replaces the types that t refers to by those in found.
func put(t btf.Type, found map[btf.Type]btf.Type) {
	in := func(t *btf.Type) {
		if r := found[*t]; r != nil {
			*t = r
		}
	}
	switch t := t.(type) {
	case *btf.Pointer:
		in(&t.Target)
	case *btf.Const:
		in(&t.Type)
	case *btf.Volatile:
		in(&t.Type)
	case *btf.Typedef:
		in(&t.Type)
	case *btf.Array:
		in(&t.Type)
	case *btf.FuncProto:
		in(&t.Return)
		for i := range t.Params {
			in(&t.Params[i].Type)
		}
	}
}
