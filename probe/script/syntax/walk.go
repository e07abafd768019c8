package syntax

import "iter"

// Walk calls visit for n and all nodes below it, a node before its children, in source order.
// If visit returns false, the node's children are skipped.
func Walk(n Node, visit func(Node) bool) {
	var each func(Node) Node // one for all nodes
	each = func(n Node) Node {
		if visit(n) {
			n.children(each)
		}
		return nil
	}
	each(n)
}

// All returns n and all nodes below it, in the order of Walk.
func All(n Node) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		more := true
		Walk(n, func(n Node) bool {
			more = more && yield(n)
			return more
		})
	}
}

// Rewrite calls f for all nodes below n, a node's children before the node, and replaces each
// node by f's result unless it is nil. A replacement must be of a kind that is allowed in its
// place, for example an expression for an expression; others are ignored.
func Rewrite(n Node, f func(Node) Node) {
	var each func(Node) Node // one for all nodes
	each = func(n Node) Node {
		n.children(each)
		return f(n)
	}
	n.children(each)
}

// sub calls f for a child that is an interface.
func sub[T Node](f func(Node) Node, p *T) {
	if any(*p) == nil {
		return
	}
	if n, ok := f(*p).(T); ok {
		*p = n
	}
}

// ptr calls f for a child that is a pointer and may be nil.
func ptr[S any, T interface {
	*S
	Node
}](f func(Node) Node, p *T,
) {
	if *p == nil {
		return
	}
	if n, ok := f(*p).(T); ok {
		*p = n
	}
}

func subs[T Node](f func(Node) Node, list []T) {
	for i := range list {
		sub(f, &list[i])
	}
}

func (n *File) children(f func(Node) Node)    { subs(f, n.Decls) }
func (*C) children(func(Node) Node)           {}
func (n *Config) children(f func(Node) Node)  { subs(f, n.Vars) }
func (*Import) children(func(Node) Node)      {}
func (*MapDecl) children(func(Node) Node)     {}
func (*AttachPoint) children(func(Node) Node) {}

func (n *ConfigVar) children(f func(Node) Node) { sub(f, &n.Value) }

func (n *Macro) children(f func(Node) Node) {
	subs(f, n.Args)
	ptr(f, &n.Body)
}

func (n *Func) children(f func(Node) Node) {
	subs(f, n.Args)
	ptr(f, &n.Result)
	ptr(f, &n.Body)
}

func (n *FuncArg) children(f func(Node) Node) {
	ptr(f, &n.Var)
	ptr(f, &n.Type)
}

func (n *Probe) children(f func(Node) Node) {
	subs(f, n.Points)
	sub(f, &n.Pred)
	ptr(f, &n.Body)
}

func (n *ExprStmt) children(f func(Node) Node) { sub(f, &n.X) }
func (n *Discard) children(f func(Node) Node)  { sub(f, &n.X) }
func (n *Jump) children(f func(Node) Node)     { sub(f, &n.Value) }

func (n *Assign) children(f func(Node) Node) {
	sub(f, &n.Target)
	sub(f, &n.Value)
}

func (n *VarDecl) children(f func(Node) Node) {
	ptr(f, &n.Var)
	ptr(f, &n.Type)
}

func (n *While) children(f func(Node) Node) {
	sub(f, &n.Cond)
	ptr(f, &n.Body)
}

func (n *Unroll) children(f func(Node) Node) {
	sub(f, &n.Count)
	ptr(f, &n.Body)
}

func (n *For) children(f func(Node) Node) {
	ptr(f, &n.Var)
	sub(f, &n.Over)
	ptr(f, &n.Body)
}

func (*Integer) children(func(Node) Node)    {}
func (*String) children(func(Node) Node)     {}
func (*Boolean) children(func(Node) Node)    {}
func (*None) children(func(Node) Node)       {}
func (*Builtin) children(func(Node) Node)    {}
func (*Identifier) children(func(Node) Node) {}
func (*Param) children(func(Node) Node)      {}
func (*ParamCount) children(func(Node) Node) {}
func (*Variable) children(func(Node) Node)   {}
func (*Map) children(func(Node) Node)        {}

func (n *MapAccess) children(f func(Node) Node) {
	ptr(f, &n.Map)
	sub(f, &n.Key)
}

func (n *Addr) children(f func(Node) Node)     { sub(f, &n.X) }
func (n *Tuple) children(f func(Node) Node)    { subs(f, n.Elems) }
func (n *Record) children(f func(Node) Node)   { subs(f, n.Elems) }
func (n *NamedArg) children(f func(Node) Node) { sub(f, &n.Value) }

func (n *Range) children(f func(Node) Node) {
	sub(f, &n.Begin)
	sub(f, &n.End)
}

func (n *Binary) children(f func(Node) Node) {
	sub(f, &n.X)
	sub(f, &n.Y)
}

func (n *Unary) children(f func(Node) Node) { sub(f, &n.X) }

func (n *If) children(f func(Node) Node) {
	sub(f, &n.Cond)
	sub(f, &n.Then)
	sub(f, &n.Else)
}

func (n *Block) children(f func(Node) Node) {
	subs(f, n.Stmts)
	sub(f, &n.Value)
}

func (n *Call) children(f func(Node) Node) { subs(f, n.Args) }

func (n *Cast) children(f func(Node) Node) {
	ptr(f, &n.Type)
	sub(f, &n.X)
}

func (n *Field) children(f func(Node) Node) { sub(f, &n.X) }

func (n *Index) children(f func(Node) Node) {
	sub(f, &n.X)
	sub(f, &n.I)
}

func (n *Element) children(f func(Node) Node)  { sub(f, &n.X) }
func (n *Comptime) children(f func(Node) Node) { sub(f, &n.X) }
func (n *Sizeof) children(f func(Node) Node)   { sub(f, &n.X) }
func (n *Offsetof) children(f func(Node) Node) { sub(f, &n.X) }
func (n *TypeInfo) children(f func(Node) Node) { ptr(f, &n.Type) }
func (n *Type) children(f func(Node) Node)     { ptr(f, &n.Elem) }
func (n *TypeOf) children(f func(Node) Node)   { sub(f, &n.X) }
