package syntax

import "slices"

// Clone returns a copy of a tree.
func Clone[N Node](n N) N { return clone(n, nil).(N) }

// clone copies a tree; with from, its nodes are expanded from that use of a macro.
func clone(n Node, from *Loc) Node {
	c := n.shallow()
	if from != nil {
		c.At().From = from
	}
	c.children(func(n Node) Node { return clone(n, from) })
	return c
}

func dup[T any](n *T) *T {
	c := *n
	return &c
}

func (n *File) shallow() Node {
	c := dup(n)
	c.Decls = slices.Clone(n.Decls)
	return c
}

func (n *Config) shallow() Node {
	c := dup(n)
	c.Vars = slices.Clone(n.Vars)
	return c
}

func (n *Macro) shallow() Node {
	c := dup(n)
	c.Args = slices.Clone(n.Args)
	return c
}

func (n *Func) shallow() Node {
	c := dup(n)
	c.Args = slices.Clone(n.Args)
	return c
}

func (n *Probe) shallow() Node {
	c := dup(n)
	c.Points = slices.Clone(n.Points)
	return c
}

func (n *Tuple) shallow() Node {
	c := dup(n)
	c.Elems = slices.Clone(n.Elems)
	return c
}

func (n *Record) shallow() Node {
	c := dup(n)
	c.Elems = slices.Clone(n.Elems)
	return c
}

func (n *Block) shallow() Node {
	c := dup(n)
	c.Stmts = slices.Clone(n.Stmts)
	return c
}

func (n *Call) shallow() Node {
	c := dup(n)
	c.Args = slices.Clone(n.Args)
	return c
}

func (n *C) shallow() Node           { return dup(n) }
func (n *ConfigVar) shallow() Node   { return dup(n) }
func (n *Import) shallow() Node      { return dup(n) }
func (n *FuncArg) shallow() Node     { return dup(n) }
func (n *MapDecl) shallow() Node     { return dup(n) }
func (n *AttachPoint) shallow() Node { return dup(n) }
func (n *ExprStmt) shallow() Node    { return dup(n) }
func (n *Discard) shallow() Node     { return dup(n) }
func (n *Jump) shallow() Node        { return dup(n) }
func (n *Assign) shallow() Node      { return dup(n) }
func (n *VarDecl) shallow() Node     { return dup(n) }
func (n *While) shallow() Node       { return dup(n) }
func (n *Unroll) shallow() Node      { return dup(n) }
func (n *For) shallow() Node         { return dup(n) }
func (n *Integer) shallow() Node     { return dup(n) }
func (n *String) shallow() Node      { return dup(n) }
func (n *Boolean) shallow() Node     { return dup(n) }
func (n *None) shallow() Node        { return dup(n) }
func (n *Builtin) shallow() Node     { return dup(n) }
func (n *Identifier) shallow() Node  { return dup(n) }
func (n *Param) shallow() Node       { return dup(n) }
func (n *ParamCount) shallow() Node  { return dup(n) }
func (n *Variable) shallow() Node    { return dup(n) }
func (n *Map) shallow() Node         { return dup(n) }
func (n *MapAccess) shallow() Node   { return dup(n) }
func (n *Addr) shallow() Node        { return dup(n) }
func (n *NamedArg) shallow() Node    { return dup(n) }
func (n *Range) shallow() Node       { return dup(n) }
func (n *Binary) shallow() Node      { return dup(n) }
func (n *Unary) shallow() Node       { return dup(n) }
func (n *If) shallow() Node          { return dup(n) }
func (n *Cast) shallow() Node        { return dup(n) }
func (n *Field) shallow() Node       { return dup(n) }
func (n *Index) shallow() Node       { return dup(n) }
func (n *Element) shallow() Node     { return dup(n) }
func (n *Comptime) shallow() Node    { return dup(n) }
func (n *Sizeof) shallow() Node      { return dup(n) }
func (n *Offsetof) shallow() Node    { return dup(n) }
func (n *TypeInfo) shallow() Node    { return dup(n) }
func (n *Type) shallow() Node        { return dup(n) }
func (n *TypeOf) shallow() Node      { return dup(n) }
