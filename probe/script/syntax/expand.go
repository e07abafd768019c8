package syntax

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the expansion of macros.
const (
	mostNodes = 25_000 // nodes of a script with those that expansion adds
	mostCalls = 100    // nested uses of macros, or of #define lines
)

// ExpandOptions are the options of [Expand].
type ExpandOptions struct {
	// Builtin reports whether the language's library has a name. A use that matches no macro
	// of that name is then left to the library. Nil: no names.
	Builtin func(name string) bool
	// Library returns the library's macros of a name, for uses that match no macro of the
	// script. Nil: none.
	Library func(name string) []*Macro
}

// Expand replaces the uses of macros by their blocks, and then the names that object-like
// #define lines define by their values, in all probes and functions. Variables of a macro are
// renamed, so that they are its own. Locations record what a node was expanded from. A script
// may expand to up to 25,000 nodes. The error is an [Errors]; use the file only if it is nil.
func Expand(f *File, o *ExpandOptions) error {
	e := &expansion{
		macros: map[string][]*Macro{}, defines: map[string]string{}, values: map[string]Expr{},
		left: mostNodes,
	}
	if o != nil {
		e.builtin, e.library = o.Builtin, o.Library
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *Macro:
			e.register(d)
		case *C:
			if name, value, ok := objectMacro(d); ok {
				e.defines[name] = value
			}
		}
	}
	if !e.take(f) {
		e.fail(f.Loc, "the script has more than "+strconv.Itoa(mostNodes)+" nodes: make it shorter")
		return e.errs
	}
	e.keepEnumerators(f)
	for _, d := range f.Decls {
		switch d.(type) {
		case *Probe, *Func:
			(&expander{expansion: e}).visit(d)
			if len(e.defines) > 0 {
				e.expandC(d)
			}
		}
	}
	if l := tooHigh(f); l != nil && len(e.errs) == 0 {
		e.fail(*l, "macros expand to too many operations in each other")
	}
	return e.errs.Err()
}

// expansion is the state that all expanders of a script share.
type expansion struct {
	builtin func(string) bool
	library func(string) []*Macro
	macros  map[string][]*Macro
	defines map[string]string
	values  map[string]Expr // of the defines that were used; nil if it is no expression
	active  []string        // names of #define lines that are being expanded
	left    int             // number of nodes that may still be added; negative after the error
	errs    Errors
}

func (e *expansion) fail(l Loc, msg string, notes ...Note) {
	if len(e.errs) < mostErrors {
		e.errs = append(e.errs, &Error{Loc: l, Msg: msg, Notes: notes})
	}
}

// take counts the nodes of a tree, and reports whether the limit allows them.
func (e *expansion) take(n Node) bool {
	Walk(n, func(Node) bool {
		e.left--
		return e.left >= 0
	})
	return e.left >= 0
}

// over reports whether the limit on nodes or on errors was exceeded: what follows is of no use.
func (e *expansion) over() bool { return e.left < 0 || len(e.errs) >= mostErrors }

// clone copies the block or value of a macro, if the limit on nodes allows it.
func (e *expansion) clone(n Node, from *Loc) (Node, bool) {
	if e.over() {
		return nil, false
	}
	if !e.take(n) {
		e.fail(*from, "macros expand to more than "+strconv.Itoa(mostNodes)+" nodes, those of the "+
			"script included")
		return nil, false
	}
	return clone(n, from), true
}

// register adds a macro, unless it cannot be told from another, or two arguments have one
// name.
func (e *expansion) register(m *Macro) {
	for _, other := range e.macros[m.Name] {
		if other.distance(m.Args) == 0 {
			e.fail(m.Loc, "Redefinition of macro: "+m.Name,
				Note{other.Loc, "This is the original definition."})
			return
		}
	}
	seen := map[string]bool{}
	for _, a := range m.Args {
		kind, name := "Ident", ""
		switch a := a.(type) {
		case *Variable:
			kind, name = "Variable", a.Name
		case *Map:
			kind, name = "Map", a.Name
		case *Identifier:
			name = a.Name
		}
		if seen[name] {
			e.fail(*a.At(), kind+" for macro argument has already been used: "+name)
			return
		}
		seen[name] = true
	}
	e.macros[m.Name] = append(e.macros[m.Name], m)
}

// distance returns how far arguments are from those that the macro takes, 0 if they match. A
// difference in number counts more than one in kind.
func (m *Macro) distance(args []Expr) int {
	d := 1024 * max(len(m.Args)-len(args), len(args)-len(m.Args))
	for i := range min(len(m.Args), len(args)) {
		switch m.Args[i].(type) {
		case *Map:
			if _, ok := args[i].(*Map); !ok {
				d++
			}
		case *Variable:
			if _, ok := args[i].(*Variable); !ok {
				d++
			}
		}
	}
	return d
}

