package types

import (
	"strconv"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

// misuse is a use of a map that contradicts its first use, with or without keys.
type misuse uint8

const (
	noKey  misuse = iota + 1 // used without a key
	hasKey                   // used with a key
	loop                     // used in a for
)

// aggregates reports whether a function is an aggregation, whose result must be assigned to a
// map.
func aggregates(name string) bool { return name == builtinName(name) && rowOf(name).Aggregation != "" }

// sugar expands bpftrace's short forms for maps: the key 0 of maps without keys, x += y, and
// the map and the key as the first arguments of aggregations.
func (c *checker) sugar() {
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node {
		if a, ok := n.(*syntax.Assign); ok && a.Op != "" {
			target, ok := a.Target.(syntax.Expr)
			if !ok {
				return nil
			}
			if !c.grow(target) {
				return nil
			}
			l := a.Loc
			l.Start, l.End = target.At().Start, a.Value.At().End
			a.Value = &syntax.Binary{Loc: l, X: syntax.Clone(target), Op: a.Op, Y: a.Value}
			a.Op = ""
		}
		return nil
	})
	if c.failed {
		return
	}
	raw := c.findScalars()
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node {
		m, ok := n.(*syntax.Map)
		if !ok || raw[m] {
			return nil
		}
		return &syntax.MapAccess{Loc: m.Loc, Map: m, Key: &syntax.Integer{Loc: m.Loc}}
	})
	if c.failed {
		return
	}
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node { return c.inject(n) })
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node {
		call, ok := n.(*syntax.Call)
		if !ok {
			return nil
		}
		switch {
		case aggregates(call.Name) && c.injected[call] == 0:
			c.fail(call, call.Name+"() must be assigned directly to a map")
		case call.Name == "is_scalar" && len(call.Args) == 1:
			m, ok := call.Args[0].(*syntax.Map)
			if !ok {
				c.fail(call, "is_scalar() expects a map for the first argument")
				return nil
			}
			scalar, known := c.scalar[m.Name]
			if !known {
				c.fail(call, "Unknown map: "+m.Name)
				return nil
			}
			return &syntax.Boolean{Loc: call.Loc, Value: scalar}
		}
		return nil
	})
}

// inject rewrites @m[k] = count() to _ = count(@m, k).
func (c *checker) inject(n syntax.Node) syntax.Node {
	a, ok := n.(*syntax.Assign)
	if !ok {
		return nil
	}
	m, ok := a.Target.(*syntax.MapAccess)
	if !ok {
		return nil
	}
	x := a.Value
	for {
		b, ok := x.(*syntax.Block)
		if !ok {
			break
		}
		x = b.Value
	}
	call, ok := x.(*syntax.Call)
	if !ok || !aggregates(call.Name) {
		return nil
	}
	call.Args = append([]syntax.Expr{m.Map, m.Key}, call.Args...)
	c.injected[call] = 2
	return &syntax.Discard{Loc: a.Loc, X: a.Value}
}

// findScalars determines from the first use of a map whether it has keys, and records the uses
// that contradict it. It returns the nodes that stand for a map itself rather than for its
// value.
func (c *checker) findScalars() (raw map[*syntax.Map]bool) {
	raw = map[*syntax.Map]bool{}
	var later []*syntax.TypeOf
	use := func(m *syntax.Map, scalar bool, bad misuse) {
		if was, known := c.scalar[m.Name]; !known {
			c.scalar[m.Name] = scalar
		} else if was != scalar {
			c.bad[m] = bad
		}
	}
	first := true
	var visit func(n syntax.Node) bool
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Macro, *syntax.MapDecl:
			return false
		case *syntax.TypeOf:
			if first {
				later = append(later, n)
				return false
			}
			if m, ok := n.X.(*syntax.Map); ok {
				if scalar, known := c.scalar[m.Name]; known && !scalar {
					raw[m] = true
					return false
				}
			}
		case *syntax.Addr:
			if m, ok := n.X.(*syntax.Map); ok {
				raw[m] = true
				return false
			}
		case *syntax.Call:
			return c.callScalars(n, raw, use, visit)
		case *syntax.For:
			if m, ok := n.Over.(*syntax.Map); ok {
				raw[m] = true
				use(m, false, loop)
				syntax.Walk(n.Body, visit)
				return false
			}
		case *syntax.MapAccess:
			raw[n.Map] = true
			use(n.Map, false, hasKey)
			syntax.Walk(n.Key, visit)
			return false
		case *syntax.Map:
			use(n, true, noKey)
		}
		return true
	}
	c.top(func(n syntax.Node) { syntax.Walk(n, visit) })
	first = false
	for i := 0; i < len(later); i++ {
		syntax.Walk(later[i], visit)
	}
	return raw
}

