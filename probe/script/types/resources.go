package types

import (
	"strings"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/syntax"
)

// resource checks that a map's histograms or series all have the same parameters, since a map
// has one of each.
func (c *useChecker) resource(n *syntax.Call, name string) {
	what := ""
	switch name {
	case "hist":
		what = "bits in a single hist"
	case "lhist", "tseries":
		what = name + " bounds in a single map"
	default:
		return
	}
	m, ok := n.Args[0].(*syntax.Map)
	if !ok {
		return
	}
	var b strings.Builder
	b.WriteString(name)
	for _, a := range n.Args[min(3, len(n.Args)):] { // after map, key and value
		switch a := a.(type) {
		case *syntax.Integer:
			b.WriteString(" " + fold.Decimal(a))
		case *syntax.String:
			b.WriteString(" " + a.Value)
		}
	}
	if name == "tseries" {
		b.WriteString(" of " + c.types.at(n.Args[2]).String())
	}
	if was, known := c.sizes[m.Name]; known && was != b.String() {
		c.fail(n, "Different "+what+" unsupported")
		return
	}
	c.sizes[m.Name] = b.String()
}