// lookup returns the macro that the arguments match, or else the first of the closest ones.
func (e *expansion) lookup(name string, args []Expr) (fits, closest *Macro) {
	macros, least := e.macros[name], 0
	if e.library != nil {
		macros = append(macros[:len(macros):len(macros)], e.library(name)...)
	}
	for _, m := range macros {
		switch d := m.distance(args); {
		case d == 0:
			return m, nil
		case closest == nil || d < least:
			closest, least = m, d
		}
	}
	return nil, closest
}

// expander expands nodes of the script, or of the block of a macro that is being expanded.
type expander struct {
	*expansion
	stack  []*Macro
	keep   bool              // it expands an argument, whose names are not the macro's
	names  map[string]string // of the arguments that are variables and maps
	own    map[string]bool   // the macro's own variables
	passed map[string]Expr   // the arguments that are expressions
}

// inMacro reports whether the names in a node are the macro's.
func (e *expander) inMacro() bool { return len(e.stack) > 0 && !e.keep }

// visit expands a node. It returns the node's replacement, or nil.
func (e *expander) visit(n Node) Node {
	if e.over() {
		return nil
	}
	switch n := n.(type) {
	case *Assign:
		if v, ok := n.Target.(*Variable); ok && e.inMacro() && e.names[v.Name] == "" {
			e.own[v.Name] = true
		}
	case *VarDecl:
		if e.inMacro() {
			if e.names[n.Var.Name] != "" {
				e.fail(n.Loc, "Variable declaration shadows macro arg "+n.Var.Name)
				return nil
			}
			e.own[n.Var.Name] = true
		}
	case *Variable:
		if e.inMacro() {
			e.rename(n)
		}
	case *Map:
		if e.inMacro() {
			e.renameMap(n)
		}
	case *Sizeof:
		e.visitType(&n.X)
		return nil
	case *Offsetof:
		e.visitType(&n.X)
		return nil
	case *TypeOf:
		e.visitType(&n.X)
		return nil
	case *Identifier:
		return e.identifier(n)
	case *Call:
		n.children(e.visit)
		return e.use(n, n.Name, n.Args)
	}
	n.children(e.visit)
	return nil
}

// visitType expands an operand that may be a type: a name alone is not a macro there.
func (e *expander) visitType(n *Node) {
	if id, ok := (*n).(*Identifier); ok && e.passed[id.Name] == nil {
		return
	}
	if x := e.visit(*n); x != nil {
		*n = x
	}
}

func (e *expander) rename(v *Variable) {
	switch {
	case e.names[v.Name] != "":
		v.Name = e.names[v.Name]
	case e.own[v.Name]:
		prefix := "$$" + e.stack[len(e.stack)-1].Name
		if len(e.stack) > 1 {
			prefix += "_" + strconv.Itoa(len(e.stack))
		}
		v.Name = prefix + "_" + v.Name
	}
}

func (e *expander) renameMap(m *Map) {
	if name := e.names[m.Name]; name != "" {
		m.Name = name
		return
	}
	e.fail(m.Loc, "Unhygienic access to map: "+m.Name+
		". Maps must be passed into the macro as arguments.")
}

func (e *expander) identifier(id *Identifier) Node {
	x := e.passed[id.Name]
	if x == nil {
		return e.use(id, id.Name, nil)
	}
	c, ok := e.clone(x, &id.Loc)
	if !ok {
		return nil
	}
	inner := &expander{expansion: e.expansion, stack: e.stack, keep: true}
	if r := inner.visit(c); r != nil {
		return r
	}
	return c
}

// use expands a use of a macro. It returns nil if it is none.
func (e *expander) use(n Node, name string, args []Expr) Node {
	m, closest := e.lookup(name, args)
	if m == nil {
		if closest != nil && (e.builtin == nil || !e.builtin(name)) {
			e.mismatch(n, name, args, closest)
		}
		return nil
	}
	for i, s := range e.stack {
		if s == m {
			var chain strings.Builder
			for _, s := range e.stack[i:] {
				chain.WriteString(s.Name + " > ")
			}
			e.fail(*n.At(), "Recursive macro call detected. Call chain: "+chain.String()+m.Name)
			return nil
		}
	}
	if len(e.stack) >= mostCalls {
		e.fail(*n.At(), "more than "+strconv.Itoa(mostCalls)+" macros call each other")
		return nil
	}
	body, ok := e.clone(m.Body, n.At())
	if !ok {
		return nil
	}
	inner := &expander{
		expansion: e.expansion, stack: append(e.stack[:len(e.stack):len(e.stack)], m),
		names: map[string]string{}, own: map[string]bool{}, passed: map[string]Expr{},
	}
	inner.pass(m, n, args)
	body.children(inner.visit)
	return body
}

