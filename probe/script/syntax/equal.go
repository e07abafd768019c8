package syntax

import (
	"reflect"
	"slices"
)

// Equal reports whether two trees are the same except for their locations. Numbers are the
// same if their values are, however they are written.
func Equal(a, b Node) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if reflect.TypeOf(a) != reflect.TypeOf(b) || nameOf(a) != nameOf(b) || !sameFields(a, b) {
		return false
	}
	var others []Node
	b.children(func(n Node) Node {
		others = append(others, n)
		return nil
	})
	same, i := true, 0
	a.children(func(n Node) Node {
		same = same && i < len(others) && Equal(n, others[i])
		i++
		return nil
	})
	return same && i == len(others)
}

// nameOf returns the text that a node contains, "" if it contains none.
func nameOf(n Node) string {
	switch n := n.(type) {
	case *File:
		return n.Header
	case *C:
		return n.Text
	case *ConfigVar:
		return n.Name
	case *Import:
		return n.Path
	case *Macro:
		return n.Name
	case *Func:
		return n.Name
	case *MapDecl:
		return n.Name
	case *AttachPoint:
		return n.Text
	case *Assign:
		return n.Op
	case *Jump:
		return n.Keyword
	case *String:
		return n.Value
	case *Builtin:
		return n.Name
	case *Identifier:
		return n.Name
	case *Variable:
		return n.Name
	case *Map:
		return n.Name
	case *NamedArg:
		return n.Name
	case *Binary:
		return n.Op
	case *Unary:
		return n.Op
	case *Call:
		return n.Name
	case *Field:
		return n.Name
	case *Type:
		return n.Name
	}
	return ""
}

// sameFields compares the remaining fields of two nodes of one type, except for children.
func sameFields(a, b Node) bool {
	switch a := a.(type) {
	case *MapDecl:
		b := b.(*MapDecl)
		return a.Kind == b.Kind && a.Entries == b.Entries
	case *Probe: // a missing child would not show among the others
		return (a.Pred == nil) == (b.(*Probe).Pred == nil)
	case *If:
		return (a.Then == nil) == (b.(*If).Then == nil)
	case *Integer:
		b := b.(*Integer)
		return a.Value == b.Value && a.Negative == b.Negative
	case *Boolean:
		return a.Value == b.(*Boolean).Value
	case *Param:
		return a.N == b.(*Param).N
	case *Unary:
		return a.Postfix == b.(*Unary).Postfix
	case *Element:
		return a.N == b.(*Element).N
	case *Offsetof:
		return slices.Equal(a.Fields, b.(*Offsetof).Fields)
	case *Type:
		b := b.(*Type)
		return a.Kind == b.Kind && a.Len == b.Len && a.Open == b.Open
	}
	return true
}
