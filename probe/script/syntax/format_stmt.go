package syntax

import "strings"

// holds is the role that the last expression of a block has when the block is parsed.
type holds uint8

const (
	valued     holds = iota // it is the value of the block
	statements              // it becomes a statement
	dropped                 // the same, for the blocks of such an if: see dropValue
)

// body prints the inside of a block.
func (f *formatter) body(b *Block, s *spaces, w uint, h holds) *page {
	p := newPage()
	_, none := b.Value.(*None)
	for i, after := 0, (*page)(nil); i < len(b.Stmts); i++ {
		stmt := after
		if stmt == nil {
			stmt = f.stmt(b, i, s, w, h)
		}
		after = nil
		switch open := endsOpen(b.Stmts[i]) && !f.closed(b, i, h); {
		case open && i+1 < len(b.Stmts):
			after = f.stmt(b, i+1, s, w, h)
			if continues(after.begins()) {
				stmt.text(";")
			}
		case open && !none && continues(leftmostText(b.Value)):
			stmt.text(";")
		}
		if i > 0 && stmt.width() > 0 {
			p.newLine()
		}
		p.append(stmt)
	}
	extra := s.before(b.End)
	if !none {
		p = f.value(p, b.Value, extra, w)
	}
	return f.inline(p, extra)
}

// value prints the value of a block on a line of its own.
func (f *formatter) value(p *page, x Expr, s *spaces, w uint) *page {
	before := s.before(x.At().Start)
	since := len(f.lifted)
	f.dropped = false
	line := f.bareExpr(x, s, w)
	if p.count() > 0 {
		p.newLine()
	}
	return f.below(f.block(p, before), since, line)
}

// endsOpen reports whether a statement is an if or a block, which end without a semicolon.
func endsOpen(s Stmt) bool {
	e, ok := s.(*ExprStmt)
	return ok && braced(e.X)
}

// hasBody reports whether a statement ends with a block.
func hasBody(s Stmt) bool {
	switch s.(type) {
	case *While, *Unroll, *For:
		return true
	}
	return endsOpen(s)
}

// braced reports whether an expression is printed with a brace at its end.
func braced(x Expr) bool {
	switch x := x.(type) {
	case *Block:
		return true
	case *If:
		return x.braced()
	}
	return false
}

// braced reports whether an if is not a ternary.
func (n *If) braced() bool {
	if _, ok := n.Then.(*Block); !ok {
		return false
	}
	switch e := n.Else.(type) {
	case *Block, *None:
		return true
	case *If:
		return e.braced()
	}
	return false
}

// closed reports whether the last statement of a block needs a semicolon, without which it
// would be parsed as the block's value.
func (f *formatter) closed(b *Block, i int, h holds) bool {
	_, none := b.Value.(*None)
	if f.dump || i < len(b.Stmts)-1 || !none {
		return false
	}
	return h == valued || !noValues(b.Stmts[i].(*ExprStmt).X)
}

// noValues reports whether dropValue would change nothing.
func noValues(x Expr) bool {
	switch x := x.(type) {
	case *Block:
		for _, s := range x.Stmts {
			if s, ok := s.(*ExprStmt); ok && !noValues(s.X) {
				return false
			}
		}
		_, none := x.Value.(*None)
		return none
	case *If:
		return (x.Then == nil || noValues(x.Then)) && noValues(x.Else)
	}
	return true
}

// begins returns the first line of a page that is not a comment.
func (p *page) begins() string {
	for _, l := range p.lines {
		if l.size() == 0 || l.at(0).comment {
			continue
		}
		var b strings.Builder
		for _, s := range l.all() {
			b.WriteString(s.text)
		}
		return b.String()
	}
	return ""
}

// continues reports whether text after a closing brace would be parsed as part of the
// expression that the brace ends.
func continues(s string) bool {
	if s == "" {
		return false
	}
	switch s[0] {
	case '$', '@', '"', '{', '(', '!', '~':
		return false
	}
	if rest, ok := strings.CutPrefix(s, "else"); ok && (rest == "" || !wordByte(rest[0])) {
		return true
	}
	return !wordByte(s[0])
}

// leftmostText returns the first token of the printed expression if it is an operator or a
// name, which statementWord and continues need; else "".
func leftmostText(x Expr) string {
	switch x := x.(type) {
	case *Unary:
		if !x.Postfix {
			return x.Op
		}
	case *Addr:
		return "&"
	case *Identifier:
		return x.Name
	case *Call:
		return x.Name
	case *Binary:
		return leftmostText(x.X)
	case *If:
		if x.braced() {
			return "if"
		}
		return leftmostText(x.Cond)
	case *Field:
		return leftmostText(x.X)
	case *Element:
		return leftmostText(x.X)
	case *Index:
		return leftmostText(x.X)
	}
	return ""
}