// pass binds the arguments of a use. Variables and maps that are passed as expressions are put
// in a block, so that the macro cannot change them.
func (e *expander) pass(m *Macro, use Node, args []Expr) {
	for i, a := range m.Args {
		switch a := a.(type) {
		case *Variable:
			e.names[a.Name] = args[i].(*Variable).Name
		case *Map:
			e.names[a.Name] = args[i].(*Map).Name
		case *Identifier:
			e.passed[a.Name] = args[i]
			switch args[i].(type) {
			case *Variable, *Map:
				e.passed[a.Name] = &Block{Loc: *use.At(), Value: args[i]}
			}
		}
	}
}

// mismatch reports why the arguments do not match the closest macro.
func (e *expansion) mismatch(n Node, name string, args []Expr, m *Macro) {
	msg := "Call to " + name + "() has arguments that do not match any definition."
	if len(m.Args) != len(args) {
		e.fail(*n.At(), msg, Note{m.Loc, fmt.Sprintf("The closest definition of %s() has a different "+
			"number of arguments. Expected: %d but got %d", m.Name, len(m.Args), len(args))})
		return
	}
	e.fail(*n.At(), msg)
	for i, a := range m.Args {
		want, name := "", ""
		switch a := a.(type) {
		case *Map:
			want, name = "map", a.Name
		case *Variable:
			want, name = "variable", a.Name
		default:
			continue
		}
		got := "an expression"
		switch args[i].(type) {
		case *Map:
			got = "a map"
		case *Variable:
			got = "a variable"
		}
		if got == "a "+want {
			got = "an expression" // as bpftrace reports it
		}
		e.fail(*args[i].At(), fmt.Sprintf("Mismatched arg. %s() expects a %s for arg %s but got %s.",
			m.Name, want, name, got), Note{*a.At(), "This is the argument in the closest definition."})
	}
}

// objectMacro parses #define NAME value.
func objectMacro(c *C) (name, value string, ok bool) {
	rest, ok := directive(c, "define")
	if !ok || c.Skipped {
		return "", "", false
	}
	n := 0
	for n < len(rest) && wordByte(rest[n]) {
		n++
	}
	if n == 0 || n < len(rest) && rest[n] == '(' {
		return "", "", false
	}
	return rest[:n], strings.TrimSpace(rest[n:]), true
}

// keepEnumerators drops the #define lines of names that are also enumerators of the script.
// Headers have such lines so that #ifdef finds the names. bpftrace resolves enumerators before
// it expands.
func (e *expansion) keepEnumerators(f *File) {
	if len(e.defines) == 0 {
		return
	}
	for _, d := range f.Decls {
		c, ok := d.(*C)
		if !ok || c.Skipped || strings.HasPrefix(c.Text, "#") {
			continue
		}
		_, rest, more := strings.Cut(c.Text, "enum")
		for more {
			var inner string
			if _, inner, more = strings.Cut(rest, "{"); !more {
				break
			}
			inner, rest, _ = strings.Cut(inner, "}")
			for name := range strings.SplitSeq(inner, ",") {
				name, _, _ = strings.Cut(name, "=")
				delete(e.defines, strings.TrimSpace(name))
			}
			_, rest, more = strings.Cut(rest, "enum")
		}
	}
}

// expandC replaces names that a #define line defines as an expression.
func (e *expansion) expandC(n Node) {
	n.children(func(n Node) Node {
		if e.over() {
			return nil
		}
		id, ok := n.(*Identifier)
		if !ok {
			e.expandC(n)
			return nil
		}
		value, ok := e.defines[id.Name]
		if !ok || value == "" {
			return nil
		}
		for _, a := range e.active {
			if a == id.Name {
				e.fail(id.Loc, "Macro recursion: "+strings.Join(e.active, "->"))
				return nil
			}
		}
		if len(e.active) >= mostCalls {
			e.fail(id.Loc, "more than "+strconv.Itoa(mostCalls)+" #define lines use each other")
			return nil
		}
		return e.define(id, value)
	})
}

// define parses the value of a name and returns it as an expression.
func (e *expansion) define(id *Identifier, value string) Node {
	x, parsed := e.values[id.Name]
	if !parsed { // once, however often the name is used
		p := newParser(id.Name, value)
		x = p.expression()
		p.layout()
		if !p.end() || p.failed() {
			x = nil
		}
		e.values[id.Name] = x
	}
	if x == nil {
		e.fail(id.Loc, "unable to expand macro as an expression: "+joinTokens(value))
		return nil
	}
	c, ok := e.clone(x, &id.Loc)
	if !ok {
		return nil
	}
	e.active = append(e.active, id.Name)
	holder := &ExprStmt{X: c.(Expr)}
	e.expandC(holder)
	e.active = e.active[:len(e.active)-1]
	return holder.X
}

// joinTokens removes the spaces between tokens, as bpftrace's errors do.
func joinTokens(s string) string {
	var b strings.Builder
	quoted := false
	for i := range len(s) {
		c := s[i]
		if c == '"' && (i == 0 || s[i-1] != '\\') {
			quoted = !quoted
		}
		if quoted || !anySpace(c) {
			b.WriteByte(c)
		}
	}
	return b.String()
}
