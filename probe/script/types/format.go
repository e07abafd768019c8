package types

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/internal/printf"
	"github.com/borescope/borescope/probe/script/syntax"
)

// format checks the arguments of printf and similar functions against the format.
func (c *useChecker) format(n *syntax.Call) {
	f, ok := n.Args[0].(*syntax.String)
	if !ok {
		return
	}
	specs, args := printf.Conversions(f.Value), n.Args[1:]
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
		t := c.types.at(args[i])
		if msg := unfit(s.Spec, t); msg != "" {
			c.fail(n, msg)
			return
		}
	}
	if n.Name != "debugf" {
		return
	}
	for i, s := range specs {
		want := Integer
		switch s.Spec {
		case "d", "u", "x", "p":
		case "s":
			want = String
		default:
			c.fail(f, "Invalid format specifier for `debugf`: "+s.Spec)
			continue
		}
		if c.types.at(args[i]).Kind != want {
			c.fail(args[i], "Type does not match format specifier: "+s.Spec)
		}
	}
}

// unfit returns bpftrace's error for a value that a conversion specifier cannot print, "" if
// it can.
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

// failCall reports the error of the script's call of fail.
func (c *useChecker) failCall(n *syntax.Call) {
	for _, a := range n.Args {
		if !fold.Literal(a) {
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
	specs := printf.Conversions(f.Value)
	for i, s := range specs {
		if i+1 >= len(n.Args) {
			break
		}
		b.WriteString(strings.ReplaceAll(f.Value[at:s.Start], "%%", "%"))
		b.WriteString(shown(n.Args[i+1], s.Spec))
		at = s.End
	}
	b.WriteString(strings.ReplaceAll(f.Value[at:], "%%", "%"))
	c.fail(n, b.String())
}

// shown returns a literal as fail prints it.
func shown(x syntax.Expr, spec string) string {
	switch x := x.(type) {
	case *syntax.Integer:
		return fold.Decimal(x)
	case *syntax.String:
		return x.Value
	case *syntax.Boolean:
		if spec != "s" && x.Value {
			return "1"
		} else if spec != "s" {
			return "0"
		}
		return strconv.FormatBool(x.Value)
	}
	return ""
}
