package syntax

// chain is an if with its else ifs, whose branches are already printed.
type chain struct {
	conds, bodies []*page
	last          *page // the body of else, or nil
	width         uint  // of the whole chain on one line
	lines         bool  // a condition or a body has several lines
}

// add appends a branch.
func (c *chain) add(cond, body *page) {
	c.conds, c.bodies = append(c.conds, cond), append(c.bodies, body)
	c.width += cond.width() + 5 + body.width() + 3
	c.lines = c.lines || cond.count() > 1 || body.count() > 1
}

func (f *formatter) ifExpr(n *If, s *spaces, w uint, h holds) *page {
	if !n.braced() {
		return f.ternary(n, s, w)
	}
	c := &chain{}
	for it := n; it != nil; {
		before := s.before(it.Then.At().Start)
		cond := f.condition(it.Cond, before, w-5)
		f.lift(before)
		c.add(cond, f.body(it.Then.(*Block), s, w-indentWidth, h))
		if b, ok := it.Else.(*Block); ok {
			c.last = f.body(b, s, w-indentWidth, h)
			c.lines = c.lines || c.last.count() > 1
		}
		it, _ = it.Else.(*If)
	}
	_, noValue := n.Then.(*Block).Value.(*None)
	_, noElse := n.Else.(*None)
	return c.page(noValue || noElse || c.width > w || len(c.conds) > 1 || c.lines)
}

// page joins the branches, on several lines or on one.
func (c *chain) page(several bool) *page {
	p := newPage()
	add := func(body *page) {
		if several {
			p.text(" {").indent(body).text("}")
		} else {
			p.text(" { ").append(body).text(" }")
		}
	}
	for i, cond := range c.conds {
		if i > 0 {
			p.text(" else ")
		}
		p.text("if ").append(cond)
		add(c.bodies[i])
	}
	if c.last != nil {
		p.text(" else")
		add(c.last)
	}
	return p
}

func (f *formatter) ternary(n *If, s *spaces, w uint) *page {
	cond := f.expr(n.Cond, s, w, false)
	if n.Then == nil {
		return cond.text(" ?: ").append(f.expr(n.Else, s, w-2, false))
	}
	then := f.expr(n.Then, s, w-2, false)
	other := f.expr(n.Else, s, w-2, false)
	if cond.width()+then.width()+other.width()+8 > w {
		return cond.newLine().text("? ").append(then).newLine().text(": ").append(other)
	}
	return cond.text(" ? ").append(then).text(" : ").append(other)
}
