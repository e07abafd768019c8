// Package typed defines the tree that the checker returns. The optimiser changes it, and the
// code generator and the interpreter read it.
//
// It looks like the tree of package ir and guarantees more: every node has its type, operands
// are converted if their types differ, arguments are replaced by their places, member paths
// by addresses and offsets, and sizes are final. Nodes may be shared, so do not write to a
// node that may be part of another tree.
package typed

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/probe/ir"
)

// These operations exist only in typed trees, in addition to those of package ir.
const (
	Load ir.Op = 0xf0 + iota // address: the scalar at Int bytes after it, or the Bits of that
	Ctx                      // the value at Place of the context
)

// Node is a typed expression. The first fields are those of ir.Expr. Positions in the source
// are only in statements.
type Node struct {
	Op   ir.Op
	Type ir.Type
	Args []*Node
	Int  int64
	Skip int
	Str  string
	Var  *ir.Var
	Map  *ir.Map

	// Site is the number with which the program's Failures has what fails here; 0 is none.
	Site uint32
	// Loose marks a constant without a type of its own: Type is provisional.
	Loose bool
	// Bits is the bit field that Load extracts; nil is none.
	Bits *BitField
	// Place is the place of Ctx's value.
	Place Place
}

// BitField is a bit field. Size is the width in bytes of the word that contains it. The word
// is shifted left by Shl bits and then right by Shr.
type BitField struct {
	Size     int
	Shl, Shr uint8
}

// Place is the place of a value in the context, and its size.
type Place struct {
	Kind PlaceKind
	Off  int
	Size int
}

// PlaceKind is the meaning of a Place's offset.
type PlaceKind uint8

// These are the kinds of places.
const (
	PlaceValue   PlaceKind = iota // a scalar of Size bytes at the offset
	PlaceAddr                     // the context's address plus the offset
	PlaceDataLoc                  // the address in a __data_loc at the offset
	PlaceRelLoc                   // the same, relative to the end of the __rel_loc
)

// Stmt is a typed statement. Its fields are those of ir.Stmt.
type Stmt struct {
	Op         ir.StmtOp
	X, Key     *Node
	Time       *Node
	Map        *ir.Map
	Var, Var2  *ir.Var
	Body, Else []*Stmt
	Max        int
	Delete     bool
	Flag       ir.MapFlag
	Text       string
	Thread     bool
	Off        bool
	Site       uint32
	Pos        ir.Pos
}

// New returns op of type t applied to args.
func New(op ir.Op, t ir.Type, args ...*Node) *Node { return &Node{Op: op, Type: t, Args: args} }

// NewLoad returns the load of a scalar of type t at off bytes after an address.
func NewLoad(t ir.Type, addr *Node, off int64) *Node {
	return &Node{Op: Load, Type: t, Args: []*Node{addr}, Int: off}
}

// NewCtx returns a value of the context.
func NewCtx(t ir.Type, p Place) *Node { return &Node{Op: Ctx, Type: t, Place: p} }

// Const reports whether n is a constant number.
func (n *Node) Const() bool { return n.Op == ir.OpConst }

// Untyped reports whether n is a constant that may take any type.
func (n *Node) Untyped() bool { return n.Const() && n.Loose }

// Key returns the key of an operation on a map, nil for a map without keys.
func (n *Node) Key() *Node {
	if len(n.Args) == 0 {
		return nil
	}
	return n.Args[0]
}

// Walk visits the node's operands, then the node. It does nothing if n is nil.
func (n *Node) Walk(visit func(*Node)) {
	if n == nil {
		return
	}
	for _, a := range n.Args {
		a.Walk(visit)
	}
	visit(n)
}

// Walk visits statements and their expressions in program order.
func Walk(list []*Stmt, stmt func(*Stmt), node func(*Node)) {
	for _, s := range list {
		stmt(s)
		s.Key.Walk(node)
		s.X.Walk(node)
		s.Time.Walk(node)
		Walk(s.Body, stmt, node)
		Walk(s.Else, stmt, node)
	}
}

// Vars returns the variables that a statement sets, without those of its blocks.
func (s *Stmt) Vars() []*ir.Var {
	vars := make([]*ir.Var, 0, 2)
	for _, v := range []*ir.Var{s.Var, s.Var2} {
		if v != nil {
			vars = append(vars, v)
		}
	}
	return vars
}

// maxPrinted bounds the nodes that String prints.
const maxPrinted = 2000

// String formats the node as ir.Expr does.
func (n *Node) String() string {
	left := maxPrinted
	return n.source(&left).String()
}

// source returns an expression that prints as n. Operations that ir does not have become
// names.
func (n *Node) source(left *int) *ir.Expr {
	if n == nil {
		return nil
	}
	if *left--; *left < 0 {
		return named("...")
	}
	e := &ir.Expr{Op: n.Op, Type: n.Type, Int: n.Int, Skip: n.Skip, Str: n.Str, Var: n.Var, Map: n.Map}
	for _, a := range n.Args {
		e.Args = append(e.Args, a.source(left))
	}
	switch n.Op {
	case Ctx:
		return named(fmt.Sprintf("ctx+%d", n.Place.Off))
	case Load:
		return named(fmt.Sprintf("*(%s)(%s+%d)", n.Type, e.Args[0], n.Int))
	}
	return e
}

// named returns an expression that prints as s: an enumerator prints as its name.
func named(s string) *ir.Expr { return &ir.Expr{Op: ir.OpEnum, Str: s} }

// Line returns the statement without its blocks, as ir.Stmt formats it.
func (s *Stmt) Line() string {
	left := maxPrinted
	return Line(&ir.Stmt{
		Op: s.Op, X: s.X.source(&left), Key: s.Key.source(&left), Map: s.Map, Var: s.Var, Var2: s.Var2,
		Max: s.Max, Delete: s.Delete, Flag: s.Flag, Thread: s.Thread, Off: s.Off, Text: s.Text,
		Time: s.Time.source(&left),
	})
}

// Line returns the first line of a statement: what precedes its blocks.
func Line(s *ir.Stmt) string {
	head := *s
	head.Body, head.Else = nil, nil
	line, _, _ := strings.Cut(head.String(), " {\n")
	return line
}
