package cdecl

import "github.com/cilium/ebpf/btf"

// attrs contains the attributes that affect layouts.
type attrs struct {
	packed bool
	align  uint64 // in bytes; 0: none
	at     token
}

func (a attrs) merge(b attrs) attrs {
	if a.align < b.align {
		a.align, a.at = b.align, b.at
	}
	a.packed = a.packed || b.packed
	return a
}

// declarator is a name with its type.
type declarator struct {
	name  token // its kind is isEnd if there is none
	typ   btf.Type
	attrs attrs
	open  bool // an array without a size
}

// op is a part of a declarator that derives a type from another one.
type op struct {
	at     token
	kind   byte // '*', '[' or '('
	count  uint64
	open   bool // [] without a size
	words  counts
	params []btf.FuncParam
}

// naming determines whether a declarator has a name.
type naming uint8

const (
	unnamed naming = iota
	maybeNamed
	named
)

// declarator reads a name with the pointers, arrays and parameters around it, and derives its
// type from base.
func (p *parser) declarator(base btf.Type, n naming) declarator {
	d := declarator{typ: base}
	ops := p.derived(&d, n)
	for p.err == nil && (p.attribute(&d.attrs) || p.label()) {
	}
	for i := range ops {
		if p.err == nil && i > 0 && ops[i-1].open && ops[i].kind == '[' {
			p.stop(ops[i-1].at, "an array without a size can't be the element of another one: write the "+
				"size")
		}
		if p.err == nil {
			d.typ = p.derive(d.typ, &ops[i])
			d.open = ops[i].open
		}
	}
	if p.err == nil && p.infoOf(d.typ).depth > maxDepth {
		p.stop(p.tok, "the type before this is made of more than %d others in one another: make it of "+
			"fewer", maxDepth)
	}
	return d
}

// derived returns the parts of a declarator in the order in which they apply: int *(*f)[2] is
// a pointer to an array of pointers.
func (p *parser) derived(d *declarator, n naming) []op {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	ops := p.pointers(d)
	var inner []op
	switch {
	case p.tok.is("(") && p.nested(n):
		p.next()
		p.attribute(&d.attrs)
		inner = p.derived(d, n)
		p.want(")", "the inner part of a declarator")
	case n != unnamed && p.tok.kind == isWord && !isAttribute(&p.tok) && !keyword(p.tok.text):
		d.name = p.tok
		p.next()
	case n == named:
		p.stop(p.tok, "a name is wanted here, not %v: write one", &p.tok)
	}
	after := p.suffixes()
	for i := len(after) - 1; i >= 0; i-- {
		ops = append(ops, after[i])
	}
	if ops = append(ops, inner...); len(ops) > maxNesting {
		p.stop(p.tok, "before this are more than %d pointers and arrays in one another: make them fewer",
			maxNesting)
	}
	return ops
}

// nested reports whether a parenthesis begins a nested declarator, not a function's
// parameters.
func (p *parser) nested(n naming) bool {
	t := p.peek()
	if t.is("*") || t.is("(") || isAttribute(t) {
		return true
	}
	return n != unnamed && t.kind == isWord && !p.beginsType(t)
}

func (p *parser) suffixes() []op {
	var ops []op
	for p.err == nil && len(ops) <= maxNesting {
		at := p.tok
		if p.tok.is("[") {
			ops = append(ops, p.dimension(at))
		} else if p.tok.is("(") {
			ops = append(ops, op{at: at, kind: '(', params: p.parameters()})
		} else {
			break
		}
	}
	return ops
}

func (p *parser) pointers(d *declarator) []op {
	var ops []op
	for p.tok.is("*") {
		o := op{at: p.tok, kind: '*'}
		for p.next(); p.err == nil; {
			switch p.tok.text {
			case "restrict", "__restrict", "__restrict__", "_Nullable", "_Nonnull":
				p.next()
				continue
			case "const", "__const", "volatile", "__volatile__", "__const__", "__volatile":
				o.words.word(p.tok.text)
				p.next()
				continue
			}
			if !p.attribute(&d.attrs) {
				break
			}
		}
		if ops = append(ops, o); len(ops) > maxNesting {
			p.stop(o.at, "before this are more than %d pointers and arrays in one another: make them fewer",
				maxNesting)
		}
	}
	return ops
}

