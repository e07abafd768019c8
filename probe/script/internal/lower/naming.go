package lower

import (
	"strings"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// named are the functions whose text is a name of a number. Programs keep the number, and whoever
// prints it has the name: of a value that is printed, or of a part of a map's key. Its type is an
// integer whose Mode is the function.
var named = map[string]bool{"strerror": true, "signal_name": true, "syscall_name": true}

// typ returns the type of an expression, with numbers in place of the names of numbers.
func (l *lowerer) typ(x syntax.Expr) types.Type {
	t := l.typed.Type(x)
	switch x := x.(type) {
	case *syntax.Call:
		if name := builtinName(x.Name); named[name] && len(x.Args) == 1 {
			return types.Type{Kind: types.Integer, Size: 8, Signed: true, Mode: name}
		}
	case *syntax.Cast: // a text of another size
		if of := l.typ(x.X); of.Kind == types.Integer && of.Mode != "" && t.Kind == types.String {
			return of
		}
	case *syntax.Tuple:
		for i, e := range x.Elems {
			if of := l.typ(e); of.Mode != "" && of.Kind == types.Integer && i < len(t.Fields) && t.Fields[i].Type.Kind == types.String {
				t.Fields = append([]types.Field(nil), t.Fields...)
				t.Fields[i].Type = of
			}
		}
	}
	return t
}

func builtinName(name string) string { return strings.TrimPrefix(name, "__builtin_") }

// number is the number of a name.
func (l *lowerer) numberOf(c *syntax.Call) *ir.Expr {
	return &ir.Expr{Op: ir.OpCast, Type: ir.Int64Type(), Args: []*ir.Expr{l.expr(c.Args[0])}}
}

// keyTypes finds the maps whose keys have names of numbers: all keys of a map have them, or none.
func (l *lowerer) keyTypes() map[string]types.Type {
	found, plain := map[string]types.Type{}, map[string]bool{}
	see := func(m *syntax.Map, key syntax.Expr) {
		t := l.typ(key)
		if !hasNames(t) {
			plain[m.Name] = true
		} else if _, known := found[m.Name]; !known {
			found[m.Name] = t
		}
		if _, known := found[m.Name]; known && (plain[m.Name] || !found[m.Name].Equal(t)) {
			l.missing(key, "a key that is a name of a number in one place and a text in another")
		}
	}
	for n := range syntax.All(l.typed.File) {
		switch n := n.(type) {
		case *syntax.MapAccess:
			see(n.Map, n.Key)
		case *syntax.Call:
			if len(n.Args) > 1 && (aggregations[n.Name] != ir.AggNone || n.Name == "delete" || n.Name == "has_key") {
				if m, ok := n.Args[0].(*syntax.Map); ok {
					see(m, n.Args[1])
				}
			}
		}
	}
	return found
}

// hasNames reports whether a type, or a part of it, is a number that has a name.
func hasNames(t types.Type) bool {
	if t.Kind == types.Integer && named[t.Mode] {
		return true
	}
	for _, f := range t.Fields {
		if t.Kind == types.Tuple && hasNames(f.Type) {
			return true
		}
	}
	return false
}