// stmt prints a statement of a block, after the comments before it.
func (f *formatter) stmt(b *Block, i int, s *spaces, w uint, h holds) *page {
	n := b.Stmts[i]
	if e, ok := n.(*ExprStmt); ok {
		if _, none := e.X.(*None); none {
			return newPage()
		}
	}
	p := f.block(newPage(), s.before(startOf(n)))
	since := len(f.lifted)
	f.dropped = false
	if endsOpen(n) {
		_, none := b.Value.(*None)
		last := i == len(b.Stmts)-1 && none
		f.dropped = h == dropped || h == statements && last && !f.closed(b, i, h)
	}
	stmt := f.stmtText(n, s, w)
	if !hasBody(n) {
		f.lift(s.before(n.At().End - 1))
	}
	if endsOpen(n) && f.closed(b, i, h) {
		stmt.text(";")
	}
	return f.below(p, since, stmt)
}

// startOf returns the start of a statement. If the statement was a block's last expression,
// bpftrace gives it the location of the block.
func startOf(s Stmt) int32 {
	if e, ok := s.(*ExprStmt); ok {
		return e.X.At().Start
	}
	return s.At().Start
}

func (f *formatter) stmtText(n Stmt, s *spaces, w uint) *page {
	switch n := n.(type) {
	case *ExprStmt:
		p := f.bareExpr(n.X, s, w)
		if !braced(n.X) {
			p.text(";")
		}
		return p
	case *Assign:
		return f.assign(n, s, w)
	case *VarDecl:
		return f.varDecl(n, s, w).text(";")
	case *Discard:
		return text("_ = ").append(f.expr(n.X, s, w, true)).text(";")
	case *Jump:
		p := text(n.Keyword)
		if n.Value != nil {
			p.text(" ").append(f.expr(n.Value, s, 1, false)) // bpftrace passes 1
		}
		return p.text(";")
	case *While:
		cond := f.condition(n.Cond, s, w-8)
		f.lift(s.before(n.Body.Start))
		body := f.body(n.Body, s, w-2, statements)
		return text("while ").append(cond).text(" {").indent(body).text("}")
	case *Unroll:
		count := f.expr(n.Count, s, w-11, false)
		f.lift(s.before(n.Body.Start))
		body := f.body(n.Body, s, w-2, statements)
		return text("unroll (").append(count).text(") {").indent(body).text("}")
	case *For:
		over := f.over(n.Over, s, w)
		f.lift(s.before(n.Body.Start))
		body := f.body(n.Body, s, w-indentWidth, statements)
		return text("for ", n.Var.Name, " : ").append(over).text(" {").indent(body).text("}")
	case *Import:
		return text(`import "`, escape(n.Path), `";`)
	}
	return newPage()
}

// bareExpr prints an expression that is a statement or a block's value, in parentheses if it
// would be parsed as another statement.
func (f *formatter) bareExpr(x Expr, s *spaces, w uint) *page {
	word := statementWord(leftmostText(x))
	f.wrapName = word && looksLikeType(x)
	p := f.expr(x, s, w, true)
	_, isIf := x.(*If)
	first := p.first()
	if word || isIf && !braced(x) && (first == '$' || first == '@') {
		return text("(").append(p).text(")")
	}
	return p
}

// statementWord reports whether a word begins a statement.
func statementWord(s string) bool {
	switch s {
	case "let", "import", "while", "unroll", "for", "break", "continue", "return":
		return true
	}
	return false
}

func (f *formatter) assign(n *Assign, s *spaces, w uint) *page {
	var target *page
	switch t := n.Target.(type) {
	case *VarDecl:
		target = f.varDecl(t, s, w)
	case Expr:
		target = f.expr(t, s, w, false)
	}
	op := n.Op + "="
	x := f.expr(n.Value, s, w-(target.width()+2+uint(len(op))), true)
	return target.text(" ", op, " ").append(x).text(";")
}

func (f *formatter) varDecl(n *VarDecl, s *spaces, w uint) *page {
	p := text("let ", n.Var.Name)
	if n.Type != nil {
		p.text(" : ").append(f.typeOf(n.Type, s, w))
	}
	return p
}

// condition prints the condition of an if or a while. A condition that begins with a
// parenthesis gets another pair around it: the parser would take the first one for the
// condition's.
func (f *formatter) condition(x Expr, s *spaces, w uint) *page {
	_, comptime := x.(*Comptime)
	p := f.expr(x, s, w, comptime)
	_, tuple := x.(*Tuple)
	if tuple || primitive(x) && p.first() == '(' {
		return text("(").append(p).text(")")
	}
	return p
}

// over prints the operand of a for loop.
func (f *formatter) over(x Expr, s *spaces, w uint) *page {
	r, ok := x.(*Range)
	if !ok {
		return f.expr(x, s, w, false)
	}
	end := func(x Expr) *page {
		if literal(x) {
			return f.expr(x, s, w, true)
		}
		f.wrapName = looksLikeType(x)
		return text("(").append(f.expr(x, s, w-4, true)).text(")")
	}
	return end(r.Begin).text("..").append(end(r.End))
}

// literal reports whether an expression consists of literals only.
func literal(x Expr) bool {
	switch x := x.(type) {
	case *Integer, *String, *Boolean:
		return true
	case *Tuple:
		for _, e := range x.Elems {
			if !literal(e) {
				return false
			}
		}
		return true
	case *Record:
		for _, e := range x.Elems {
			if !literal(e.Value) {
				return false
			}
		}
		return true
	}
	return false
}