// dimension reads [N].
func (p *parser) dimension(at token) op {
	o := op{at: at, kind: '['}
	p.next()
	for p.tok.is("static") || p.tok.is("const") || p.tok.is("restrict") {
		p.next()
	}
	if p.take("]") {
		o.open = true
		return o
	}
	at = p.tok
	v := p.expression()
	if p.err == nil && (v.Negative() || v.Bits > maxSize) {
		p.stop(at, "an array can't have %v elements: write 0 to %d", v, maxSize)
	}
	p.want("]", "an array's size")
	o.count = v.Bits
	return o
}

// parameters reads (TYPE NAME, …).
func (p *parser) parameters() []btf.FuncParam {
	params := []btf.FuncParam{}
	p.next()
	if p.take(")") {
		return params
	}
	if p.tok.is("void") && p.peek().is(")") {
		p.next()
		p.next()
		return params
	}
	for p.err == nil {
		if len(params) == maxMembers {
			p.stop(p.tok, "there are more than %d parameters: make them fewer", maxMembers)
		}
		if p.take("...") {
			// BTF represents "..." as a parameter without a name, of type void.
			params = append(params, btf.FuncParam{Type: p.primitive("void")})
			break
		}
		params = append(params, p.parameter())
		if !p.take(",") {
			break
		}
	}
	p.want(")", "a function's parameters")
	return params
}

// parameter reads one parameter. Arrays and functions become pointers.
func (p *parser) parameter() btf.FuncParam {
	if !p.enter() {
		return btf.FuncParam{}
	}
	defer p.leave()
	p.take("register")
	sp := p.specifiers(false)
	if p.err != nil {
		return btf.FuncParam{}
	}
	d := p.declarator(sp.typ, maybeNamed)
	switch t := d.typ.(type) {
	case *btf.Array:
		d.typ = p.pointer(t.Type)
	case *btf.FuncProto:
		d.typ = p.pointer(t)
	}
	return btf.FuncParam{Name: d.name.text, Type: d.typ}
}

// derive derives a type from another one.
func (p *parser) derive(t btf.Type, o *op) btf.Type {
	switch o.kind {
	case '*':
		t = p.pointer(t)
		if o.words.constant {
			t = p.hold(&btf.Const{Type: t}, t)
		}
		if o.words.volatile {
			t = p.hold(&btf.Volatile{Type: t}, t)
		}
		return t
	case '(':
		switch t.(type) {
		case *btf.Array, *btf.FuncProto:
			p.stop(o.at, "a function can't return an array or a function: have it return a pointer")
		}
		f := &btf.FuncProto{Return: t, Params: o.params}
		p.made = append(p.made, f)
		return f
	}
	t = p.complete(t, o.at)
	of := p.infoOf(t)
	if p.err == nil && of.size > 0 && o.count > maxSize/of.size {
		p.stop(o.at, "an array of %d elements of %d bytes is larger than %d bytes: make it smaller",
			o.count, of.size, maxSize)
	}
	a := &btf.Array{Index: p.primitive("unsigned int"), Type: t, Nelems: uint32(o.count)}
	of.size *= o.count
	of.depth++
	p.infos[a] = of
	p.made = append(p.made, a)
	return a
}

// pointer returns a pointer to t. Targets with a name do not count for its depth.
func (p *parser) pointer(t btf.Type) btf.Type {
	ptr := &btf.Pointer{Target: t}
	i := info{8, 8, 1, true}
	switch t.(type) {
	case *btf.Struct, *btf.Union, *btf.Typedef, *btf.FuncProto:
	default:
		i.depth += p.infoOf(t).depth
	}
	p.infos[ptr] = i
	p.made = append(p.made, ptr)
	return ptr
}
