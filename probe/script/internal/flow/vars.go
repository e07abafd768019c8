package flow

import "github.com/borescope/borescope/probe/script/syntax"

// Variables checks that the variables of a probe or function are declared or assigned before
// they are used, and declared only once.
func Variables(n syntax.Node, report Report) {
	v := &varChecker{checker: checker{report}, vars: map[syntax.Node]map[string]*varInfo{}}
	v.visit(n)
	v.unassigned()
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
	scopes []syntax.Node
	vars   map[syntax.Node]map[string]*varInfo
	order  []*syntax.VarDecl
	meta   int // depth within sizeof, typeof …
}

func (c *varChecker) find(name string) *varInfo {
	for _, s := range c.scopes {
		if v := c.vars[s][name]; v != nil {
			return v
		}
	}
	return nil
}

func (c *varChecker) add(name string, v *varInfo) {
	s := c.scopes[len(c.scopes)-1]
	if c.vars[s] == nil {
		c.vars[s] = map[string]*varInfo{}
	}
	c.vars[s][name] = v
	if d, ok := v.origin.(*syntax.VarDecl); ok {
		c.order = append(c.order, d)
	}
}

func (c *varChecker) unassigned() {
	for _, d := range c.order {
		for _, vars := range c.vars {
			if v := vars[d.Var.Name]; v != nil && v.origin == d && !v.assigned {
				c.warn(d, "Variable "+d.Var.Name+" was never assigned to.")
			}
		}
	}
}

// visit checks a node and its descendants.
func (c *varChecker) visit(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Probe:
			c.in(n, n.Body)
			return false
		case *syntax.Func:
			c.function(n)
			return false
		case *syntax.Block:
			c.scopes = append(c.scopes, n)
			for _, s := range n.Stmts {
				c.visit(s)
			}
			if n.Value != nil {
				c.visit(n.Value)
			}
			c.scopes = c.scopes[:len(c.scopes)-1]
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

func (c *varChecker) in(scope, body syntax.Node) {
	c.scopes = append(c.scopes, scope)
	c.visit(body)
	c.scopes = c.scopes[:len(c.scopes)-1]
}

func (c *varChecker) function(n *syntax.Func) {
	c.scopes = append(c.scopes, n)
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
	c.scopes = c.scopes[:len(c.scopes)-1]
}

func (c *varChecker) loop(n *syntax.For) {
	if v := c.find(n.Var.Name); v != nil {
		e := c.fail(n.Var, "Loop declaration shadows existing variable: "+n.Var.Name)
		e.Notes = []syntax.Note{{Loc: *v.origin.At(), Msg: v.why}}
	}
	c.visit(n.Over)
	c.scopes = append(c.scopes, n)
	c.add(n.Var.Name, &varInfo{n.Var, "This is the loop variable.", true})
	c.visit(n.Body)
	c.scopes = c.scopes[:len(c.scopes)-1]
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