// callScalars processes a call whose first argument is a map itself.
func (c *checker) callScalars(n *syntax.Call, raw map[*syntax.Map]bool,
	use func(*syntax.Map, bool, misuse), visit func(syntax.Node) bool,
) bool {
	if n.Name != builtinName(n.Name) || !rowOf(n.Name).Map || len(n.Args) == 0 {
		return true
	}
	if a, ok := n.Args[0].(*syntax.MapAccess); ok && n.Name == "delete" && len(n.Args) == 1 {
		n.Args = []syntax.Expr{a.Map, a.Key} // the form of older scripts
	}
	m, ok := n.Args[0].(*syntax.Map)
	if !ok {
		return true
	}
	raw[m] = true
	switch n.Name {
	case "len":
		if _, known := c.scalar[m.Name]; !known {
			c.scalar[m.Name] = false
		}
	case "has_key", "find":
		if _, known := c.scalar[m.Name]; !known {
			c.scalar[m.Name] = false
		}
	case "delete":
		if _, known := c.scalar[m.Name]; !known {
			c.scalar[m.Name] = len(n.Args) == 1
		}
	case "is_scalar":
		if len(n.Args) != 1 {
			c.fail(n, "is_scalar() requires 1 argument ("+strconv.Itoa(len(n.Args))+" provided)")
		}
	}
	for _, a := range n.Args[1:] {
		syntax.Walk(a, visit)
	}
	return false
}

// options replaces the calls of getopt, which return options of the command line.
func (c *checker) options() {
	syntax.Rewrite(c.file, func(n syntax.Node) syntax.Node {
		call, ok := n.(*syntax.Call)
		if !ok || call.Name != "getopt" {
			return nil
		}
		return c.option(call)
	})
}

// Option is an option of a script's command line, which it reads with getopt.
type Option struct {
	Name    string
	Type    Type   // a bool, an integer, or a text
	Default string // the value of one that is not given, as text
	About   string // what it is for, "" if the script does not say it
}

func (c *checker) option(n *syntax.Call) syntax.Node {
	if len(n.Args) == 0 || len(n.Args) > 3 {
		c.fail(n, "The 'getopt' function can take a maximum of three arguments and a minimum of "+
			"one argument.")
		return nil
	}
	name, ok := n.Args[0].(*syntax.String)
	if !ok {
		c.fail(n.Args[0], "First argument to 'getopt' must be a string literal.")
		return nil
	}
	description := ""
	if len(n.Args) == 3 {
		d, ok := n.Args[2].(*syntax.String)
		if !ok {
			c.warn(n.Args[2], "Function 'getopt' requires the third parameter to be a string literal.")
			return nil
		}
		description = d.Value
	}
	t, value := simple(Bool, 1), "false"
	if len(n.Args) > 1 {
		switch d := n.Args[1].(type) {
		case *syntax.Boolean:
			value = strconv.FormatBool(d.Value)
		case *syntax.String:
			t, value = text(c.maxString), d.Value
		case *syntax.Integer:
			t, value = integer(8, d.Negative), fold.Decimal(d)
		default:
			c.fail(n.Args[1], "Second argument to 'getopt' must be a string literal, integer "+
				"literal, or a boolean literal.")
			return nil
		}
	}
	was, known := c.opts[name.Value]
	if known && (!was.Type.Equal(t) || was.Default != value) {
		c.fail(n, "Command line option '"+name.Value+"' needs to have the same default value in "+
			"all places it is used. Previous default value: "+was.Default)
		return nil
	}
	if description != "" && was.About != "" && was.About != description {
		c.fail(n, "Command line option '"+name.Value+"' must have the same description in all "+
			"places it's used. Hint: You can wrap it in a macro")
		return nil
	}
	if description == "" {
		description = was.About
	}
	c.opts[name.Value] = Option{name.Value, t, value, description}
	return &syntax.MapAccess{
		Loc: n.Loc, Map: &syntax.Map{Loc: n.Loc, Name: name.Value}, Key: &syntax.Integer{Loc: n.Loc},
	}
}
