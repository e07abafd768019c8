package types

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// conversion is a % of a format.
type conversion struct {
	start, end int    // in the format
	spec       string // d, s, rx …
}

// conversions reads the conversions of a format, %% left out. What is none is text.
func conversions(format string) []conversion {
	var list []conversion
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		j := i + 1
		for _, flag := range "-+ #0" { // each once, in this order
			if j < len(format) && format[j] == byte(flag) {
				j++
			}
		}
		j = width(format, j)
		if j+1 < len(format) && format[j] == '.' {
			if after := width(format, j+1); after > j+1 {
				j = after
			}
		}
		for j < len(format) && strings.IndexByte("hlLjzt", format[j]) >= 0 {
			j++
		}
		spec := specifier(format[j:])
		if spec == "" {
			continue
		}
		end := j + len(spec)
		if spec != "%" {
			list = append(list, conversion{i, end, spec})
		}
		i = end - 1
	}
	return list
}

func width(s string, i int) int {
	if i < len(s) && s[i] == '*' {
		return i + 1
	}
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// specifier is the one that a text begins with, or "".
func specifier(s string) string {
	for _, two := range []string{"gr", "rh", "rx"} {
		if strings.HasPrefix(s, two) {
			return two
		}
	}
	if s != "" && strings.IndexByte("diouxXeEfFGaAcspn%gr", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}

// format checks the arguments of printf and the like against the format.
func (c *useChecker) format(n *syntax.Call) {
	f, ok := n.Args[0].(*syntax.String)
	if !ok {
		return
	}
	specs, args := conversions(f.Value), n.Args[1:]
	counted := fmt.Sprintf(" arguments for format string (%d supplied, %d expected)", len(args),
		len(specs))
	switch {
	case len(args) < len(specs):
		c.fail(n, "not enough"+counted)
		return
	case len(args) > len(specs):
		c.fail(n, "too many"+counted)
		return
	}
	for i, s := range specs {
		t := c.types[args[i]]
		if msg := unfit(s.spec, t); msg != "" {
			c.fail(n, msg)
			return
		}
	}
	if n.Name != "debugf" {
		return
	}
	for i, s := range specs {
		want := Integer
		switch s.spec {
		case "d", "u", "x", "p":
		case "s":
			want = String
		default:
			c.fail(f, "Invalid format specifier for `debugf`: "+s.spec)
			continue
		}
		if c.types[args[i]].Kind != want {
			c.fail(args[i], "Type does not match format specifier: "+s.spec)
		}
	}
}

// unfit says why a value cannot be printed by a specifier, or nothing.
func unfit(spec string, t Type) string {
	fits := false
	switch spec {
	case "d", "i", "u", "o", "x", "X", "c", "p", "gr":
		fits = t.Kind == Integer || t.Kind == Bool || t.Kind == Pointer
	case "r", "rx", "rh":
		fits = t.Kind == Buffer
	case "s":
		fits = true
	default:
		if t.Kind != None && t.Kind != Void {
			return "unsupported format specifier: " + spec
		}
	}
	switch {
	case t.Kind == None || t.Kind == Void:
		return "unable to print none type for specifier: " + spec
	case !fits:
		return "unsupported format specifier for type '" + t.String() + "': " + spec
	}
	return ""
}

// failCall is an error that the script itself makes.
func (c *useChecker) failCall(n *syntax.Call) {
	for _, a := range n.Args {
		if !literal(a) {
			c.fail(n, "fail() arguments need to be literals")
			return
		}
	}
	f, ok := n.Args[0].(*syntax.String)
	if !ok {
		c.fail(n, "first argument to fail() must be a string literal")
		return
	}
	var b strings.Builder
	at := 0
	specs := conversions(f.Value)
	for i, s := range specs {
		if i+1 >= len(n.Args) {
			break
		}
		b.WriteString(strings.ReplaceAll(f.Value[at:s.start], "%%", "%"))
		b.WriteString(shown(n.Args[i+1], s.spec))
		at = s.end
	}
	b.WriteString(strings.ReplaceAll(f.Value[at:], "%%", "%"))
	c.fail(n, b.String())
}

// shown is a literal as fail prints it.
func shown(x syntax.Expr, spec string) string {
	switch x := x.(type) {
	case *syntax.Integer:
		return decimal(x)
	case *syntax.String:
		return x.Value
	case *syntax.Boolean:
		if spec != "s" {
			return strconv.Itoa(number(x.Value))
		}
		return strconv.FormatBool(x.Value)
	}
	return ""
}
