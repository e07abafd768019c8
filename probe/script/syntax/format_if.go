package syntax

func (f *formatter) ifExpr(n *If, s *spaces, w uint, h holds) *page {
	if !n.braced() {
		return f.ternary(n, s, w)
	}
	type branch struct{ cond, body *page }
	var branches []branch
	var last *page
	total, lines, many := uint(0), false, false
	for it := n; ; {
		before := s.before(it.Then.At().Start)
		cond := f.condition(it.Cond, before, w-5)
		f.lift(before)
		body := f.body(it.Then.(*Block), s, w-indentWidth, h)
		total += cond.width() + 5 + body.width() + 3
		lines = lines || cond.count() > 1 || body.count() > 1
		branches = append(branches, branch{cond, body})
		next, ok := it.Else.(*If)
		if !ok {
			if b, ok := it.Else.(*Block); ok {
				last = f.body(b, s, w-indentWidth, h)
				lines = lines || last.count() > 1
			}
			break
		}
		it, many = next, true
	}
	_, noValue := n.Then.(*Block).Value.(*None)
	_, noElse := n.Else.(*None)
	open, closing := text(" { "), " }"
	multi := noValue || noElse || total > w || many || lines
	p := newPage()
	add := func(body *page) {
		if multi {
			p.text(" {").indent(body).text("}")
		} else {
			p.append(open).append(body).text(closing)
		}
	}
	for i, b := range branches {
		if i > 0 {
			p.text(" else ")
		}
		p.text("if ").append(b.cond)
		add(b.body)
	}
	if last != nil {
		p.text(" else")
		add(last)
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
