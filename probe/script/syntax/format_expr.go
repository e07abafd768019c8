package syntax

import "strconv"

// primitive reports whether an expression never needs parentheses.
func primitive(x Expr) bool {
	switch x := x.(type) {
	case *Integer, *String, *Boolean, *Param, *ParamCount, *None, *Identifier, *Builtin, *Sizeof,
		*Offsetof, *TypeInfo, *Variable, *Index, *Element, *MapAccess, *Call, *Map, *Field:
		return true
	case *Comptime:
		return primitive(x.X)
	}
	return false
}

// expr prints an expression. bare means that the context needs no parentheses.
func (f *formatter) expr(x Expr, s *spaces, w uint, bare bool) *page {
	h := valued
	if f.dropped {
		h = dropped
	}
	f.dropped = false
	own := s.before(endOf(x))
	_, tuple := x.(*Tuple)
	bare = bare && !tuple || primitive(x) && f.note == nil
	if !bare {
		w -= 2
		f.wrapName = f.wrapName || looksLikeType(x)
	}
	var p *page
	if b, ok := x.(*Block); ok {
		p = f.blockExpr(b, own, w, h)
	} else {
		p = f.exprText(x, own, w, h)
	}
	f.lift(own)
	if f.note != nil {
		p.comment(f.note(x))
	}
	if bare {
		return p
	}
	return text("(").append(p).text(")")
}

// endOf returns the end of an expression. The locations are bpftrace's: they include the
// spaces after names and after an if without else, and that of a cast is only its type.
func endOf(x Expr) int32 {
	switch x := x.(type) {
	case *Cast:
		return endOf(x.X)
	case *Binary:
		return endOf(x.Y)
	case *Comptime:
		return endOf(x.X)
	case *Unary:
		if !x.Postfix {
			return endOf(x.X)
		}
	case *If:
		if _, none := x.Else.(*None); none {
			return endOf(x.Then)
		}
		return endOf(x.Else)
	}
	return x.At().End
}

// looksLikeType reports whether an expression after a parenthesis would be parsed as a cast to
// an array: (x[i] + 1). The name then needs parentheses of its own.
func looksLikeType(x Expr) bool {
	for {
		switch n := x.(type) {
		case *Binary:
			x = n.X
		case *Field:
			x = n.X
		case *Element:
			x = n.X
		case *Unary:
			if !n.Postfix {
				return false
			}
			x = n.X
		case *If:
			if n.braced() {
				return false
			}
			x = n.Cond
		case *Index:
			if name, others := indexes(n); name {
				return others
			}
			x = n.X
		default:
			return false
		}
	}
}

// indexes reports whether the indexed operand, below any further indexes, is a name, and
// whether any of the indexes is not a number.
func indexes(n *Index) (name, others bool) {
	for {
		_, number := n.I.(*Integer)
		others = others || !number
		next, ok := n.X.(*Index)
		if !ok {
			return isName(n.X), others
		}
		n = next
	}
}

func isName(x Expr) bool {
	switch x.(type) {
	case *Identifier, *Boolean:
		return true
	}
	return false
}

func (f *formatter) blockExpr(b *Block, s *spaces, w uint, h holds) *page {
	f.lift(s.before(b.Start))
	body := f.body(b, s, w-2, h)
	if body.count() > 1 || body.width() > w {
		return text("{").indent(body).text("}")
	}
	return text("{ ").append(body).text(" }")
}

func (f *formatter) exprText(x Expr, s *spaces, w uint, h holds) *page {
	switch x := x.(type) {
	case *Integer:
		return text(integerText(x))
	case *String:
		return text(`"`, escape(x.Value), `"`)
	case *Boolean:
		return text(strconv.FormatBool(x.Value))
	case *None:
		return text("none")
	case *Builtin:
		return text(x.Name)
	case *Identifier:
		return text(x.Name)
	case *Param:
		return text("$", strconv.FormatInt(x.N, 10))
	case *ParamCount:
		return text("$#")
	case *Variable:
		return text(x.Name)
	case *Map:
		return text(x.Name)
	case *Addr:
		return text("&").append(f.expr(x.X, s, w, true))
	case *MapAccess:
		return f.mapAccess(x, s, w)
	case *Tuple:
		return f.tuple(x, s, w)
	case *Record:
		return f.record(x, s, w)
	case *If:
		return f.ifExpr(x, s, w, h)
	}
	return f.operation(x, s, w)
}

