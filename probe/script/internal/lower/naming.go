package lower

import (
	"slices"
	"strings"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// named are the functions whose text is a name of a number. Programs keep the number, and whoever
// prints it has the name: of a value that is printed, of a map's value, or of a part of its key. Its
// type is an integer whose Mode is the function. The time of strftime() likewise is a number, with
// the format as its type's Name.
var named = map[string]bool{"strerror": true, "signal_name": true, "syscall_name": true, "comm": true}

// isNamed reports whether a call's text is a name of its argument. That of the current process or thread is
// in the kernel.
func isNamed(c *syntax.Call) bool {
	return len(c.Args) == 1 && named[builtinName(c.Name)] && ofCurrent(c) == ""
}

// ofCurrent returns the builtin that comm() of the current process or thread is, "" if a call is another one.
func ofCurrent(c *syntax.Call) string {
	if builtinName(c.Name) != "comm" || len(c.Args) != 1 {
		return ""
	}
	x := c.Args[0]
	if of, ok := x.(*syntax.Cast); ok {
		x = of.X
	}
	if id, ok := x.(*syntax.Builtin); ok {
		return map[string]string{"pid": "leader_comm", "tid": "comm"}[builtinName(id.Name)]
	}
	return ""
}

// typ returns the type of an expression, with numbers in place of the names of numbers.
func (l *lowerer) typ(x syntax.Expr) types.Type {
	t := withRecords(l.typed.Type(x))
	switch x := x.(type) {
	case *syntax.Call:
		switch name := builtinName(x.Name); {
		case isNamed(x):
			return types.Type{Kind: types.Integer, Size: 8, Signed: true, Mode: name}
		case name == "strftime" && t.Kind == types.Timestamp:
			if s, ok := x.Args[0].(*syntax.String); ok {
				t.Name = s.Value
			}
		}
	case *syntax.Cast: // a text of another size
		if of := l.typ(x.X); hasNames(of) && of.Kind == types.Integer && t.Kind == types.String {
			return of
		}
	case *syntax.Variable:
		v := l.find(x.Name)
		if of, ok := l.varNames[v]; ok {
			return of
		}
		if of, ok := l.assigned[x.Name]; ok && v == nil {
			return of
		}
	case *syntax.If:
		if x.Then == nil || x.Else == nil {
			break
		}
		if of := l.typ(x.Then); hasNames(of) && sameNames(of, l.typ(x.Else)) {
			return of
		}
	case *syntax.MapAccess:
		if v, ok := l.valueTypes[x.Map.Name]; ok {
			return v
		}
	case *syntax.Tuple:
		for i, e := range x.Elems {
			if of := l.typ(e); hasNames(of) && i < len(t.Fields) {
				t.Fields = slices.Clone(t.Fields)
				t.Fields[i].Type = of
			}
		}
	}
	return t
}

func builtinName(name string) string { return strings.TrimPrefix(name, "__builtin_") }

// onlyText reports whether none of the expressions has names of numbers, or all have the same.
func (l *lowerer) onlyText(n syntax.Node, xs ...syntax.Expr) bool {
	for _, x := range xs {
		if a, b := l.typ(xs[0]), l.typ(x); (hasNames(a) || hasNames(b)) && !sameNames(a, b) {
			l.missing(n, "the name of a number beside other text")
			return false
		}
	}
	return true
}

// numberOf is the number of a name.
func (l *lowerer) numberOf(c *syntax.Call) *ir.Expr {
	return castTo(ir.Int64Type(), l.expr(c.Args[0]))
}

// stored are types of maps' keys, or values, that have names of numbers.
type stored struct {
	types map[string]types.Type
	plain map[string]bool // maps that store another type
}

// see adds the type of what is stored in a map: all of it has names, or none.
func (s *stored) see(l *lowerer, m *syntax.Map, x syntax.Expr) {
	t := l.typ(x)
	was, known := s.types[m.Name]
	switch {
	case !hasNames(t):
		s.plain[m.Name] = true
	case !known:
		s.types[m.Name] = t
		was = t
	}
	if _, known = s.types[m.Name]; known && (s.plain[m.Name] || !sameNames(was, t)) {
		l.missing(x, "the name of a number in a map that has other text, too,")
	}
}

// assignedNames finds the variables, by name, to which names of numbers are assigned.
func (l *lowerer) assignedNames() map[string]types.Type {
	out := map[string]types.Type{}
	for n := range syntax.All(l.typed.File) {
		a, ok := n.(*syntax.Assign)
		if !ok {
			continue
		}
		target := a.Target
		if d, ok := target.(*syntax.VarDecl); ok {
			target = d.Var
		}
		if v, ok := target.(*syntax.Variable); ok {
			if t := l.typ(a.Value); hasNames(t) {
				out[v.Name] = t
			}
		}
	}
	return out
}

// storedTypes finds the maps whose keys or values have names of numbers.
func (l *lowerer) storedTypes() (keys, values map[string]types.Type) {
	l.assigned = l.assignedNames()
	defer func() { l.assigned = nil }()
	k := &stored{map[string]types.Type{}, map[string]bool{}}
	v := &stored{map[string]types.Type{}, map[string]bool{}}
	for n := range syntax.All(l.typed.File) {
		switch n := n.(type) {
		case *syntax.Assign:
			if m, ok := n.Target.(*syntax.MapAccess); ok {
				v.see(l, m.Map, n.Value)
			}
		case *syntax.MapAccess:
			k.see(l, n.Map, n.Key)
		case *syntax.Call:
			if len(n.Args) > 1 && (aggregations[n.Name] != ir.AggNone || n.Name == "delete" || n.Name == "has_key") {
				if m, ok := n.Args[0].(*syntax.Map); ok {
					k.see(l, m, n.Args[1])
				}
			}
		}
	}
	return k.types, v.types
}

// hasNames reports whether a type, or a part of it, is a number that has a name.
func hasNames(t types.Type) bool {
	if t.Kind == types.Integer && named[t.Mode] || t.Kind == types.Timestamp && t.Name != "" {
		return true
	}
	for _, f := range t.Fields {
		if t.Kind == types.Tuple && hasNames(f.Type) {
			return true
		}
	}
	return false
}

// sameNames reports whether two types have the same names.
func sameNames(a, b types.Type) bool {
	if a.Kind != types.Tuple || b.Kind != types.Tuple || len(a.Fields) != len(b.Fields) {
		return a.Kind == b.Kind && a.Mode == b.Mode && a.Name == b.Name
	}
	for i := range a.Fields {
		if !sameNames(a.Fields[i].Type, b.Fields[i].Type) {
			return false
		}
	}
	return true
}
