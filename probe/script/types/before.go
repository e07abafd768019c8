package types

import (
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/internal/flow"
	"github.com/borescope/borescope/probe/script/syntax"
)

// before makes the checks that need no types: variables, numbers of arguments, literals.
func (c *checker) before() {
	c.top(func(n syntax.Node) { flow.Variables(n, c.say) })
	for n := range syntax.All(c.file) {
		where, x := "", syntax.Node(nil)
		switch n := n.(type) {
		case *syntax.Offsetof:
			where, x = "offsetof", n.X
		case *syntax.Sizeof:
			where, x = "sizeof", n.X
		case *syntax.TypeOf:
			where, x = "typeof or typeinfo", n.X
		}
		if x == nil {
			continue
		}
		for in := range syntax.All(x) {
			if a, ok := in.(*syntax.Assign); ok {
				if _, isMap := a.Target.(*syntax.MapAccess); isMap {
					c.fail(a, "Map assignments not allowed inside of "+where)
				}
			}
		}
	}
	c.top(func(n syntax.Node) {
		p, _ := n.(*syntax.Probe)
		(&callChecker{checker: c, probe: p}).visit(n)
	})
}

// callChecker makes the checks of calls that need no types.
type callChecker struct {
	*checker
	probe *syntax.Probe
	call  string
	arg   int
}

func (c *callChecker) visit(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if c.full() {
			return false
		}
		switch n := n.(type) {
		case *syntax.Call:
			c.check(n)
			return false
		case *syntax.Identifier:
			c.identifier(n)
		case *syntax.String:
			c.text(n)
		case *syntax.Unroll:
			c.unroll(n)
		}
		return true
	})
}

func (c *callChecker) identifier(n *syntax.Identifier) {
	switch c.call {
	case "pid", "tid":
		if n.Name != "curr_ns" && n.Name != "init" {
			c.fail(n, "Invalid PID namespace mode: "+n.Name+" (expects: curr_ns or init)")
		}
	case "signal":
		if n.Name != "current_pid" && n.Name != "current_tid" {
			c.fail(n, "Invalid signal target: "+n.Name+" (expects: current_pid or current_tid)")
		}
	}
}

func (c *callChecker) text(n *syntax.String) {
	switch c.call {
	case "printf", "errorf", "warnf":
		if c.arg == 0 {
			return
		}
	case "cgroupid":
		return
	}
	if uint64(len(n.Value)) > c.maxString-1 {
		c.fail(n, "String is too long (over "+strconv.FormatUint(c.maxString, 10)+" bytes): "+
			n.Value[:min(len(n.Value), mostText)])
	}
}

func (c *callChecker) unroll(n *syntax.Unroll) {
	i, ok := n.Count.(*syntax.Integer)
	switch {
	case !ok || i.Negative:
		c.fail(n, "invalid unroll value")
	case i.Value > 100:
		c.fail(n, "unroll maximum value is 100")
	case i.Value < 1:
		c.fail(n, "unroll minimum value is 1")
	}
}

func (c *callChecker) check(n *syntax.Call) {
	name, row := builtinName(n.Name), rowOf(n.Name)
	if row.Unsafe && !row.Library && !c.unsafe {
		c.fail(n, name+"() is an unsafe function being used in safe mode")
	}
	if c.probe != nil && !row.Own {
		for _, a := range c.probe.Points {
			if !row.In(a.Provider) {
				c.fail(n, n.Name+" can not be used with \""+a.Provider+"\" probes")
			}
		}
	}
	switch {
	case row.Most == 0:
	case row.Macro && (len(n.Args) < row.Least || len(n.Args) > row.Most):
		c.fail(n, "Call to "+name+"() has arguments that do not match any definition.")
		return
	case !row.Macro && !c.count(n, row.Least, row.Most):
		return
	}
	outer := c.call
	c.call = name
	for i, a := range n.Args {
		c.arg = i
		c.visit(a)
	}
	c.call, c.arg = outer, -1
	if len(n.Args) > 0 && (name == "clear" || name == "zero") {
		if _, ok := n.Args[0].(*syntax.Map); !ok {
			c.fail(n.Args[0], name+"() expects a map argument")
		}
	}
	c.literals(n, name)
}

// count checks the number of arguments of a call, and reports whether it is right.
func (c *callChecker) count(n *syntax.Call, least, most int) bool {
	extra := c.injected[n]
	got := len(n.Args) - extra
	least, most = least-extra, most-extra
	said := " (" + strconv.Itoa(got) + " provided)"
	switch {
	case got >= least && got <= most:
		return true
	case least == most && most == 0, got > most && most == 0:
		c.fail(n, n.Name+"() requires no arguments"+said)
	case least == most && most == 1:
		c.fail(n, n.Name+"() requires one argument"+said)
	case least == most:
		c.fail(n, n.Name+"() requires "+strconv.Itoa(least)+" arguments"+said)
	case got < least && least == 1:
		c.fail(n, n.Name+"() requires at least one argument"+said)
	case got < least:
		c.fail(n, n.Name+"() requires at least "+strconv.Itoa(least)+" arguments"+said)
	case most == 1:
		c.fail(n, n.Name+"() takes up to one argument"+said)
	default:
		c.fail(n, n.Name+"() takes up to "+strconv.Itoa(most)+" arguments"+said)
	}
	return false
}

// natural returns the value of an integer literal that is not negative.
func natural(x syntax.Expr) (uint64, bool) {
	i, ok := x.(*syntax.Integer)
	if !ok || i.Negative {
		return 0, false
	}
	return i.Value, true
}

func symbolName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"+
		"0123456789./_-") == ""
}