func (f *formatter) operation(x Expr, s *spaces, w uint) *page {
	switch x := x.(type) {
	case *Binary:
		return f.binary(x, s, w)
	case *Unary:
		arg := f.expr(x.X, s, w-uint(len(x.Op)), false)
		if x.Postfix {
			return arg.text(x.Op)
		}
		return text(x.Op).append(arg)
	case *Call:
		args := f.exprs(x.Args, ", ", s, w-uint(len(x.Name)+2), true)
		p := text(x.Name, "(")
		if args.width() > w {
			return p.indent(args).text(")")
		}
		return p.append(args).text(")")
	case *Cast:
		p := text("(").append(f.typeOf(x.Type, s, w)).text(")")
		return p.append(f.expr(x.X, s, w-p.width(), primitive(x.X)))
	case *Field:
		return f.base(x.X, s, w-uint(len(x.Name)+1)).text(".", x.Name)
	case *Element:
		n := strconv.FormatUint(x.N, 10)
		return f.base(x.X, s, w-uint(len(n)+1)).text(".", n)
	case *Index:
		wrap := f.wrapName && isName(x.X)
		if wrap {
			f.wrapName = false
		}
		base := f.base(x.X, s, w-1)
		if _, ok := x.X.(*Map); ok || wrap { // (@x)[i] is not the map element @x[i]
			base = text("(").append(base).text(")")
		}
		i := f.expr(x.I, s, w-indentWidth, false)
		return bracket(base, i, w)
	case *Comptime:
		return text("comptime ").append(f.expr(x.X, s, w-9, false))
	case *Sizeof:
		return text("sizeof(").append(f.typeOrExpr(x.X, s, w-8, true)).text(")")
	case *Offsetof:
		return f.offsetof(x, s, w)
	case *TypeInfo:
		_, binary := x.Type.X.(*Binary) // "==" after a name would end the type
		return text("typeinfo(").append(f.typeOrExpr(x.Type.X, s, w-10, !binary)).text(")")
	}
	return newPage()
}

// base prints the operand of .name, .0 and [i].
func (f *formatter) base(x Expr, s *spaces, w uint) *page {
	p := f.expr(x, s, w, false)
	if _, ok := x.(*Comptime); ok && primitive(x) {
		return text("(").append(p).text(")")
	}
	return p
}

func integerText(x *Integer) string {
	if x.Text != "" {
		return x.Text
	}
	n := strconv.FormatUint(x.Value, 10)
	if x.Negative {
		return "-" + n
	}
	return n
}

// bracket prints base[i].
func bracket(base, i *page, w uint) *page {
	if base.width()+i.width()+2 > w {
		return base.text("[").indent(i).text("]")
	}
	return base.text("[").append(i).text("]")
}

func (f *formatter) mapAccess(x *MapAccess, s *spaces, w uint) *page {
	var key *page
	if t, ok := x.Key.(*Tuple); ok && len(t.Elems) >= 2 {
		key = f.tuple(t, s, w-indentWidth)
	} else {
		key = f.expr(x.Key, s, w-indentWidth, true)
	}
	return bracket(text(x.Map.Name), key, w)
}

// tuple prints the elements of a tuple, without parentheses.
func (f *formatter) tuple(x *Tuple, s *spaces, w uint) *page {
	f.wrapName = f.wrapName || len(x.Elems) > 0 && looksLikeType(x.Elems[0])
	if len(x.Elems) == 1 {
		return f.expr(x.Elems[0], s, w-3, false).text(",")
	}
	return f.exprs(x.Elems, ",", s, w-indentWidth-1, false)
}

func (f *formatter) record(x *Record, s *spaces, w uint) *page {
	elem := func(e *NamedArg, w uint) *page {
		return text(e.Name, "=").append(f.expr(e.Value, s, w-uint(len(e.Name))-1, false))
	}
	var elems *page
	if len(x.Elems) == 1 {
		elems = elem(x.Elems[0], w-2)
	} else {
		w -= indentWidth + 1
		list := make([]*page, len(x.Elems))
		for i, e := range x.Elems {
			list[i] = elem(e, w-1)
		}
		elems = fit(list, ",", w)
	}
	if elems.count() > 1 {
		return text("(").indent(elems).text(")")
	}
	return text("(").append(elems).text(")")
}

// binary prints the operands of a chain of && or || side by side, those of other operators in
// parentheses.
func (f *formatter) binary(x *Binary, s *spaces, w uint) *page {
	terms := []Expr{x.Y}
	left := x.X
	for logical := x.Op == "&&" || x.Op == "||"; logical; {
		b, ok := left.(*Binary)
		if !ok || b.Op != x.Op {
			break
		}
		terms = append(terms, b.Y)
		left = b.X
	}
	terms = append(terms, left)
	pages := make([]*page, len(terms))
	for i := range terms {
		term := terms[len(terms)-1-i]
		wide := w
		if i < len(terms)-1 {
			wide--
		}
		pages[i] = f.expr(term, s, wide, bareOperand(term, x.Op, i == 0))
	}
	return fit(pages, " "+x.Op+" ", w)
}

