package syntax

import "strings"

// directive returns the text after the name of a preprocessor line, if the line has that name.
func directive(c *C, name string) (rest string, ok bool) {
	s, ok := strings.CutPrefix(c.Text, "#")
	if !ok {
		return "", false
	}
	s = strings.TrimLeft(s, " \t")
	if s, ok = strings.CutPrefix(s, name); !ok || s != "" && wordByte(s[0]) {
		return "", false
	}
	return strings.TrimSpace(s), true
}

// preprocessor evaluates #if and #define through the lines of a script.
type preprocessor struct {
	*scanner
	defined func(string) bool
	own     map[string]string // names that the script defines
	gone    map[string]bool   // names that #undef removed
	open    []branch
}

// branch is an #if that is open.
type branch struct {
	at      *C
	active  bool // its lines are included
	taken   bool // one of its branches was included
	outside bool // lines around it are included
}

// evaluate marks what #if, #ifdef and #ifndef exclude as skipped.
func (p *scriptParser) evaluate(f *File, defined func(string) bool) {
	pp := &preprocessor{
		scanner: &p.scanner, defined: defined, own: map[string]string{}, gone: map[string]bool{},
	}
	for _, d := range f.Decls {
		if c, ok := d.(*C); ok {
			pp.line(c)
		}
	}
	for _, b := range pp.open {
		pp.failAt(int(b.at.Start), int(b.at.End), "#if without #endif")
	}
}

func (pp *preprocessor) active() bool {
	return len(pp.open) == 0 || pp.open[len(pp.open)-1].active
}

// line processes a definition or a preprocessor line.
func (pp *preprocessor) line(c *C) {
	if rest, ok := directive(c, "ifdef"); ok {
		pp.enterIf(c, func() bool { return pp.isDefined(rest) })
	} else if rest, ok := directive(c, "ifndef"); ok {
		pp.enterIf(c, func() bool { return !pp.isDefined(rest) })
	} else if rest, ok := directive(c, "if"); ok {
		pp.enterIf(c, func() bool { return pp.condition(c, rest) })
	} else if rest, ok := directive(c, "elif"); ok {
		pp.orElse(c, func() bool { return pp.condition(c, rest) })
	} else if _, ok := directive(c, "else"); ok {
		pp.orElse(c, func() bool { return true })
	} else if _, ok := directive(c, "endif"); ok {
		if len(pp.open) == 0 {
			pp.failAt(int(c.Start), int(c.End), "#endif without #if")
			return
		}
		pp.open = pp.open[:len(pp.open)-1]
	} else if c.Skipped = !pp.active(); c.Skipped {
		return
	} else if rest, ok := directive(c, "undef"); ok {
		delete(pp.own, rest)
		pp.gone[rest] = true
	} else if name, value, ok := objectMacro(c); ok {
		pp.own[name] = value
	}
}

func (pp *preprocessor) enterIf(c *C, cond func() bool) {
	b := branch{at: c, outside: pp.active()}
	b.active = b.outside && cond()
	b.taken = b.active
	pp.open = append(pp.open, b)
}

func (pp *preprocessor) orElse(c *C, cond func() bool) {
	if len(pp.open) == 0 {
		pp.failAt(int(c.Start), int(c.End), "#else without #if")
		return
	}
	b := &pp.open[len(pp.open)-1]
	b.active = b.outside && !b.taken && cond()
	b.taken = b.taken || b.active
}

func (pp *preprocessor) isDefined(name string) bool {
	if _, ok := pp.own[name]; ok {
		return true
	}
	return !pp.gone[name] && pp.defined(name)
}

// condition evaluates the expression of #if: numbers, names that the script defines as
// numbers, other names, which are 0, defined, and operators.
func (pp *preprocessor) condition(c *C, text string) bool {
	p := newParser("", parenthesize(text))
	x := p.expression()
	p.layout()
	if !p.end() || p.failed() || tooHigh(x) != nil {
		pp.failAt(int(c.Start), int(c.End), "cannot evaluate #if "+text)
		return false
	}
	return pp.value(x) != 0
}

// parenthesize rewrites "defined X" as a call.
func parenthesize(text string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, "defined ")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		after = strings.TrimLeft(after, " \t")
		n := 0
		for n < len(after) && wordByte(after[n]) {
			n++
		}
		b.WriteString("defined")
		if n > 0 {
			b.WriteString("(" + after[:n] + ")")
		}
		text = after[n:]
	}
}

// value evaluates an expression. Operands and operators that #if does not support are 0.
func (pp *preprocessor) value(x Expr) int64 {
	switch x := x.(type) {
	case *Integer:
		return int64(x.Value)
	case *Identifier:
		n, err := ParseInteger(pp.own[x.Name])
		if err != nil {
			return 0
		}
		return int64(n)
	case *Call:
		if id, ok := one(x.Args).(*Identifier); ok && x.Name == "defined" && pp.isDefined(id.Name) {
			return 1
		}
	case *Unary:
		switch v := pp.value(x.X); x.Op {
		case "!":
			return truth(v == 0)
		case "-":
			return -v
		case "~":
			return ^v
		}
	case *Binary:
		return binaryValue(pp.value(x.X), x.Op, pp.value(x.Y))
	case *If:
		if x.Then != nil && pp.value(x.Cond) != 0 {
			return pp.value(x.Then)
		}
		return pp.value(x.Else)
	}
	return 0
}

func one(list []Expr) Expr {
	if len(list) != 1 {
		return nil
	}
	return list[0]
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func binaryValue(x int64, op string, y int64) int64 {
	switch op {
	case "||":
		return truth(x != 0 || y != 0)
	case "&&":
		return truth(x != 0 && y != 0)
	case "==":
		return truth(x == y)
	case "!=":
		return truth(x != y)
	case "<":
		return truth(x < y)
	case "<=":
		return truth(x <= y)
	case ">":
		return truth(x > y)
	case ">=":
		return truth(x >= y)
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "&":
		return x & y
	case "|":
		return x | y
	}
	return 0
}
