package flow

import "github.com/borescope/borescope/probe/script/syntax"

// Variables checks that the variables of a probe or function are declared or assigned before
// they are used, and declared only once.
func Variables(n syntax.Node, report Report) {
	v := &varChecker{checker: checker{report: report}, vars: map[string]*varInfo{}}
	v.visit(n)
	for _, d := range v.order {
		if !d.assigned {
			n := d.origin.(*syntax.VarDecl)
			v.warn(n, "Variable "+n.Var.Name+" was never assigned to.")
		}
	}
}

// varInfo is a known variable.
type varInfo struct {
	origin   syntax.Node
	why      string // the text of the note for the origin
	assigned bool
}

// varChecker checks that variables are declared or assigned before they are used.
type varChecker struct {
	checker
	scopes [][]hidden          // of each open scope, what its variables hide
	vars   map[string]*varInfo // the visible variables
	order  []*varInfo          // those with a declaration
	meta   int                 // depth within sizeof, typeof …
}

// hidden is the variable of a name that is visible again after a scope, or nil.
type hidden struct {
	name string
	v    *varInfo
}

func (c *varChecker) find(name string) *varInfo { return c.vars[name] }

func (c *varChecker) add(name string, v *varInfo) {
	here := &c.scopes[len(c.scopes)-1]
	*here = append(*here, hidden{name, c.vars[name]})
	c.vars[name] = v
	if _, ok := v.origin.(*syntax.VarDecl); ok {
		c.order = append(c.order, v)
	}
}

func (c *varChecker) push() { c.scopes = append(c.scopes, nil) }

func (c *varChecker) pop() {
	here := c.scopes[len(c.scopes)-1]
	c.scopes = c.scopes[:len(c.scopes)-1]
	for i := len(here) - 1; i >= 0; i-- {
		if h := here[i]; h.v != nil {
			c.vars[h.name] = h.v
		} else {
			delete(c.vars, h.name)
		}
	}
}

// visit checks a node and its descendants.
func (c *varChecker) visit(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Probe:
			c.in(n.Body)
			return false
		case *syntax.Func:
			c.function(n)
			return false
		case *syntax.Block:
			c.push()
			for _, s := range n.Stmts {
				c.visit(s)
			}
			if n.Value != nil {
				c.visit(n.Value)
			}
			c.pop()
			return false
		case *syntax.For:
			c.loop(n)
			return false
		case *syntax.Assign:
			c.assign(n)
			return false
		case *syntax.VarDecl:
			c.declare(n)
			return false
		case *syntax.Addr:
			if v, ok := n.X.(*syntax.Variable); ok {
				c.address(v)
				return false
			}
		case *syntax.Variable:
			c.use(n)
		}
		return c.inspected(n)
	})
}

// inspected visits the operands of sizeof and the like, which are not evaluated.
func (c *varChecker) inspected(n syntax.Node) bool {
	var x syntax.Node
	switch n := n.(type) {
	case *syntax.Sizeof:
		x = n.X
	case *syntax.Offsetof:
		x = n.X
	case *syntax.TypeOf:
		x = n.X
	case *syntax.TypeInfo:
		x = n.Type
	default:
		return true
	}
	c.meta++
	c.visit(x)
	c.meta--
	return false
}

func (c *varChecker) in(body syntax.Node) {
	c.push()
	c.visit(body)
	c.pop()
}

func (c *varChecker) function(n *syntax.Func) {
	c.push()
	for _, a := range n.Args {
		c.add(a.Var.Name, &varInfo{a, "This is the function parameter.", true})
	}
	for _, a := range n.Args {
		c.visit(a.Type)
	}
	c.visit(n.Body)
	if n.Result != nil {
		c.visit(n.Result)
	}
	c.pop()
}

func (c *varChecker) loop(n *syntax.For) {
	if v := c.find(n.Var.Name); v != nil {
		e := c.fail(n.Var, "Loop declaration shadows existing variable: "+n.Var.Name)
		e.Notes = []syntax.Note{{Loc: *v.origin.At(), Msg: v.why}}
	}
	c.visit(n.Over)
	c.push()
	c.add(n.Var.Name, &varInfo{n.Var, "This is the loop variable.", true})
	c.visit(n.Body)
	c.pop()
}

func (c *varChecker) assign(n *syntax.Assign) {
	name := ""
	switch t := n.Target.(type) {
	case *syntax.VarDecl:
		c.visit(n.Value)
		c.declare(t)
		name = t.Var.Name
	case *syntax.Variable:
		c.visit(n.Value)
		name = t.Name
	default:
		c.visit(n.Target)
		c.visit(n.Value)
		return
	}
	if v := c.find(name); v != nil {
		v.assigned = true
	} else if len(c.scopes) > 0 {
		c.add(name, &varInfo{n, "This is the initial assignment.", true})
	}
}

func (c *varChecker) declare(n *syntax.VarDecl) {
	if n.Type != nil {
		c.visit(n.Type)
	}
	if v := c.find(n.Var.Name); v != nil {
		e := c.fail(n, "Variable "+n.Var.Name+
			" was already declared. Variable shadowing is not allowed.")
		e.Notes = []syntax.Note{{Loc: *v.origin.At(), Msg: v.why}}
		return
	}
	c.add(n.Var.Name, &varInfo{n, "This is the initial declaration.", false})
}

func (c *varChecker) address(n *syntax.Variable) {
	if v := c.find(n.Name); v != nil {
		v.assigned = true // maybe through the address
	} else {
		c.fail(n, "Undefined or undeclared variable: "+n.Name)
	}
}

func (c *varChecker) use(n *syntax.Variable) {
	if v := c.find(n.Name); v == nil {
		c.fail(n, "Undefined or undeclared variable: "+n.Name)
	} else if !v.assigned && c.meta == 0 {
		c.warn(n, "Variable used before it was assigned: "+n.Name)
	}
}