// mostSpine is the number of operators, each the left operand of the next, that get
// parentheses. More parentheses would be hard to read, and to parse.
const mostSpine = 30

// bareOperand reports whether an operand needs no parentheses: a comparison that binds more
// strongly than op, and the left operand of a long chain of operators.
func bareOperand(x Expr, op string, left bool) bool {
	b, ok := x.(*Binary)
	if !ok {
		return false
	}
	binds, than := bindsOf(b.Op), bindsOf(op)
	if isComparison(x) && than <= 7 && (than < 3 || than > 5) {
		return binds > than || left && binds == than
	}
	return left && binds >= than && spine(x) > mostSpine
}

// spine returns the number of operators of which each is the left operand of the next.
func spine(x Expr) (n int) {
	for {
		b, ok := x.(*Binary)
		if !ok {
			return n
		}
		x = b.X
		n++
	}
}

// bindsOf returns an operator's binding strength.
func bindsOf(op string) int {
	_, binds := (&parser{scanner: scanner{text: op}}).binaryOp()
	return binds
}

// exprs prints a list of expressions.
func (f *formatter) exprs(list []Expr, sep string, s *spaces, w uint, bare bool) *page {
	pages := make([]*page, len(list))
	for i, x := range list {
		wide := w
		if i < len(list)-1 {
			wide--
		}
		pages[i] = f.expr(x, s, wide, bare || isComparison(x))
	}
	return fit(pages, sep, w)
}

func isComparison(x Expr) bool {
	b, ok := x.(*Binary)
	return ok && (bindsOf(b.Op) == 6 || bindsOf(b.Op) == 7)
}

// fit joins pages on one line, or on several, which it fills from the last page to the first.
// This gives the same result as bpftrace's search for the best partition.
func fit(list []*page, sep string, w uint) *page {
	total, widest := uint(0), uint(0)
	widths := make([]uint, len(list))
	for i, p := range list {
		if i < len(list)-1 {
			p.text(sep)
		}
		widths[i] = p.width()
		total += widths[i]
		widest = max(widest, widths[i])
	}
	breaks := make([]bool, len(list))
	if total >= w && widest <= w {
		at := uint(0)
		for i := len(list) - 1; i >= 0; i-- {
			if at += widths[i]; at > w {
				breaks[i+1] = true
				at = widths[i]
			}
		}
	}
	joined := newPage()
	for i, p := range list {
		if breaks[i] {
			joined.newLine()
		}
		joined.append(p)
	}
	return joined
}

func (f *formatter) offsetof(x *Offsetof, s *spaces, w uint) *page {
	p := text("offsetof(").append(f.typeOrExpr(x.X, s, w, false)).text(", ")
	for i, name := range x.Fields {
		if i > 0 {
			p.text(".")
		}
		p.text(name)
	}
	return p.text(")")
}

func (f *formatter) typeOrExpr(n Node, s *spaces, w uint, bare bool) *page {
	switch n := n.(type) {
	case *Type:
		return text(n.String())
	case Expr:
		_, indexed := n.(*Index)
		f.wrapName = indexed && readAsType(n)
		p := f.expr(n, s, w, bare)
		if !indexed && readAsType(n) {
			return text("(").append(p).text(")")
		}
		return p
	}
	return newPage()
}

// readAsType reports whether an expression would be parsed as a type, or as a name that may be
// a type, in a place where a type is allowed.
func readAsType(x Expr) bool {
	switch x := x.(type) {
	case *Boolean:
		return true
	case *Identifier:
		return builtinType(x.Name)
	case *Index:
		_, name := x.X.(*Identifier)
		return name || readAsType(x.X)
	}
	return false
}

func (f *formatter) typeOf(t *TypeOf, s *spaces, w uint) *page {
	if named, ok := t.X.(*Type); ok {
		return text(named.String())
	}
	return text("typeof(").append(f.typeOrExpr(t.X, s, w-8, true)).text(")")
}

// String returns the type as it is written in a script.
func (t *Type) String() string {
	switch t.Kind {
	case "":
		return t.Name
	case "*":
		return t.Elem.String() + "*"
	case "[]":
		if t.Open {
			return t.Elem.String() + "[]"
		}
		return t.Elem.String() + "[" + strconv.FormatUint(t.Len, 10) + "]"
	}
	return t.Kind + " " + t.Name
}
